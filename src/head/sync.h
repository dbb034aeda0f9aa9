/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory that goes with a job (--sync), as it is when the job begins: all starts of the job
 * have the same. An agent is never the head of such a job: no plan's file has it.
 *
 * This header is internal to src/head. Thread rule: main thread, before the loop. Blocks for the
 * disk.
 */
#ifndef RG_HEAD_SYNC_H
#define RG_HEAD_SYNC_H

#include "launch/plan/plan_file.h"

struct rg_snapshot;

#ifndef RG_AGENT
/* here: the ranks run on this computer, where the directory is, so nothing is done. Says what the
 * user should know. 0 and the snapshot, for rg_snapshot_free, or NULL where there is none; -errno
 * with err. */
int rg_head_sync_prepare(const struct rg_planned *planned, bool here,
                         struct rg_snapshot **ret_snapshot, struct rg_error *err);
void rg_head_sync_free(struct rg_snapshot *snapshot); /* NULL is fine */
#else
static inline int rg_head_sync_prepare(const struct rg_planned *planned, bool here,
                                       struct rg_snapshot **ret_snapshot, struct rg_error *err)
{
    (void) planned;
    (void) here;
    (void) ret_snapshot;
    (void) err;
    return 0;
}
static inline void rg_head_sync_free(struct rg_snapshot *snapshot)
{
    (void) snapshot;
}
#endif

#endif
