/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs on a whole terminal, which is drawn anew once a second and at each key, and comes back as it
 * was whatever ends this.
 *
 * Thread rule: main thread; blocks until the user, the jobs or a signal end it.
 */
#ifndef RG_CMD_TOP_SCREEN_H
#define RG_CMD_TOP_SCREEN_H

#include "cmd/top/several.h"

/* Show these jobs; one: there is but one, whose page is the first and the last. readings: leave
 * after so many; 0: never. Where the jobs end, or the readings do, what was shown last stays on the
 * user's own screen. The exit code: 0, or 128 + n after signal n. */
int rg_top_screen(struct rg_top_jobs *jobs, bool one, int64_t readings);

#endif
