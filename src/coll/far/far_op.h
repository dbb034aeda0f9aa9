/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation of the exchange between leaders (far.h), and what its owner hears.
 *
 * Thread rule: as far.h.
 */
#ifndef RG_COLL_FAR_FAR_OP_H
#define RG_COLL_FAR_FAR_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/ground/types.h"

struct rg_far_shots;

/* An operation in flight: the caller's memory, from rg_far_post until on_done or rg_far_drop. */
struct rg_far_op {
    /* what the caller says */
    uint32_t id, seq;      /* its number, and which use of it this is */
    uint8_t round;         /* of joins */
    uint8_t dtype, op;     /* enum reigen_dtype, reigen_op (sum, min, max, product) */
    size_t count;          /* elements, equal on all leaders; at most RG_FAR_NBYTES_MAX bytes */
    const void *in;        /* this node's part; NULL: zeros */
    /* The result; may be in. The doubling among more than two writes to it while the use may still
     * become void; two nodes, and shots, only when that is no longer possible. */
    void *out;
    struct rg_scale scale; /* post and divisor are applied to the result; pre is not looked at */
    /* the exchange's own */
    uint8_t way;
    struct rg_far_shots *shots;
    const void *now;       /* what has been reduced so far */
    size_t nbytes;
    int level;             /* whose frame it waits for */
    int nunsent;           /* frames of it that still point to its memory */
    bool active;
    bool called;           /* the folded leader, which has not come */
    struct rg_far_op *prev, *next; /* of those that wait for it */
};

struct rg_far_events {
    /* The result is in out, and the op is the caller's again; also from within rg_far_post. May
     * call rg_far_post and rg_far_expect. */
    void (*on_done)(void *arg, struct rg_far_op *op);
    /* Another leader has begun this use, this one has not. May call rg_far_post. */
    void (*on_early)(void *arg, uint32_t id, uint32_t seq, uint8_t round);
    void *arg;
};

#endif
