/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one-shot path: every rank copies its payload into its own slot and each rank reduces for
 * itself from all slots, in the order of ranks, so all have the same bits. One store per rank is
 * all the synchronization there is.
 *
 * Two slots by parity of the epoch are enough: a rank fills the slot of epoch e + 2 only after it
 * has finished e + 1, which took all ranks' announcements of e + 1, and a rank announces e + 1
 * only after it has finished e. Ranks that have joined are outside of that argument: see
 * lagging() in submit.c.
 *
 * Thread rule: any thread; nothing blocks, but for the moment in which another thread looks.
 */
#ifndef RG_COLL_PROGRESS_LIFE_INLINE_H
#define RG_COLL_PROGRESS_LIFE_INLINE_H

#include "coll/exec/exec.h"
#include "coll/progress/life/state.h"

/* Its score, against those of planes. */
extern const struct rg_shortcut rg_inline_shortcut;
/* For rg_table.choose; arg is the progress engine. */
enum rg_entry_mode rg_inline_choose(void *arg, const struct rg_notice *notice);
/* Fill this rank's slot. */
void rg_inline_fill(struct rg_progress *progress, struct rg_op *op);
/* The same, and say so. */
void rg_inline_post(struct rg_progress *progress, struct rg_op *op);
/* Of what leaders exchanged: have the result, from the first rank's slot. op: NULL where this rank
 * had joined. */
void rg_inline_take(struct rg_progress *progress, struct rg_op *op);
/* As rg_op_done, after a look at the slots. Waits for a thread that is looking already. */
bool rg_op_look(struct rg_progress *progress, struct rg_op *op);

/* rg_op_look, unless it is done. */
static inline bool rg_op_try(struct rg_progress *progress, struct rg_op *op)
{
    return rg_op_done(op) || rg_op_look(progress, op);
}

#endif
