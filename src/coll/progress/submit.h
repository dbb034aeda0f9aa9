/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a claimed record to an operation that the other ranks know of, and, when all ranks of the
 * node have announced it, to the log or the leader.
 *
 * Thread rule: any thread. rg_op_post takes no lock unless the operation is a stream one or must
 * wait; rg_record_claim wants the progress engine's lock held, and lets go of it for a moment.
 */
#ifndef RG_COLL_PROGRESS_SUBMIT_H
#define RG_COLL_PROGRESS_SUBMIT_H

#include "coll/progress/state.h"

/* Announce an operation whose fields are filled in, under its record, which the caller has
 * claimed (record->op == op). 0; else -errno with err, and the operation is as it was (the claim
 * is the caller's to drop). */
int rg_op_post(struct rg_progress *progress, struct rg_op *op, struct rg_error *err);
/* Try to announce a queued operation again; by the driver. */
void rg_op_retry(struct rg_progress *progress, struct rg_op *op);
/* Claim a record for op; what was in flight and holds no name is finished first if it can be. 0 or
 * -EEXIST. */
int rg_record_claim(struct rg_progress *progress, struct rg_record *record, struct rg_op *op);
/* The same where nothing is in flight and the name is free, else false; without a lock. */
static inline bool rg_record_take(struct rg_record *record, struct rg_op *op)
{
    struct rg_op *other = NULL;

    if (!atomic_compare_exchange_strong(&record->op, &other, op))
        return false;
    if (!atomic_load_explicit(&record->taken, memory_order_relaxed))
        return true;
    atomic_store(&record->op, NULL);
    return false;
}
/* On this node everybody has announced it (or joined): pass it on to the log, or to the leader.
 * drives: this thread will drive at once. */
void rg_entry_arrived(struct rg_progress *progress, uint32_t id, uint64_t epoch, bool drives);
/* For rg_runlog_append, arg is the progress engine: the position of the slowest reader of the log
 * that has not left. The ready ring cannot overflow: it has more slots than there are entries, and
 * each is in it once. */
uint64_t rg_log_slowest(void *arg);

/* The sentence for -EEXIST. */
extern const char rg_name_in_use_text[];

#endif
