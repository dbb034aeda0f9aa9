/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on a GPU's memory, between a run and exec: by a plane that takes them, or else through
 * pinned memory of the host and the planes for that. So what NCCL cannot do, or where there is no
 * NCCL, or several ranks on one GPU, works all the same.
 *
 *      our stream     |copy piece 0 in|copy 1 in|copy 2 in|   |copy 3 in   |   |copy 4 in
 *      exec                            |piece 0 ...........|piece 1 .......|piece 2 .....
 *      another one                                         |copy 0 out|    |copy 1 out
 *
 * Allreduces and broadcasts go in pieces, cut at the same places on all ranks, by three buffers:
 * one is filled and one emptied, as the bus goes both ways at once, while exec is at the third. Our
 * stream waits for the other one before it fills a buffer again, and at the end. Other kinds, and
 * Adasum, go as one piece, all copies of it on our stream. Which way is taken follows
 * from what all ranks know, so all take the same.
 *
 * Thread rule: under the drive lock. Nothing waits for a stream but the end.
 */
#ifndef RG_COLL_EXEC_STAGED_H
#define RG_COLL_EXEC_STAGED_H

#include "coll/exec/exec.h"

struct rg_gpu_mark;
struct rg_staged;

/* One for each progress engine. 0 or -ENOMEM. */
int rg_staged_create(struct rg_exec *exec, const struct rg_team *team,
                     struct rg_staged **ret_staged);
void rg_staged_destroy(struct rg_staged *staged); /* NULL is fine */

/* As rg_exec_post_fused, of operations on a device; the array is copied. 1: it is under way, 0:
 * there was nothing to do, -errno with err. */
int rg_staged_post(struct rg_staged *staged, const struct rg_coll *colls, int n,
                   struct rg_error *err);
/* Exec is done with what it was given: go on. Results as above; 0: the operation is done. */
int rg_staged_next(struct rg_staged *staged, struct rg_error *err);
/* A copy is waited for, and exec has nothing to do: it is to be looked at after a moment. */
bool rg_staged_waits(struct rg_staged *staged);
/* Whether it is under way. */
bool rg_staged_active(const struct rg_staged *staged); /* NULL is fine */

#endif
