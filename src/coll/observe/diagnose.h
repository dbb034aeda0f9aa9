/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each rank is doing, as JSON (docs/timeline.md has the fields): for a person who wonders why
 * a job does not go on.
 *
 * The ranks of this node are seen in its shared memory and in /proc, without any help of theirs:
 * they may hang or be stopped. Of other nodes the coordinator (the leader of the first) asks the
 * leaders, as it does for stall reports; a leader that does not answer in time, and every other
 * node where this rank is not the coordinator, is left as "known": false.
 *
 * Thread rule: rg_diagnose from any thread, one at a time (others wait for it); it takes no lock
 * for longer than it takes to copy, and drives only when nobody does. The rest is for the driver.
 */
#ifndef RG_COLL_OBSERVE_DIAGNOSE_H
#define RG_COLL_OBSERVE_DIAGNOSE_H

#include <stdatomic.h>
#include <stdint.h>

struct rg_buf;
struct rg_diagnosis;
struct rg_progress;

/* Of one progress engine. */
struct rg_diagnoses {
    _Atomic(struct rg_diagnosis *) now; /* the one that waits for answers */
};

/* *ret_json: the caller's, by free. Blocks until all nodes have answered, at most until the
 * deadline. 0 or -ENOMEM. */
int rg_diagnose(struct rg_progress *progress, struct rg_diagnoses *diagnoses, uint64_t deadline_ns,
                char **ret_json);

/* Append "ranks RG_DIAGNOSE_MARK pending", the two lists of this node without brackets, after a
 * mark. Leaders put this behind their stall report when they are asked. */
#define RG_DIAGNOSE_MARK '\x1e'
void rg_diagnose_answer(struct rg_progress *progress, struct rg_buf *out);

/* ---- at the coordinator, under the drive lock */
/* Ask the other leaders when a diagnosis wants it. */
void rg_diagnose_drive(struct rg_progress *progress, struct rg_diagnoses *diagnoses);
/* A leader's answer: what stands behind the first mark. */
void rg_diagnose_heard(struct rg_progress *progress, struct rg_diagnoses *diagnoses, int node,
                       const char *answer);

#endif
