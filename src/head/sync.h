/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --sync, from the option to what the session sends (launch/sync). An agent is never the head of
 * such a job: no plan's file has it.
 *
 * This header is internal to src/head. Thread rule: the loop's thread; making it blocks while files
 * are read.
 */
#ifndef RG_HEAD_SYNC_H
#define RG_HEAD_SYNC_H

#include <stdbool.h>

#include "base/error.h"
#include "job/job.h"

struct rg_sync;

#ifndef RG_AGENT
/* What job->sync says: where all ranks run here, only their directory; else all that hosts may
 * have to be sent, as it is now, for rg_head_sync_free. NULL: nothing is wanted. say: see
 * rg_sync_create. 0 or -errno with err. */
int rg_head_sync_prepare(struct rg_job *job, bool here,
                         void (*say)(void *arg, const char *text), void *arg,
                         struct rg_sync **ret_sync, struct rg_error *err);
void rg_head_sync_free(struct rg_sync *sync); /* NULL is fine */
#else
static inline int rg_head_sync_prepare(struct rg_job *job, bool here,
                                       void (*say)(void *arg, const char *text), void *arg,
                                       struct rg_sync **ret_sync, struct rg_error *err)
{
    (void) job, (void) here, (void) say, (void) arg, (void) ret_sync, (void) err;
    return 0;
}
static inline void rg_head_sync_free(struct rg_sync *sync)
{
    (void) sync;
}
#endif

#endif
