/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of several nodes, seen from the progress engine: the leader offers what has arrived on its
 * node, remembers the epoch of what it has offered until that is decided, and puts what all leaders
 * have decided into its node's log. All of it is NULL, or does nothing, where there is one node,
 * and on ranks that are no leaders.
 *
 * Thread rule: under `drive`, but where it is said. Nothing blocks but rg_multi_create.
 */
#ifndef RG_COLL_PROGRESS_MULTI_H
#define RG_COLL_PROGRESS_MULTI_H

#include "coll/progress/life/state.h"

struct rg_order;

#define RG_CROSSED_NS (4 * RG_NS_PER_S) /* so long ranks wait before it is a deadlock */

/* At a leader: connect with the others until deadline_ns; progress->multi is there during the call,
 * and afterwards. 0 or -errno. */
int rg_multi_create(struct rg_progress *progress, uint64_t deadline_ns, struct rg_error *err);
void rg_multi_destroy(struct rg_multi *multi); /* NULL is fine */
void rg_multi_after_fork(struct rg_progress *progress);

/* Pass on what is to be passed on. True when something moved. While direct operations are in flight
 * most calls look after nothing else, unless rg_multi_hurry was called before. */
bool rg_multi_drive(struct rg_progress *progress);
void rg_multi_hurry(struct rg_progress *progress);
/* Why it cannot go on, once: -errno with err; else 0. */
int rg_multi_failure(struct rg_progress *progress, struct rg_error *err);
/* Nothing goes directly any more, and nothing is in flight so; the operations are for others to
 * end. sends: what was sent still goes. */
void rg_multi_stop(struct rg_progress *progress, bool sends);
/* Something has arrived on the node and is not offered yet. */
bool rg_multi_has_work(struct rg_progress *progress);
/* What a driver may sleep on: as rg_order_wait_fds. */
int rg_multi_wait_fds(struct rg_progress *progress, int *ret_fds, unsigned *ret_events, int max);

/* When the entry was offered to the other nodes, and is not decided; 0: it is not. Any thread. */
uint64_t rg_multi_offered_ns(const struct rg_progress *progress, uint32_t id);
/* Whether all ranks of this node wait, and submit nothing: the driver tells the coordinator, and
 * there looks at the nodes (waits.h). Any thread. */
void rg_multi_look(struct rg_progress *progress, bool blocked);
/* For who asks the other leaders (observe/); NULL where this rank is none. */
struct rg_order *rg_multi_order(const struct rg_progress *progress);

#endif
