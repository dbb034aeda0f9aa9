/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How operations end, and why all of them end at once: a death, a shutdown, a removed process set,
 * a stall.
 *
 * Thread rule: any thread; nothing blocks, but for rg_progress_let_leave.
 */
#ifndef RG_COLL_PROGRESS_FINISH_H
#define RG_COLL_PROGRESS_FINISH_H

#include "coll/progress/state.h"

/* CLAIMED to DONE. text: the cause of a failure, copied. Drops the record and the progress engine's
 * reference. */
void rg_op_finish(struct rg_progress *progress, struct rg_op *op, int status, const char *text);
/* Nobody will look at it any more: the name is free as soon as it is DONE. */
void rg_op_drop_name(struct rg_progress *progress, struct rg_op *op);

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
