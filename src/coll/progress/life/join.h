/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Join: a rank without data counts as arrived everywhere until all ranks have joined. The round
 * ends in two steps: an item in the log, behind everything that is to be carried out, says that
 * all have joined; when every rank of the node has come to it and has nothing of its own in
 * flight, the last one makes the epochs equal and ends the round.
 *
 * Thread rule: rg_join_post from any thread; the rest under `drive`.
 */
#ifndef RG_COLL_PROGRESS_LIFE_JOIN_H
#define RG_COLL_PROGRESS_LIFE_JOIN_H

#include "coll/progress/life/state.h"

int rg_join_post(struct rg_progress *progress, struct rg_op *op, struct rg_error *err);
/* All ranks of the job have joined. */
void rg_join_consumed(struct rg_progress *progress, int last_rank);
/* While this rank has joined: look whether the round is complete. True when something moved. */
bool rg_join_drive(struct rg_progress *progress);
/* The join that is in flight, if any, ends with this status. */
void rg_join_end(struct rg_progress *progress, int status, const char *text);

#endif
