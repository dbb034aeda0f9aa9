/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the runtime say to each other about an operation.
 */
#ifndef RG_COLL_GROUND_TYPES_H
#define RG_COLL_GROUND_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reigen/reigen.h"

/* The memory that a tensor is in. Only host memory may be dereferenced by the host. */
enum rg_memory { RG_MEMORY_HOST, RG_MEMORY_CUDA, RG_NMEMORIES };

/* How leaders exchange an allreduce that they do not agree on each time (far/far.h). All ways come
 * to the same bits. */
enum rg_direct_way {
    RG_DIRECT_NOT,      /* they agree first */
    RG_DIRECT_DOUBLING, /* recursive doubling */
    RG_DIRECT_ONE_SHOT, /* each sends all of its data to each other one */
    RG_DIRECT_TWO_SHOT, /* each reduces a block of it, which it sends to each other one */
    RG_NDIRECT_WAYS
};

enum {
    RG_DIRECT_SMALL = 32 << 10, /* bytes: what always goes so if it can */
    RG_DIRECT_MAX = 512 << 10,  /* bytes: what may */
    RG_DIRECT_SHOTS_MAX = 16    /* leaders among which there are shots */
};

/* Whether and how a reduction is to give the same bits in each run, whatever it meets. */
enum rg_repeat {
    RG_REPEAT_NOT,
    RG_REPEAT_SMALL,   /* at most RG_DIRECT_MAX bytes: its elements are added in an order that does
                        * not depend on their places, so that it may go directly, or with others */
    RG_REPEAT_BY_SIZE, /* by itself, in an order that depends on its size and the ranks alone */
};

/* What all ranks must agree on for one name. Lives in shared memory: no pointers. Of an allgather
 * and an alltoall shape[0] is this rank's own and is not compared; a barrier and a join have no
 * shape. */
struct rg_signature {
    uint8_t kind;   /* enum reigen_kind */
    uint8_t dtype;  /* enum reigen_dtype; of an added type: of its parts */
    uint8_t op;     /* enum reigen_op; allreduce and reducescatter, else 0 */
    uint8_t memory; /* enum rg_memory */
    uint8_t ndim;
    bool repeats;   /* of a reduction between nodes: rg_signature_repeat */
    int32_t root;   /* broadcast, else 0 */
    int32_t process_set;
    int32_t group_size; /* of grouped operations, else 0 */
    uint32_t nparts;    /* of an element of a type that was added (ground/element.h), else 0 ... */
    char type[REIGEN_TYPE_NAME_MAX + 1]; /* ... and the type's name, else "" */
    double prescale, postscale;
    int64_t shape[REIGEN_NDIM_MAX];
    /* Of the first signature of a group in a job of several nodes, else 0: what stands for the
     * other members between nodes. */
    int64_t group_count;   /* elements of all members, or parts of these */
    uint64_t group_digest; /* of all members' shapes */
};

/* How many numbers of dtype an element is. */
static inline size_t rg_signature_parts(const struct rg_signature *sig)
{
    return sig->nparts ? sig->nparts : 1;
}

/* One data movement over a group of n members, as a plane sees it. Averages, joins, names are
 * gone. */
enum rg_coll_kind {
    RG_COLL_ALLREDUCE,
    RG_COLL_REDUCE,         /* result at root only */
    RG_COLL_BROADCAST,      /* from root */
    RG_COLL_ALLGATHERV,     /* in: counts[me] elements; out: all, in member order */
    RG_COLL_ALLTOALLV,      /* in: sum of counts, part i for member i; out: sum of recv_counts */
    RG_COLL_REDUCESCATTERV, /* in: sum of counts; out: the reduced part me, counts[me] elements */
};

/* result = post * (reduction of (pre * in)) / divisor: scaling folded into the reduction so that it
 * costs no pass of its own. Integers are truncated, after pre and at the end. */
struct rg_scale {
    double pre, post; /* 1.0: none */
    int64_t divisor;  /* integer averages: what the sum is divided by; else 1 */
};

struct rg_coll {
    enum rg_coll_kind kind;
    uint8_t dtype;          /* enum reigen_dtype */
    uint8_t op;             /* REIGEN_SUM, MIN, MAX, PRODUCT */
    int root;               /* member index: reduce, broadcast */
    size_t count;           /* elements (of added types: parts): allreduce, reduce, broadcast */
    const size_t *counts;   /* per member, the same; borrowed until done */
    const size_t *recv_counts; /* alltoallv */
    const void *in;         /* NULL: this member supplies zeros (it has joined) */
    void *out;              /* may equal in (allreduce, broadcast); NULL: the result is dropped */
    struct rg_scale scale;  /* allreduce, reduce, reducescatterv */
    /* alltoallv: elements that all members send together, equal on all; scores go by it */
    size_t total;
    uint8_t repeat;         /* enum rg_repeat; equal on all members */
    uint8_t memory;         /* enum rg_memory, of in and out; equal on all members */
    void *stream;           /* of a device (CUDA: cudaStream_t): the operation is carried out in its
                             * order, see coll/planes/plane.h; NULL: none */
    int device;             /* CUDA's number of it; of no meaning in host memory and without
                             * buffers */
};

static inline size_t rg_dtype_nbytes(int dtype)
{
    static const uint8_t nbytes[REIGEN_NDTYPES] = { 1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2 };

    return nbytes[dtype];
}

/* "float32", as numpy and torch call it; "?" when unknown. */
const char *rg_dtype_name(int dtype);
const char *rg_kind_name(int kind); /* "allreduce" */
const char *rg_op_name(int op);     /* "sum" */
const char *rg_memory_name(int memory); /* "host", "cuda" */
const char *rg_coll_name(enum rg_coll_kind kind); /* "allgather", as people say it */

#endif
