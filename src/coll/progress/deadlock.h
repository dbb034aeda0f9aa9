/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crossed operations: one rank waits in an allreduce of a name, another in an allgather (or any
 * other kind) of the same name, each for the other one. As kinds have names of their own, and
 * operations of several may be in flight in any order, neither is wrong by itself. But where each
 * of two ranks lacks what the other has, a thread of each has been waiting for seconds, and neither
 * submits anything (on several nodes: the same of all ranks of the two nodes), this will not end:
 * everything in flight ends with -EINVAL (-ECONNRESET on the nodes that hear of it from the
 * coordinator), and the sentence names both ranks and what they do.
 *
 * Thread rule: the communication thread; without a lock.
 */
#ifndef RG_COLL_PROGRESS_DEADLOCK_H
#define RG_COLL_PROGRESS_DEADLOCK_H

#include "coll/progress/state.h"

/* Once a second: look at what waits (waits.h), tell the observer of it, and look for ranks that
 * wait for each other. */
void rg_deadlock_tick(struct rg_progress *progress);

#endif
