/* SPDX-License-Identifier: Apache-2.0 */
/* This header is internal to src/launch/sync. Thread rule: one thread. Blocks for the disk and
 * git. */
#ifndef RG_LAUNCH_SYNC_INTERNAL_H
#define RG_LAUNCH_SYNC_INTERNAL_H

#include "base/error.h"
#include "base/str.h"

/* Names of what is in dir, sorted, each once; some may have gone by now, or be no files. max: more
 * are refused, but max may be passed by some. remarks: that git was not asked, and why. 0; -E2BIG,
 * -ENOMEM or another -errno with err. */
int rg_sync_names(const char *dir, size_t max, struct rg_strv *names, struct rg_strv *remarks,
                  struct rg_error *err);

#endif
