/* SPDX-License-Identifier: Apache-2.0 */
/* Which of MPI's calls an operation becomes, apart from who waits for them. */
#include "coll/planes/mpi.h"

#include <stdlib.h>
#include <string.h>

#include "coll/reduce/reduce.h"

static size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* ---- parts of rounds */

/* Elements of a member's part of a round that reduces, and where it starts in `in`. In an allreduce
 * a round's chunk is divided among the members. In a reducescatter the parts are given, and a round
 * is a slice of each. */
static size_t round_part(const struct rg_mpi *mpi, size_t round, int member, size_t *ret_start)
{
    const struct rg_mpi_op *op = &mpi->op;
    size_t i = (size_t) member, n = (size_t) mpi->n;

    if (rg_mpi_hands_on(op)) {
        size_t first = round * op->chunk, left = op->coll.count - first;
        size_t length = left < op->chunk ? left : op->chunk, extra = length % n;

        *ret_start = first + i * (length / n) + (i < extra ? i : extra);
        return length / n + (i < extra);
    }
    size_t first = round * op->part, count = op->coll.counts[member];

    if (first >= count) {
        *ret_start = op->starts[member];
        return 0;
    }
    *ret_start = op->starts[member] + first;
    return count - first < op->part ? count - first : op->part;
}

/* Piece `round` of what goes to or comes from one member in an alltoall. */
static struct rg_mpi_part alltoall_part(const struct rg_mpi *mpi, char *base, size_t start,
                                        size_t count, size_t round)
{
    size_t piece = mpi->limits.piece_nbytes, nbytes = count * mpi->op.esize;
    size_t first = round * piece;

    if (first >= nbytes)
        return (struct rg_mpi_part){ NULL, 0 };
    return (struct rg_mpi_part){ base + start * mpi->op.esize + first,
                                 nbytes - first < piece ? nbytes - first : piece };
}

struct rg_mpi_part rg_mpi_round_send(struct rg_mpi *mpi, size_t round, int to)
{
    const struct rg_mpi_op *op = &mpi->op;
    /* MPI only reads it. */
    char *in = (char *) (uintptr_t) op->in;
    size_t start;

    if (op->coll.kind == RG_COLL_ALLTOALLV)
        return alltoall_part(mpi, in, op->starts[to], op->coll.counts[to], round);
    size_t count = round_part(mpi, round, to, &start);

    return (struct rg_mpi_part){ op->coll.in ? in + start * op->esize : mpi->zeros.at,
                                 count * op->esize };
}

/* A round's received parts lie one after another, by member. */
static char *slot(const struct rg_mpi *mpi, size_t round, int member)
{
    size_t stride = mpi->op.part * mpi->op.esize;

    return mpi->staging.at + ((round % RG_MPI_ROUNDS) * (size_t) mpi->n + (size_t) member) * stride;
}

struct rg_mpi_part rg_mpi_round_recv(struct rg_mpi *mpi, size_t round, int from)
{
    const struct rg_mpi_op *op = &mpi->op;
    size_t start;

    if (op->coll.kind == RG_COLL_ALLTOALLV)
        return alltoall_part(mpi, op->out, op->recv_starts[from], op->coll.recv_counts[from],
                             round);
    size_t count = round_part(mpi, round, mpi->me, &start);

    return (struct rg_mpi_part){ slot(mpi, round, from), count * op->esize };
}

/* Where a chunk's result is put together: in the output, or aside when it is dropped. */
static char *chunk_at(const struct rg_mpi *mpi, size_t round)
{
    const struct rg_mpi_op *op = &mpi->op;
    size_t nbytes = op->chunk * op->esize;

    return op->out ? op->out + round * nbytes : mpi->scratch.at + (round % RG_MPI_ROUNDS) * nbytes;
}

void rg_mpi_round_reduce(struct rg_mpi *mpi, size_t round)
{
    const struct rg_mpi_op *op = &mpi->op;
    size_t start, count;
    char *to;

    if (!rg_coll_reduces(op->coll.kind))
        return;
    count = round_part(mpi, round, mpi->me, &start);
    if (rg_mpi_hands_on(op))
        to = chunk_at(mpi, round) + (start - round * op->chunk) * op->esize;
    else if (op->out)
        to = op->out + (start - op->starts[mpi->me]) * op->esize;
    else
        return;
    for (int i = 0; i < mpi->n; i++)
        mpi->sources[i] = slot(mpi, round, i);
    mpi->sources[mpi->me] = op->coll.in ? op->in + start * op->esize : NULL;
    rg_reduce(op->coll.dtype, op->coll.op, to, mpi->sources, mpi->n, count, &op->coll.scale);
}

