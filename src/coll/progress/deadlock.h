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
 * Thread rule: rg_deadlock_look by the communication thread, without a lock; rg_deadlock_drive
 * under the drive lock.
 */
#ifndef RG_COLL_PROGRESS_DEADLOCK_H
#define RG_COLL_PROGRESS_DEADLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct rg_progress;

/* What a leader found of its node, and its driver has not passed on yet. */
enum rg_looked { RG_LOOKED_NOT = 0, RG_LOOKED_MOVES, RG_LOOKED_BLOCKED };

/* Once per look of stall.h: note whether a thread of this rank waits. reporter: this rank looks on
 * behalf of its node, and at a leader for its driver. */
void rg_deadlock_look(struct rg_progress *progress, uint64_t now_ns, bool reporter);
/* At a leader, after a look: tell the coordinator of the node; there: look at the nodes. */
void rg_deadlock_drive(struct rg_progress *progress);

#endif
