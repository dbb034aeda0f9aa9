/* SPDX-License-Identifier: Apache-2.0 */
/* What each kind of operation is in NCCL's words: its calls have no counts by rank, and not all of
 * our types. */
#include <errno.h>
#include <string.h>

#include "coll/planes/common.h"
#include "coll/planes/nccl.h"
#include "coll/reduce/reduce.h"

/* ---- types */

/* NCCL's type for reductions; -1: it has none. A bool is 0 or 1. */
static int type_of(int dtype)
{
    switch (dtype) {
    case REIGEN_UINT8:
    case REIGEN_BOOL: return RG_NCCL_UINT8;
    case REIGEN_INT8: return RG_NCCL_INT8;
    case REIGEN_INT32: return RG_NCCL_INT32;
    case REIGEN_INT64: return RG_NCCL_INT64;
    case REIGEN_FLOAT16: return RG_NCCL_FLOAT16;
    case REIGEN_FLOAT32: return RG_NCCL_FLOAT32;
    case REIGEN_FLOAT64: return RG_NCCL_FLOAT64;
    case REIGEN_BFLOAT16: return RG_NCCL_BFLOAT16;
    default: return -1;
    }
}

static bool is_float(int dtype)
{
    return dtype == REIGEN_FLOAT16 || dtype == REIGEN_FLOAT32 || dtype == REIGEN_FLOAT64 ||
           dtype == REIGEN_BFLOAT16;
}

/* "or" of bools is their maximum, "and" their minimum. */
static int op_of(const struct rg_coll *coll)
{
    bool logical = coll->dtype == REIGEN_BOOL;

    switch (coll->op) {
    case REIGEN_MIN: return RG_NCCL_MIN;
    case REIGEN_MAX: return RG_NCCL_MAX;
    case REIGEN_PRODUCT: return logical ? RG_NCCL_MIN : RG_NCCL_PROD;
    default: return logical ? RG_NCCL_MAX : RG_NCCL_SUM;
    }
}

static bool is_scaled(const struct rg_scale *scale)
{
    return scale->pre != 1.0 || scale->post != 1.0 || scale->divisor != 1;
}

bool rg_nccl_takes(const struct rg_plane_task *task)
{
    if (!rg_coll_reduces(task->kind))
        return true;
    if (type_of(task->dtype) < 0 || task->op == REIGEN_ADASUM)
        return false;
    return !task->scale || !is_scaled(task->scale) ||
           (is_float(task->dtype) && task->op == REIGEN_SUM && task->scale->divisor == 1);
}

/* A sum with a factor: each operand is multiplied by it. */
static int make_op(struct rg_nccl_plane *plane, const struct rg_coll *coll, int *ret_op,
                   struct rg_error *err)
{
    static const uint16_t half = 0x3c00, brain = 0x3f80;
    static const float single = 1.0f;
    static const double wide = 1.0;
    const void *one = coll->dtype == REIGEN_FLOAT16   ? (const void *) &half
                      : coll->dtype == REIGEN_FLOAT32 ? (const void *) &single
                      : coll->dtype == REIGEN_FLOAT64 ? (const void *) &wide
                                                      : (const void *) &brain;
    struct rg_scale scale = { coll->scale.pre * coll->scale.post, 1.0, 1 };
    uint64_t factor;
    int r;

    if (!is_scaled(&coll->scale)) {
        *ret_op = op_of(coll);
        return 0;
    }
    rg_reduce(coll->dtype, REIGEN_SUM, &factor, &one, 1, 1, &scale);
    r = plane->nccl->premul_create(&plane->premul, &factor, type_of(coll->dtype), 1, plane->comm);
    if (r != RG_NCCL_SUCCESS) {
        plane->premul = -1;
        return rg_nccl_error(plane->nccl, r, "NCCL makes no scaled sum", err);
    }
    *ret_op = plane->premul;
    return 0;
}

/* ---- operands that are not there */

