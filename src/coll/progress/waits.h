/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits on this node, for whom and since when: every rank looks at every entry once a second,
 * and the lowest one of a node that is not stopped itself speaks for it. From this stalls are
 * reported, a diagnosis is made (coll/observe), and crossed operations are found: one rank waits in
 * an allreduce of a name, another in an allgather (or any other kind) of the same name, each for
 * the other one. As kinds have names of their own, and operations of several may be in flight in
 * any order, neither is wrong by itself. But where each of two ranks lacks what the other has, a
 * thread of each has been waiting for seconds, and neither submits anything (on several nodes: the
 * same of all ranks of the two nodes), this will not end: everything in flight ends with -EINVAL
 * (-ECONNRESET on the nodes that hear of it from the coordinator), and the sentence names both
 * ranks and what they do.
 *
 * Thread rule: any thread; a small lock inside; nothing blocks.
 */
#ifndef RG_COLL_PROGRESS_WAITS_H
#define RG_COLL_PROGRESS_WAITS_H

#include "coll/progress/life/state.h"

struct rg_wait {
    uint32_t id;              /* entry */
    uint64_t epoch, since_ns; /* waits for ranks of this node; 0: for none */
    uint64_t offered_ns;      /* waits for other nodes since then; 0: for none. At a leader */
};

/* Whoever offers something notes the time by himself, maybe later than now was taken. */
static inline uint64_t rg_wait_age_ns(uint64_t now_ns, uint64_t since_ns)
{
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

/* n: ranks of the node. 0 or -ENOMEM. */
int rg_waits_create(int n, struct rg_waits **ret_waits);
void rg_waits_destroy(struct rg_waits *waits); /* NULL is fine */

/* Note what waits since when, and who is active. How long the longest has waited, in ms. */
uint64_t rg_waits_look(struct rg_progress *progress, uint64_t now_ns);
/* By the communication thread, some times a second: the observer may glance. Once a second the
 * same as above, then the observer is told of it, and crossed operations end. */
void rg_waits_tick(struct rg_progress *progress);
/* What a step of the job has taken so far, on average: the time between two uses of the name that
 * was used most. 0: there have been too few. */
uint64_t rg_waits_step_ns(const struct rg_progress *progress);

/* For how long this rank has been at the operation that it carries out now, which all have called;
 * *ret_id: its entry. 0: at none. As of the last look. */
uint64_t rg_waits_running_ns(struct rg_progress *progress, uint64_t now_ns, uint32_t *ret_id);
/* The r-th rank of this node has not looked for stalls for some seconds: it is stopped. */
bool rg_waits_stopped(const struct rg_view *view, int r, uint64_t now_ns);
/* The first entry from wait->id on that waited for something at the last look. False: none. */
bool rg_waits_next(struct rg_progress *progress, struct rg_wait *wait);
/* When the r-th rank of this node was first seen with its last submission; now_ns: not yet seen. */
uint64_t rg_waits_active_ns(struct rg_progress *progress, int r, uint64_t now_ns);
/* A thread of the r-th rank of this node has waited so long, and none has submitted anything. */
bool rg_waits_blocked(struct rg_progress *progress, int r, uint64_t now_ns, uint64_t limit_ns);

#endif
