/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do two ranks mean the same operation by one name? Used inside a node (the table) and between
 * nodes (negotiate), so that a mismatch reads the same wherever it is found.
 *
 * The sentences are those that Horovod's users and their tests know, with the ranks appended:
 *
 *     Mismatched data types: One rank had type float32, but another rank had type int64. (rank 0:
 *     float32, rank 2: int64)
 *
 * Thread rule: pure functions of their arguments; any thread; nothing blocks.
 */
#ifndef RG_COLL_NODE_SIGNATURE_H
#define RG_COLL_NODE_SIGNATURE_H

#include "base/error.h"
#include "coll/ground/types.h"

/* 0 when a (of rank_a) and b (of rank_b) agree in everything that their kind compares; else -EINVAL
 * with the sentence and both values by rank. name is the operation's name and goes in front
 * ("allreduce.grad: Mismatched ..."); NULL or "" leaves it out. The first difference of this order
 * is told: kind, type, reduction, factors, bits that repeat, root, process set, group, shape. Of an
 * allgather and an alltoall dimension 0 is free; a barrier and a join compare only the kind and the
 * process set. The factors compare bit by bit, so that a NaN agrees with itself. */
int rg_signature_compare(const char *name, const struct rg_signature *a, int rank_a,
                         const struct rg_signature *b, int rank_b, struct rg_error *err);

/* What follows the kind in a key: "grad" of "allreduce.grad". */
const char *rg_key_name(const char *key);

/* Why an operation of this kind fails when ranks have joined, which supply zeros; NULL: it may. */
const char *rg_join_refusal(int kind);

/* Payload of one rank, of all members of a group; UINT64_MAX: beyond that. Of an allgather and an
 * alltoall without dimension 0. */
uint64_t rg_signature_nbytes(const struct rg_signature *sig);
/* How an allreduce of this signature is scaled among so many ranks. */
struct rg_scale rg_signature_scale(const struct rg_signature *sig, int size);
/* How a reduction of this signature is to repeat its bits, by the bytes of all members of a
 * group. */
enum rg_repeat rg_signature_repeat(const struct rg_signature *sig);
/* Whether two allreduces that are ready together may be carried out as one, as far as this goes. */
bool rg_signatures_repeat_together(const struct rg_signature *a, const struct rg_signature *b);
/* Whether several nodes may carry such an operation out directly, without agreeing on each use
 * (negotiate/order.h): allreduces in host memory of at most RG_DIRECT_MAX bytes, and barriers. */
bool rg_signature_is_direct(const struct rg_signature *sig);

/* 0 when kind, type, reduction, number of dimensions, root and shape are within their ranges, else
 * -EINVAL: for signatures that came over a socket. */
int rg_signature_check(const struct rg_signature *sig);

#endif
