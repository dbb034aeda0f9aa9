/* SPDX-License-Identifier: Apache-2.0 */
/* Readings for pipes, files and programs. Thread rule: main thread; blocks. */
#ifndef RG_CMD_TOP_BATCH_H
#define RG_CMD_TOP_BATCH_H

#include "cmd/top/several.h"

/* Print so many readings of these jobs, one a second, as tables, or as lines of JSON; fewer where
 * all jobs end before. one: there is but one job. The exit code. */
int rg_top_batch(struct rg_top_jobs *jobs, bool one, int64_t readings, bool json);

#endif
