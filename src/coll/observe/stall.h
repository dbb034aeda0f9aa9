/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stalls: operations that some ranks have submitted and others have not. The rank that speaks for
 * its node reports them; on several nodes it is the coordinator who speaks for all, after it has
 * asked the other leaders; a leader who finds something tells it so. What waits for longer than the
 * configured time, or than steps of this job let expect, is reported to the launcher, or on
 * standard error where there is none: the ranks that are missing, what they owe, and where all are
 * (where.h). At doubling intervals there is one more line, or a new report where ranks are missing
 * otherwise; and one when the job goes on. A deadlock in which nothing runs in any rank ends the
 * job after a time of its own, if the user gives one (deadlock.h).
 *
 * Thread rule: rg_stall_tick and rg_stall_glance by the communication thread; the rest under the
 * drive lock. All share one small lock inside. Reads a few files of /proc when it reports, else
 * never blocks, but rg_stall_glance does when a stack is read.
 */
#ifndef RG_COLL_OBSERVE_STALL_H
#define RG_COLL_OBSERVE_STALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct rg_progress;
struct rg_stall;

/* world: that of all ranks, for a process set's; else NULL. 0 or -ENOMEM. */
int rg_stall_create(struct rg_stall *world, struct rg_stall **ret_stall);
void rg_stall_destroy(struct rg_stall *stall); /* NULL is fine */

/* After a look at what waits: report when it is time; after the shutdown limit, abort the job with
 * -ETIMEDOUT. */
void rg_stall_tick(struct rg_progress *progress, struct rg_stall *stall, uint64_t now_ns,
                   uint64_t longest_ms, bool reporter);

/* Some times a second: say where this rank is if that was asked; write the report that is due when
 * the others have said so. */
void rg_stall_glance(struct rg_progress *progress, struct rg_stall *stall);

/* Several nodes, at a leader: what a tick found due is told to the coordinator; there, the other
 * leaders are asked, and the report is written when they have answered, or 0.7 s later. */
void rg_stall_drive(struct rg_progress *progress, struct rg_stall *stall);
/* The coordinator asks: the ranks of this node are to say where they are. It can be answered when
 * they have, which is true once. */
void rg_stall_ask(struct rg_progress *progress, struct rg_stall *stall);
bool rg_stall_can_answer(struct rg_progress *progress, struct rg_stall *stall);
/* What this node waits for, appended to out. */
void rg_stall_answer(struct rg_progress *progress, struct rg_stall *stall, struct rg_buf *out);
/* At the coordinator: a node's answer of nbytes, or what it says unasked. */
void rg_stall_heard(struct rg_progress *progress, struct rg_stall *stall, int node,
                    const char *text, size_t nbytes);

#endif
