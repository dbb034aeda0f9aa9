/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms of the tcp plane: an operation is two lists of transfers, what this member sends
 * and what it receives (tcp.c works them off). The lists are not stored: step functions compute
 * transfer i when it is its turn.
 *
 * Thread rule: a plane's.
 */
#ifndef RG_COLL_PLANES_TCP_STEPS_H
#define RG_COLL_PLANES_TCP_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/ground/types.h"

enum {
    RG_TCP_CHUNK_NBYTES = 256 * 1024,  /* what is passed on at a time in rings and chains */
    RG_TCP_SMALL_NBYTES = 32 * 1024,   /* up to here: trees and recursive doubling */
};

struct rg_tcp_send {
    int peer;
    const char *from;
    size_t nbytes;
    size_t needs; /* receives complete before */
};

struct rg_tcp_recv {
    int peer;
    char *to;
    size_t nbytes;
    size_t needs;     /* sends complete before the reduction */
    char *reduce_to;  /* NULL: the bytes are where they belong */
    const char *with; /* reduce_to = (lower, higher) of `with` and what came */
    bool with_first;  /* `with` is the first operand */
    bool last;        /* scale's post and divisor apply */
};

/* One operation as its algorithm sees it. */
struct rg_tcp_op {
    uint64_t number;        /* 1, 2, ... */
    struct rg_coll coll;
    int n, me;
    size_t esize, total;    /* bytes of an element, of the operation */
    size_t *starts;         /* n + 1 of them: first element of each member's block */
    size_t *recv_starts;    /* alltoallv */
    size_t chunk, nsub;     /* elements at a time; chunks of the largest block */
    const char *base;       /* this member's contribution */
    char *acc;              /* where results grow: out, or work */
    char *work, *scratch;   /* owned */
    size_t work_nbytes, scratch_nbytes;
    char *zeros;            /* owned; what an alltoallv without in sends */
    void (*send_step)(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *ret_send);
    void (*recv_step)(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *ret_recv);
    size_t nsends, nrecvs;
    bool scale_at_end;      /* post and divisor are applied to acc when all is done */
};

/* Choose the algorithm and prepare buffers. 0, -EINVAL, -ENOMEM. Does local work (scaling,
 * copies). */
int rg_tcp_op_begin(struct rg_tcp_op *op, const struct rg_coll *coll, int n, int me);
/* What remains when all transfers are done. */
void rg_tcp_op_end(struct rg_tcp_op *op);
/* Reduce what came, as the receive says. */
void rg_tcp_op_reduce(struct rg_tcp_op *op, const struct rg_tcp_recv *recv);
/* Bytes that the header of a transfer between two members carries. */
uint64_t rg_tcp_op_nbytes(const struct rg_tcp_op *op, int from, int to);
void rg_tcp_op_fini(struct rg_tcp_op *op);

#endif
