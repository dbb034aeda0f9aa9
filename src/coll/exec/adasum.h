/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adasum: a reduction that adds what is orthogonal and averages what is parallel (S. Maleki et al.,
 * "Scaling Distributed Training with Adaptive Summation", MLSys 2021). Of two vectors
 *
 *      adasum(a, b) = (1 - a.b / (2 a.a)) a + (1 - a.b / (2 b.b)) b
 *
 * with coefficient 1 where a norm is zero; of N ranks' vectors, a binary tree of it: first rank
 * p + i into rank i, where p is the largest power of two up to N, then ranks at distance 1, 2, 4,
 * ... p / 2. Each tensor of a group has its own dot products.
 *
 * The paper halves vectors and doubles distances, which takes 2 log2(p) exchanges and leaves
 * other N aside. Here the same tree is computed with as many bytes and fewer exchanges, for any N:
 *
 *      alltoall     member r gets part r of every member's vector
 *      allreduce    of the dot products of the next level of the tree, for each level
 *      allgather    the parts of the result
 *
 * Where all vectors together are small, one allgather of them stands for all of this and every
 * member computes the whole.
 *
 * Dot products are summed in float64 and are equal on all members, and each part of the result is
 * computed once (or by code that gives the same bits on every CPU): all members hold the same
 * bits, and the same in every run. float16 and bfloat16 are computed in float32 and rounded once.
 *
 * Memory, per operation: the vector's size to receive into (float16, bfloat16: three times that),
 * and once more for a group or without an output. It is kept for the next one.
 *
 * Thread rule: exec's, under the progress engine's drive lock; nothing blocks. A step computes on
 * all it has, so it takes as long as reading this member's share of the data a few times.
 */
#ifndef RG_COLL_EXEC_ADASUM_H
#define RG_COLL_EXEC_ADASUM_H

#include <stdbool.h>

#include "coll/exec/exec.h"

/* All vectors together up to here are gathered and combined by every member. */
#define RG_ADASUM_WHOLE_NBYTES (64u << 10)

struct rg_adasum;

/* Among the ranks of team, over exec; both are borrowed. 0 or -ENOMEM. */
int rg_adasum_create(struct rg_exec *exec, const struct rg_team *team,
                     struct rg_adasum **ret_adasum);

/* Begin the Adasum of n tensors of one floating type and one scale, as in n allreduces: in NULL
 * supplies zeros, out NULL drops the result, out may equal in. The buffers are borrowed until
 * the end, the array is copied. 1: exec is at work, 0: there is nothing to do, -errno; -ENOTSUP:
 * they are in other memory than the host's. */
int rg_adasum_post(struct rg_adasum *adasum, const struct rg_coll *colls, int n);
/* When exec is done. 1: it is at work again, 0: the results are there, -errno. */
int rg_adasum_next(struct rg_adasum *adasum);

void rg_adasum_destroy(struct rg_adasum *adasum); /* NULL is fine; at any moment */

/* Whether the type can be reduced so: float16, bfloat16, float32 and float64. */
bool rg_adasum_takes(int dtype);

#endif