char *rg_mpi_round_chunk(struct rg_mpi *mpi, size_t round)
{
    struct rg_mpi_round *at = &mpi->rounds[round % RG_MPI_ROUNDS];
    size_t first = round * mpi->op.chunk;

    for (int i = 0; i < mpi->n; i++) {
        size_t start, count = round_part(mpi, round, i, &start);

        at->counts[i] = (int) (count * mpi->op.esize);
        at->displs[i] = (int) ((start - first) * mpi->op.esize);
    }
    return chunk_at(mpi, round);
}

void rg_mpi_gather_reduce(struct rg_mpi *mpi)
{
    const struct rg_mpi_op *op = &mpi->op;

    if (!op->out)
        return;
    for (int i = 0; i < mpi->n; i++)
        mpi->sources[i] = mpi->staging.at + (size_t) i * op->total;
    rg_reduce(op->coll.dtype, op->coll.op, op->out, mpi->sources, mpi->n, op->coll.count,
              &op->coll.scale);
}

/* ---- beginning */

/* Calls of MPI for an allgather: one, or one for each piece of each member. */
static size_t allgather_calls(const struct rg_mpi *mpi)
{
    size_t piece = mpi->limits.piece_nbytes, ncalls = 0;
    const struct rg_mpi_op *op = &mpi->op;

    if (op->starts[mpi->n] * op->esize <= piece)
        return 1;
    for (int i = 0; i < mpi->n; i++)
        ncalls += ceil_div(op->coll.counts[i] * op->esize, piece);
    return ncalls;
}

/* Rounds of at most the limit, of `count` elements in all parts together. At least one element for
 * each member. */
static void divide(struct rg_mpi *mpi, size_t count)
{
    struct rg_mpi_op *op = &mpi->op;
    size_t chunk = mpi->limits.chunk_nbytes / op->esize, n = (size_t) mpi->n;

    chunk = count < chunk ? count : chunk;
    op->chunk = chunk > n ? chunk : n;
    op->part = ceil_div(op->chunk, n);
}

static void choose(struct rg_mpi *mpi)
{
    struct rg_mpi_op *op = &mpi->op;
    size_t most;

    op->way = RG_MPI_ROUNDWISE;
    switch (op->coll.kind) {
    case RG_COLL_ALLREDUCE:
    case RG_COLL_REDUCE:
        divide(mpi, op->coll.count);
        op->nrounds = ceil_div(op->coll.count, op->chunk);
        if (op->total * (size_t) mpi->n <= mpi->limits.small_nbytes)
            op->way = RG_MPI_GATHER;
        break;
    case RG_COLL_REDUCESCATTERV:
        most = rg_largest(op->coll.counts, mpi->n);
        divide(mpi, most * (size_t) mpi->n);
        op->nrounds = ceil_div(most, op->part);
        break;
    case RG_COLL_ALLTOALLV:
        /* Both ends of a pair know how much passes between them, which is all they need. */
        most = rg_largest(op->coll.counts, mpi->n);
        if (rg_largest(op->coll.recv_counts, mpi->n) > most)
            most = rg_largest(op->coll.recv_counts, mpi->n);
        op->nrounds = ceil_div(most * op->esize, mpi->limits.piece_nbytes);
        break;
    case RG_COLL_BROADCAST:
        op->way = RG_MPI_SEQUENCE;
        op->nrounds = ceil_div(op->total, mpi->limits.piece_nbytes);
        break;
    case RG_COLL_ALLGATHERV:
        op->way = RG_MPI_SEQUENCE;
        op->nrounds = op->starts[mpi->n] == 0 ? 0 : allgather_calls(mpi);
    }
    if (op->nrounds == 0)
        op->way = RG_MPI_NOTHING;
}

