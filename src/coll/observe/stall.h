/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stalls: operations that some ranks have submitted and others have not. The rank that speaks for
 * its node reports them; on several nodes it is the coordinator who speaks for all, after it has
 * asked the other leaders; a leader who finds something tells it so. What waits for longer than the
 * configured time is reported to the launcher, or on standard error where there is none, with the
 * ranks that are missing, what they owe, and where they are; again at doubling intervals.
 *
 * Thread rule: rg_stall_tick by the communication thread; the rest under the drive lock. All share
 * one small lock inside. Reads a few files of /proc when it reports, else never blocks.
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

/* Several nodes, at a leader: what a tick found due is told to the coordinator; there, the other
 * leaders are asked, and the report is written when they have answered, or a second later. */
void rg_stall_drive(struct rg_progress *progress, struct rg_stall *stall);
/* The coordinator asks: what this node waits for, appended to out. */
void rg_stall_answer(struct rg_progress *progress, struct rg_stall *stall, struct rg_buf *out);
/* At the coordinator: a node's answer of nbytes, or what it says unasked. */
void rg_stall_heard(struct rg_progress *progress, struct rg_stall *stall, int node,
                    const char *text, size_t nbytes);

#endif
