/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How operations end, and why all of them end at once: a death, a shutdown, a removed process set,
 * a stall.
 *
 * Thread rule: any thread; nothing blocks, but for rg_progress_let_leave.
 */
#ifndef RG_COLL_PROGRESS_LIFE_FINISH_H
#define RG_COLL_PROGRESS_LIFE_FINISH_H

#include "coll/progress/life/state.h"

/* CLAIMED to DONE. text: the cause of a failure, copied. Drops the record and the progress engine's
 * reference. */
void rg_op_finish(struct rg_progress *progress, struct rg_op *op, int status, const char *text);
/* Nobody will look at it any more: the name is free as soon as it is DONE. */
void rg_op_drop_name(struct rg_progress *progress, struct rg_op *op);

/* ---- names that come free */
/* A name that operations stand in line for may have come free. Any thread, any lock may be held. */
void rg_line_stir(struct rg_progress *progress);

/* The record is no operation's any more. The same. */
static inline void rg_record_drop(struct rg_progress *progress, struct rg_record *record)
{
    atomic_store(&record->op, NULL);
    if (__builtin_expect(atomic_load(&record->in_line) != 0, 0))
        rg_line_stir(progress);
}

/* Those of a group's members; and these with the group's own. */
void rg_members_drop(struct rg_progress *progress, struct rg_record *record);

static inline void rg_names_drop(struct rg_progress *progress, struct rg_record *record)
{
    if (__builtin_expect(record->nmembers > 0, 0))
        rg_members_drop(progress, record);
    rg_record_drop(progress, record);
}

/* ---- all at once */
/* What everything in flight ends with, if the node's segment says so: 0 or -errno and the text. */
int rg_progress_abort_cause(struct rg_progress *progress, const char **ret_text);
/* Everything in flight on this node ends, for a cause that was found here: the launcher is told.
 * EIO and ENOMEM are this rank's own (its device fails, it has no memory): the others are cut off
 * by it, so that it comes first in the verdict. */
void rg_progress_abort(struct rg_progress *progress, int errnum, const char *text);
/* An operation fails with this status, or is refused: when it is for another rank's death or
 * leaving, or for a stall, the launcher is told, once. To be called before anybody can hear of
 * the failure. */
void rg_progress_cut_off(struct rg_progress *progress, int status);
/* At the end of a process: if operations failed because a rank of this host left, and nobody could
 * be told so, let that one end first, for at most 2 s. mpirun and torchrun call the first that
 * ends the cause. */
void rg_progress_let_leave(struct rg_progress *progress);

#endif