/* How many elements this member supplies and gets. */
static void extents(const struct rg_nccl_plane *plane, const struct rg_coll *coll, size_t *ret_in,
                    size_t *ret_out)
{
    bool counted = rg_coll_has_counts(coll->kind), root = coll->root == plane->me;
    size_t all = 0, received = 0, mine = counted ? coll->counts[plane->me] : 0;

    for (int m = 0; counted && m < plane->n; m++) {
        all += coll->counts[m];
        received += coll->recv_counts ? coll->recv_counts[m] : 0;
    }
    *ret_in = *ret_out = coll->count;
    if (coll->kind == RG_COLL_BROADCAST)
        *(root ? ret_out : ret_in) = 0;
    else if (coll->kind == RG_COLL_REDUCE && !root)
        *ret_out = 0;
    else if (counted) {
        *ret_in = coll->kind == RG_COLL_ALLGATHERV ? mine : all;
        *ret_out = coll->kind == RG_COLL_ALLTOALLV      ? received
                   : coll->kind == RG_COLL_ALLGATHERV ? all : mine;
    }
}

/* What this member needs of the scratch memory for one operation: in zeros, out dropped. */
static size_t scratch_of(const struct rg_nccl_plane *plane, const struct rg_coll *coll)
{
    size_t in, out, most;

    extents(plane, coll, &in, &out);
    in = coll->in ? 0 : in;
    out = coll->out ? 0 : out;
    most = in > out ? in : out;
    return (most * rg_dtype_nbytes(coll->dtype) + 255) / 256 * 256;
}

static int reserve_scratch(struct rg_nccl_plane *plane, void *stream, size_t nbytes,
                           struct rg_error *err)
{
    void *at;
    int r;

    if (nbytes == 0)
        return 0;
    /* The operation before this one may have been on another stream, and have used it too. */
    r = rg_gpu_mark_await(plane->last, stream, err);
    if (r < 0)
        return r;
    if (nbytes > plane->scratch_nbytes) {
        rg_gpu_free(plane->device, stream, plane->scratch);
        plane->scratch = NULL;
        plane->scratch_nbytes = 0;
        r = rg_gpu_alloc(plane->device, stream, nbytes, &at, err);
        if (r < 0)
            return r;
        plane->scratch = at;
        plane->scratch_nbytes = nbytes;
    }
    r = rg_cuda_get(NULL)->set_async((uintptr_t) plane->scratch, 0, nbytes, stream);
    return r == 0 ? 0 : rg_cuda_error(rg_cuda_get(NULL), r, "the GPU's memory", err);
}

/* ---- calls */

/* Where an operation reads and writes, all of it there. */
struct operands {
    const char *in;
    char *out;
    size_t esize;
    int type, op;
    void *stream;
};

/* The first failure is the result; "in progress" is none. */
static void note(int *result, int r)
{
    if (*result == RG_NCCL_SUCCESS || *result == RG_NCCL_IN_PROGRESS)
        *result = r;
}

static int call_gather(struct rg_nccl_plane *plane, const struct rg_coll *coll,
                       const struct operands *o)
{
    const struct rg_nccl *nccl = plane->nccl;
    size_t start = 0, most = rg_largest(coll->counts, plane->n);
    int result = RG_NCCL_SUCCESS;
    bool equal = true;

    for (int m = 0; m < plane->n; m++)
        equal = equal && coll->counts[m] == most;
    if (equal)
        return nccl->all_gather(o->in, o->out, most * o->esize, RG_NCCL_INT8, plane->comm,
                                o->stream);
    for (int m = 0; m < plane->n; start += coll->counts[m++] * o->esize)
        if (coll->counts[m] > 0)
            note(&result, nccl->broadcast(o->in, o->out + start, coll->counts[m] * o->esize,
                                          RG_NCCL_INT8, m, plane->comm, o->stream));
    return result;
}

static int call_scatter(struct rg_nccl_plane *plane, const struct rg_coll *coll,
                        const struct operands *o)
{
    const struct rg_nccl *nccl = plane->nccl;
    size_t start = 0, most = rg_largest(coll->counts, plane->n);
    int result = RG_NCCL_SUCCESS;
    bool equal = true;

    for (int m = 0; m < plane->n; m++)
        equal = equal && coll->counts[m] == most;
    if (equal)
        return nccl->reduce_scatter(o->in, o->out, most, o->type, o->op, plane->comm, o->stream);
    for (int m = 0; m < plane->n; start += coll->counts[m++] * o->esize)
        if (coll->counts[m] > 0)
            note(&result, nccl->reduce(o->in + start, o->out, coll->counts[m], o->type, o->op, m,
                                       plane->comm, o->stream));
    return result;
}

