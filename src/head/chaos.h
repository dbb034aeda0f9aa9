/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults of a job (--chaos), from what the user wrote to what the session lets happen. An agent
 * is never the head of such a job: no plan's file has them.
 *
 * This header is internal to src/head. Thread rule: the loop's thread.
 */
#ifndef RG_HEAD_CHAOS_H
#define RG_HEAD_CHAOS_H

#include "head/show/presenter.h"
#include "job/chaos/chaos.h"

#ifndef RG_AGENT
/* With a plan at hand: refuse what names a rank or host that a fixed job does not have, let chance
 * choose and say what it chose, and put into the job's environment what ranks do by themselves. 0
 * and the events, for rg_head_chaos_free, or NULL where there are none; -errno with err. */
int rg_head_chaos_prepare(struct rg_planned *planned, struct rg_chaos **ret_chaos,
                          struct rg_error *err);
/* The job is over: whoever waits for a fault should know that there was none. NULL is fine. */
void rg_head_chaos_tell_idle(const struct rg_chaos *chaos, struct rg_presenter *shown);
void rg_head_chaos_free(struct rg_chaos *chaos); /* NULL is fine */
#else
static inline int rg_head_chaos_prepare(struct rg_planned *planned, struct rg_chaos **ret_chaos,
                                        struct rg_error *err)
{
    (void) planned;
    (void) ret_chaos;
    (void) err;
    return 0;
}
static inline void rg_head_chaos_tell_idle(const struct rg_chaos *chaos,
                                           struct rg_presenter *shown)
{
    (void) chaos;
    (void) shown;
}
static inline void rg_head_chaos_free(struct rg_chaos *chaos)
{
    (void) chaos;
}
#endif

#endif