/* Memory of the way chosen. */
static int get_memory(struct rg_mpi *mpi)
{
    const struct rg_mpi_op *op = &mpi->op;
    size_t n = (size_t) mpi->n, part = op->part * op->esize;
    size_t staging = 0, zeros = 0, scratch = 0;

    if (op->way == RG_MPI_GATHER) {
        staging = n * op->total;
        zeros = op->coll.in ? 0 : op->total;
    } else if (op->way == RG_MPI_ROUNDWISE && rg_coll_reduces(op->coll.kind)) {
        staging = RG_MPI_ROUNDS * n * part;
        zeros = op->coll.in ? 0 : part;
        scratch = rg_mpi_hands_on(op) && !op->out ? RG_MPI_ROUNDS * n * part : 0;
    } else if (op->way == RG_MPI_SEQUENCE) {
        scratch = op->out ? 0 : op->starts[n] * op->esize;
        zeros = op->coll.in || op->coll.kind != RG_COLL_BROADCAST ? 0 : op->total;
    } else if (op->way == RG_MPI_ROUNDWISE) {
        scratch = op->out ? 0 : op->recv_starts[n] * op->esize;
    }
    if (rg_store_reserve(&mpi->staging, staging) < 0 ||
        rg_store_reserve(&mpi->scratch, scratch) < 0)
        return -ENOMEM;
    if (zeros <= mpi->zeros.nbytes)
        return 0;
    if (rg_store_reserve(&mpi->zeros, zeros) < 0)
        return -ENOMEM;
    memset(mpi->zeros.at, 0, zeros);
    return 0;
}

/* What MPI writes to and reads from, where the caller gave nothing. */
static void set_ends(struct rg_mpi *mpi)
{
    struct rg_mpi_op *op = &mpi->op;
    bool root = mpi->me == op->coll.root;

    if (!op->coll.in && op->way == RG_MPI_GATHER)
        op->in = mpi->zeros.at;
    if (op->coll.kind == RG_COLL_BROADCAST && root)
        op->in = op->coll.in ? op->coll.in : mpi->zeros.at;
    if (!rg_coll_reduces(op->coll.kind) && !op->out)
        op->out = mpi->scratch.at;
}

int rg_mpi_op_begin(struct rg_mpi *mpi, const struct rg_coll *coll)
{
    struct rg_mpi_op *op = &mpi->op;
    int n = mpi->n, r;

    *op = (struct rg_mpi_op){ .coll = *coll, .esize = rg_dtype_nbytes(coll->dtype),
                              .starts = mpi->starts, .recv_starts = mpi->starts + n + 1,
                              .in = coll->in, .out = coll->out };
    if (coll->kind == RG_COLL_REDUCE && mpi->me != coll->root)
        op->out = NULL;
    op->starts[n] = coll->count;
    if (rg_coll_has_counts(coll->kind))
        rg_prefix_sums(coll->counts, n, op->starts);
    if (coll->kind == RG_COLL_ALLTOALLV)
        rg_prefix_sums(coll->recv_counts, n, op->recv_starts);
    op->total = op->starts[n] * op->esize;
    choose(mpi);
    r = get_memory(mpi);
    if (r < 0)
        return r;
    set_ends(mpi);
    op->active = true;
    return 0;
}

/* What one great operation wanted is not kept. */
static void trim(struct rg_store *store, size_t keep)
{
    if (store->nbytes <= keep)
        return;
    free(store->at);
    *store = (struct rg_store){ NULL, 0 };
}

void rg_mpi_op_end(struct rg_mpi *mpi)
{
    struct rg_mpi_op *op = &mpi->op;
    size_t keep = 2 * RG_MPI_ROUNDS * mpi->limits.chunk_nbytes;

    op->active = false;
    if (op->coll.kind == RG_COLL_BROADCAST && mpi->me == op->coll.root && op->coll.out &&
        op->coll.out != op->in && op->total > 0)
        memmove(op->coll.out, op->in, op->total);
    if (op->coll.kind == RG_COLL_ALLTOALLV && op->coll.counts[mpi->me] > 0)
        memcpy(op->out + op->recv_starts[mpi->me] * op->esize,
               op->in + op->starts[mpi->me] * op->esize, op->coll.counts[mpi->me] * op->esize);
    trim(&mpi->scratch, keep);
    trim(&mpi->zeros, keep);
}