static int call_alltoall(struct rg_nccl_plane *plane, const struct rg_coll *coll,
                         const struct operands *o)
{
    const struct rg_nccl *nccl = plane->nccl;
    size_t from = 0, to = 0;
    int result = RG_NCCL_SUCCESS;

    for (int m = 0; m < plane->n; m++) {
        size_t out = coll->counts[m] * o->esize, in = coll->recv_counts[m] * o->esize;

        if (out > 0)
            note(&result, nccl->send(o->in + from, out, RG_NCCL_INT8, m, plane->comm, o->stream));
        if (in > 0)
            note(&result, nccl->recv(o->out + to, in, RG_NCCL_INT8, m, plane->comm, o->stream));
        from += out;
        to += in;
    }
    return result;
}

static int call(struct rg_nccl_plane *plane, const struct rg_coll *coll, const struct operands *o)
{
    const struct rg_nccl *nccl = plane->nccl;

    if (coll->kind == RG_COLL_ALLGATHERV)
        return call_gather(plane, coll, o);
    if (coll->kind == RG_COLL_REDUCESCATTERV)
        return call_scatter(plane, coll, o);
    if (coll->kind == RG_COLL_ALLTOALLV)
        return call_alltoall(plane, coll, o);
    if (coll->count == 0)
        return RG_NCCL_SUCCESS;
    if (coll->kind == RG_COLL_BROADCAST)
        return nccl->broadcast(o->in, o->out, coll->count * o->esize, RG_NCCL_INT8, coll->root,
                               plane->comm, o->stream);
    if (coll->kind == RG_COLL_REDUCE)
        return nccl->reduce(o->in, o->out, coll->count, o->type, o->op, coll->root, plane->comm,
                            o->stream);
    return nccl->all_reduce(o->in, o->out, coll->count, o->type, o->op, plane->comm, o->stream);
}

/* One stream for all of them: who has joined has none of the caller's. */
static int stream_of(struct rg_nccl_plane *plane, void **ret_stream, struct rg_error *err)
{
    *ret_stream = plane->colls[0].stream;
    if (*ret_stream)
        return 0;
    if (!plane->stream) {
        int r = rg_gpu_stream_create(plane->device, &plane->stream, err);

        if (r < 0)
            return r;
    }
    *ret_stream = plane->stream;
    return 0;
}

/* The root of a broadcast need not give its result a place, and all others have no operand. */
static void *in_of(const struct rg_nccl_plane *plane, const struct rg_coll *coll, char *scratch)
{
    if (coll->kind == RG_COLL_BROADCAST && coll->root != plane->me)
        return coll->out ? coll->out : scratch;
    return coll->in ? (void *) (uintptr_t) coll->in : scratch;
}

static void *out_of(const struct rg_nccl_plane *plane, const struct rg_coll *coll, char *scratch)
{
    if (coll->out)
        return coll->out;
    return coll->kind == RG_COLL_BROADCAST && coll->root == plane->me && coll->in
               ? (void *) (uintptr_t) coll->in : scratch;
}

int rg_nccl_launch(struct rg_nccl_plane *plane, struct rg_error *err)
{
    const struct rg_coll *first = &plane->colls[0];
    struct operands o = { .esize = rg_dtype_nbytes(first->dtype), .type = type_of(first->dtype) };
    size_t nscratch = 0;
    char *scratch;
    int r = stream_of(plane, &o.stream, err), result = RG_NCCL_SUCCESS;

    for (int i = 0; i < plane->ncolls; i++)
        nscratch += scratch_of(plane, &plane->colls[i]);
    if (r == 0)
        r = reserve_scratch(plane, o.stream, nscratch, err);
    if (r == 0 && rg_coll_reduces(first->kind))
        r = make_op(plane, first, &o.op, err);
    if (r < 0)
        return r;
    scratch = plane->scratch;
    plane->nccl->group_start();
    for (int i = 0; i < plane->ncolls; i++) {
        const struct rg_coll *coll = &plane->colls[i];

        o.in = in_of(plane, coll, scratch);
        o.out = out_of(plane, coll, scratch);
        note(&result, call(plane, coll, &o));
        scratch = scratch ? scratch + scratch_of(plane, coll) : NULL;
    }
    note(&result, plane->nccl->group_end());
    if (result != RG_NCCL_SUCCESS && result != RG_NCCL_IN_PROGRESS)
        return rg_nccl_error(plane->nccl, result, "NCCL refused an operation", err);
    return 0;
}
