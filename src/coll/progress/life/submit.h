/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a name to an operation that the other ranks know of, and, when all ranks of the node have
 * announced it, to the log or the leader.
 *
 * A name is one operation's at a time. One that comes meanwhile is refused, or stands in line: it
 * is announced when all names that it wants are free and nobody before it wants one of them. What
 * it follows keeps its outcome; the name is held for the newcomer from then on.
 *
 * Thread rule: any thread. rg_op_post takes no lock unless the operation is a stream one or must
 * wait; rg_names_claim wants the progress engine's lock held, and lets go of it for a moment.
 */
#ifndef RG_COLL_PROGRESS_LIFE_SUBMIT_H
#define RG_COLL_PROGRESS_LIFE_SUBMIT_H

#include "coll/progress/life/finish.h"
#include "coll/progress/life/state.h"

/* -errno with err where nothing can be submitted, as the job has ended or this rank has joined;
 * else 0. */
int rg_op_refusal(struct rg_progress *progress, const struct rg_record *record,
                  struct rg_error *err);
/* Announce an operation whose fields are filled in, under its record, which the caller has
 * claimed (record->op == op). 0; else -errno with err, and the operation is as it was (the claim
 * is the caller's to drop). */
int rg_op_post(struct rg_progress *progress, struct rg_op *op, struct rg_error *err);
/* Try to announce a queued operation again; by the driver. */
void rg_op_retry(struct rg_progress *progress, struct rg_op *op);
/* Claim the record and those of a group's members for op, or nothing; what is in flight is
 * finished first if it can be. follows: names that are held, or stood in line for, do too. 0 or
 * -EEXIST. */
int rg_names_claim(struct rg_progress *progress, struct rg_record *record, struct rg_op *op,
                   bool follows);
/* The same of one that has no members, where nothing is in flight and the name is free, else
 * false; without a lock. */
static inline bool rg_record_take(struct rg_progress *progress, struct rg_record *record,
                                  struct rg_op *op)
{
    struct rg_op *other = NULL;

    if (!atomic_compare_exchange_strong(&record->op, &other, op))
        return false;
    if (!rg_record_is_held(record) && atomic_load(&record->in_line) == 0)
        return true;
    rg_record_drop(progress, record);
    return false;
}

/* Either, whichever will do; as rg_names_claim of what does not follow. */
static inline int rg_names_take(struct rg_progress *progress, struct rg_record *record,
                                struct rg_op *op)
{
    if (record->nmembers == 0 && rg_record_take(progress, record, op))
        return 0;
    return rg_names_claim(progress, record, op, false);
}

/* Operations that stand in line, with the lock held: whether some want the record or one of a
 * group's members; put one at the end (it has its record, and a reference for the engine); then,
 * without the lock, rg_line_stir. */
bool rg_line_wants(const struct rg_record *record);
void rg_line_add(struct rg_progress *progress, struct rg_op *op);
/* The driver: announce those whose turn has come. True when there were any. */
bool rg_line_drive(struct rg_progress *progress);
/* Under `drive`, or when no other thread is left: all of them end with this. */
void rg_line_end(struct rg_progress *progress, int status, const char *text);
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
