/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the tcp plane: an operation, and the transfers of which it consists. tcp_steps.c and
 * tcp_levels.c have the algorithms, tcp_way.h chooses among them, tcp_area.h has the operands,
 * tcp_link.h the sockets, and tcp.c works the transfers off.
 *
 * An operation is two lists of transfers: what this member sends and what it receives, each in a
 * fixed order that matches the lists of the others. Both lists run at once, each from its front. A
 * transfer may wait for the other list ("needs"): data that is passed on must have come, a buffer
 * that is added to must have been sent. A receive may end in a reduction. The lists are not stored:
 * step functions compute transfer i when it is its turn.
 *
 *      sends     0 1 2 3 ...      send i starts when `needs` receives are complete
 *      receives  0 1 2 3 ...      receive i ends in its reduction when `needs` sends are complete
 *
 * Nothing can deadlock: among all members the transfer with the lowest number in the common order
 * never waits for a later one.
 *
 * Thread rule: a plane's.
 */
#ifndef RG_COLL_PLANES_TCP_TCP_OP_H
#define RG_COLL_PLANES_TCP_TCP_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/planes/common.h"
#include "coll/planes/plane.h"
#include "coll/planes/tcp/tcp_area.h"
#include "coll/planes/tcp/tcp_way.h"
#include "coll/reduce/doubling.h"

struct rg_tcp_send {
    int peer;
    struct rg_tcp_place from;
    size_t nbytes;
    size_t needs; /* receives complete before */
};

struct rg_tcp_recv {
    int peer;
    struct rg_tcp_place to;
    size_t nbytes;
    size_t needs;     /* sends complete before the reduction */
    struct rg_tcp_place with; /* nowhere: the bytes are what belongs there; else what comes goes to
                               * scratch, and to = (lower, higher) of `with` and scratch */
    bool with_first;  /* `with` is the first operand */
    bool last;        /* scale's post and divisor apply */
};

/* One operation as its algorithm sees it. */
struct rg_tcp_op {
    uint64_t number;        /* 1, 2, ... */
    struct rg_coll coll;
    int n, me;
    size_t esize, total;    /* bytes of an element, of the operation */
    size_t *starts;         /* n + 1 of them: first element of each member's block; owned */
    size_t *recv_starts;    /* alltoallv; behind starts */
    enum rg_algorithm algorithm;
    uint32_t chunk_nbytes;
    size_t chunk, nsub;     /* elements at a time; chunks of the largest block */
    struct rg_tcp_area in, acc; /* this member's contribution; where results grow: out, or work */
    const struct rg_tcp_area *base; /* in; or acc, which has a copy */
    struct rg_tcp_area out, came;   /* of at most one piece: coll.out; scratch */
    struct rg_store work, scratch;
    char *zeros;            /* owned; what an alltoallv without in sends */
    void (*send_step)(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *ret_send);
    void (*recv_step)(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *ret_recv);
    size_t nsends, nrecvs;
    int shift;              /* of a ring */
    struct rg_doubling doubling; /* where it is the algorithm */
    bool scale_at_end;      /* post and divisor are applied to acc when all is done */
};

/* Choose the algorithm and prepare buffers, of ncolls allreduces in one or of one operation of any
 * kind. The array is copied; buffers and counts are borrowed until rg_tcp_op_end. n is the same
 * whenever op is used. 0, -EINVAL, -ENOMEM. Does local work (scaling, copies). */
int rg_tcp_op_begin(struct rg_tcp_op *op, const struct rg_coll *colls, int ncolls,
                    struct rg_tcp_way *way, int n, int me);
/* What remains when all transfers are done. */
void rg_tcp_op_end(struct rg_tcp_op *op);
/* The place where a receive's bytes are put first: scratch if they are to be reduced. */
struct rg_tcp_place rg_tcp_op_landing(const struct rg_tcp_op *op, const struct rg_tcp_recv *recv);
/* Reduce what came, as the receive says. */
void rg_tcp_op_reduce(struct rg_tcp_op *op, const struct rg_tcp_recv *recv);
/* Bytes that the header of a transfer between two members carries. */
uint64_t rg_tcp_op_nbytes(const struct rg_tcp_op *op, int from, int to);
void rg_tcp_op_fini(struct rg_tcp_op *op);

/* A member's number, whatever was added to it. */
static inline int rg_tcp_wrap(int member, int n)
{
    return ((member % n) + n) % n;
}

/* Chunk j of member b's block: its first element and how many. */
static inline size_t rg_tcp_chunk(const struct rg_tcp_op *op, int b, size_t j, size_t *ret_count)
{
    size_t from = op->starts[b] + j * op->chunk, end = op->starts[b + 1];

    from = from < end ? from : end;
    *ret_count = end - from < op->chunk ? end - from : op->chunk;
    return from;
}

/* For RG_ALGORITHM_HALVING and RG_ALGORITHM_SCATTER, the steps and how many they are. */
void rg_tcp_set_levels(struct rg_tcp_op *op);

#endif
