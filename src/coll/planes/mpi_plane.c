/* SPDX-License-Identifier: Apache-2.0 */
/* The mpi plane: its life and its progress; mpi.h tells how it works. */
#include "coll/planes/mpi.h"

#include <stdlib.h>
#include <string.h>

#include "coll/reduce/reduce.h"

#define SCORE 150 /* above tcp's: who has asked for this plane has reasons */
/* Of MPI_Comm_create_group; unlike what a program would take. */
#define TAG_SOME 21063
#define TAG_ALL 21064

/* ---- rounds */

/* The receives of a round, then its sends; whatever has been made is in the list when one fails. */
static int post_round(struct rg_mpi *mpi, size_t number)
{
    struct rg_mpi_round *round = &mpi->rounds[number % RG_MPI_ROUNDS];
    int tag = (int) (mpi->noperations % RG_MPI_TAG_MAX), code = 0;

    round->nrequests = round->ndone = 0;
    /* Everybody begins with the neighbour, so that not all send to one at a time. */
    for (int step = 1; step < mpi->n && code == 0; step++) {
        int from = (mpi->me - step + mpi->n) % mpi->n;
        struct rg_mpi_part part = rg_mpi_round_recv(mpi, number, from);

        if (part.nbytes > 0)
            code = mpi->ops->irecv(&mpi->comm, part.at, (int) part.nbytes, from, tag,
                                   &round->requests[round->nrequests]);
        round->nrequests += part.nbytes > 0 && code == 0;
    }
    for (int step = 1; step < mpi->n && code == 0; step++) {
        int to = (mpi->me + step) % mpi->n;
        struct rg_mpi_part part = rg_mpi_round_send(mpi, number, to);

        if (part.nbytes > 0)
            code = mpi->ops->isend(&mpi->comm, part.at, (int) part.nbytes, to, tag,
                                   &round->requests[round->nrequests]);
        round->nrequests += part.nbytes > 0 && code == 0;
    }
    return code;
}

/* Until one is found that is not done. */
static int test_round(struct rg_mpi *mpi, struct rg_mpi_round *round, bool *ret_moved)
{
    bool done = true;
    int code = 0;

    while (round->ndone < round->nrequests && code == 0) {
        done = false;
        code = mpi->ops->test(&round->requests[round->ndone], &done);
        if (!done)
            break;
        round->ndone++;
        *ret_moved = true;
    }
    return code;
}

static int hand_over(struct rg_mpi *mpi, size_t number)
{
    struct rg_mpi_round *round = &mpi->rounds[number % RG_MPI_ROUNDS];
    char *chunk = rg_mpi_round_chunk(mpi, number);

    return mpi->ops->iallgatherv(&mpi->comm, NULL, chunk, round->counts, round->displs,
                                 &round->handover);
}

/* One step of the oldest round that can make one. */
static int step_rounds(struct rg_mpi *mpi, bool *ret_moved)
{
    struct rg_mpi_op *op = &mpi->op;
    bool hands_on = rg_mpi_hands_on(op), done = false;
    int code;

    if (op->finished < op->handed) {
        code = mpi->ops->test(&mpi->rounds[op->finished % RG_MPI_ROUNDS].handover, &done);
        op->finished += code == 0 && done;
        *ret_moved |= done;
        if (code != 0 || done)
            return code;
    }
    if (op->reduced < op->posted) {
        struct rg_mpi_round *round = &mpi->rounds[op->reduced % RG_MPI_ROUNDS];

        code = test_round(mpi, round, ret_moved);
        if (code != 0)
            return code;
        if (round->ndone == round->nrequests) {
            rg_mpi_round_reduce(mpi, op->reduced++);
            if (!hands_on)
                op->handed = op->finished = op->reduced;
            *ret_moved = true;
        }
    }
    if (hands_on && op->handed < op->reduced) {
        *ret_moved = true;
        return hand_over(mpi, op->handed++);
    }
    /* A round's lists are free when its results have gone round too. */
    if (op->posted < op->nrounds && op->posted < op->finished + RG_MPI_ROUNDS) {
        *ret_moved = true;
        return post_round(mpi, op->posted++);
    }
    return 0;
}

/* ---- one call after another */

/* The next piece of an allgather that goes member by member. */
static int post_piece(struct rg_mpi *mpi)
{
    struct rg_mpi_op *op = &mpi->op;
    size_t nbytes = 0, piece = mpi->limits.piece_nbytes;
    char *at;

    for (;; op->member++, op->offset = 0) {
        nbytes = op->coll.counts[op->member] * op->esize;
        if (op->offset < nbytes)
            break;
    }
    at = op->out + op->starts[op->member] * op->esize;
    if (op->member == mpi->me && op->offset == 0 && op->in != at)
        memcpy(at, op->in, nbytes);
    at += op->offset;
    nbytes = nbytes - op->offset < piece ? nbytes - op->offset : piece;
    op->offset += nbytes;
    return mpi->ops->ibcast(&mpi->comm, at, (int) nbytes, op->member, &op->request);
}

static int post_allgather(struct rg_mpi *mpi)
{
    struct rg_mpi_op *op = &mpi->op;
    struct rg_mpi_round *lists = &mpi->rounds[0];
    const char *place = op->out + op->starts[mpi->me] * op->esize;

    if (op->nrounds > 1 || op->starts[mpi->n] * op->esize > mpi->limits.piece_nbytes)
        return post_piece(mpi);
    for (int i = 0; i < mpi->n; i++) {
        lists->counts[i] = (int) (op->coll.counts[i] * op->esize);
        lists->displs[i] = (int) (op->starts[i] * op->esize);
    }
    return mpi->ops->iallgatherv(&mpi->comm, op->in == place ? NULL : op->in, op->out,
                                 lists->counts, lists->displs, &op->request);
}

static int post_broadcast(struct rg_mpi *mpi)
{
    struct rg_mpi_op *op = &mpi->op;
    size_t at = op->posted * mpi->limits.piece_nbytes, left = op->total - at;
    size_t nbytes = left < mpi->limits.piece_nbytes ? left : mpi->limits.piece_nbytes;
    char *data = mpi->me == op->coll.root ? (char *) (uintptr_t) op->in : op->out;

    return mpi->ops->ibcast(&mpi->comm, data + at, (int) nbytes, op->coll.root, &op->request);
}

static int post_call(struct rg_mpi *mpi)
{
    struct rg_mpi_op *op = &mpi->op;

    if (op->way == RG_MPI_GATHER)
        return mpi->ops->iallgather(&mpi->comm, op->in, mpi->staging.at, (int) op->total,
                                    &op->request);
    if (op->coll.kind == RG_COLL_BROADCAST)
        return post_broadcast(mpi);
    return post_allgather(mpi);
}

static int step_calls(struct rg_mpi *mpi, bool *ret_moved)
{
    struct rg_mpi_op *op = &mpi->op;
    bool done = false;
    int code;

    if (op->under_way) {
        code = mpi->ops->test(&op->request, &done);
        if (code != 0 || !done)
            return code;
        op->under_way = false;
        op->finished++;
        *ret_moved = true;
        if (op->way == RG_MPI_GATHER)
            rg_mpi_gather_reduce(mpi);
    }
    if (op->finished == op->nrounds)
        return 0;
    code = post_call(mpi);
    op->posted++;
    op->under_way = code == 0;
    *ret_moved = true;
    return code;
}

/* ---- the plane's functions */

static void release(struct rg_mpi *mpi)
{
    for (int i = 0; i < RG_MPI_ROUNDS; i++)
        free(mpi->rounds[i].requests);
    free(mpi->sources);
    free(mpi->starts);
    free(mpi->staging.at);
    free(mpi->zeros.at);
    free(mpi->scratch.at);
    free(mpi);
}

int rg_mpi_plane_make(const struct rg_mpi_shim_ops *ops, const struct rg_mpi_comm *comm,
                      const struct rg_mpi_limits *limits, struct rg_mpi **ret_mpi)
{
    struct rg_mpi *mpi = calloc(1, sizeof(*mpi));
    size_t n = (size_t) comm->size;
    bool complete;

    if (!mpi)
        return -ENOMEM;
    *mpi = (struct rg_mpi){ .ops = ops, .comm = *comm, .limits = *limits,
                            .n = comm->size, .me = comm->rank, .nap_us = RG_MPI_NAP_MIN_US };
    mpi->sources = calloc(n, sizeof(*mpi->sources));
    mpi->starts = calloc(2 * (n + 1), sizeof(*mpi->starts));
    complete = mpi->sources && mpi->starts;
    for (int i = 0; i < RG_MPI_ROUNDS && complete; i++) {
        struct rg_mpi_round *round = &mpi->rounds[i];

        round->requests = calloc(n, 2 * (sizeof(*round->requests) + sizeof(int)));
        complete = round->requests;
        round->counts = complete ? (int *) (round->requests + 2 * n) : NULL;
        round->displs = complete ? round->counts + n : NULL;
    }
    if (!complete) {
        release(mpi);
        return -ENOMEM;
    }
    *ret_mpi = mpi;
    return 0;
}

static int open_mpi(const struct rg_plane_options *options, void **ret_state,
                    struct rg_error *err)
{
    static const struct rg_mpi_limits limits = { RG_MPI_SMALL_NBYTES, RG_MPI_CHUNK_NBYTES,
                                                 RG_MPI_PIECE_NBYTES };
    const struct rg_mpi_shim_ops *ops;
    struct rg_mpi_comm comm;
    struct rg_mpi *mpi;
    int tag = options->group.scope == RG_SCOPE_ALL ? TAG_ALL : TAG_SOME;
    int r = rg_mpi_world_comm(options, tag, &ops, &comm, err);

    if (r < 0)
        return r;
    if (rg_mpi_plane_make(ops, &comm, &limits, &mpi) < 0) {
        ops->free(&comm);
        return rg_error_set(err, ENOMEM, "out of memory");
    }
    *ret_state = mpi;
    return 0;
}

static int score(const void *state, const struct rg_plane_task *task)
{
    (void) state;
    return rg_coll_reduces(task->kind) && task->group->nmembers > RG_REDUCE_SOURCES_MAX ? -1
                                                                                        : SCORE;
}

static void note_time(struct rg_mpi *mpi, bool moved)
{
    if (moved) {
        mpi->moved_ns = rg_now_ns();
        mpi->nap_us = RG_MPI_NAP_MIN_US;
    }
}

static int post(void *state, const struct rg_coll *coll)
{
    struct rg_mpi *mpi = state;
    int r;

    if (mpi->dead)
        return -ECONNRESET;
    if (mpi->ops->finalized())
        return -ESHUTDOWN;
    r = rg_mpi_op_begin(mpi, coll);
    if (r == 0) {
        mpi->noperations++;
        note_time(mpi, true);
    }
    return r;
}

/* MPI gives no cause. */
static int lose(struct rg_mpi *mpi, int code)
{
    rg_mpi_error(mpi->ops, code, "MPI failed, as it does when a rank is gone", &mpi->loss.cause);
    mpi->loss.cause.errnum = ECONNRESET;
    mpi->loss.at_ns = rg_now_ns();
    return 0;
}

static int progress(void *state, bool *ret_moved, struct rg_error *err)
{
    struct rg_mpi *mpi = state;
    struct rg_mpi_op *op = &mpi->op;
    bool any = false, moved = true;
    int code = 0;

    if (mpi->dead)
        return rg_error_set(err, ECONNRESET, "the mpi plane was given up");
    if (!op->active)
        return 1;
    if (mpi->loss.at_ns)
        return rg_loss_tell(&mpi->loss, err);
    while (code == 0 && moved && op->finished < op->nrounds) {
        moved = false;
        code = op->way == RG_MPI_ROUNDWISE ? step_rounds(mpi, &moved) : step_calls(mpi, &moved);
        any |= moved;
    }
    note_time(mpi, any);
    if (any)
        *ret_moved = true;
    if (code != 0)
        return lose(mpi, code);
    if (op->finished < op->nrounds)
        return 0;
    rg_mpi_op_end(mpi);
    *ret_moved = true;
    return 1;
}

static unsigned poll_us(void *state)
{
    struct rg_mpi *mpi = state;
    uint64_t quiet_ms;
    unsigned nap = mpi->nap_us;

    if (mpi->dead || !mpi->moved_ns)
        return 0;
    quiet_ms = (rg_now_ns() - mpi->moved_ns) / RG_NS_PER_MS;
    if (!mpi->op.active) {
        mpi->ops->nudge(&mpi->comm);
        return quiet_ms < RG_MPI_IDLE_SOON_MS ? RG_MPI_IDLE_SOON_US : RG_MPI_IDLE_US;
    }
    if (quiet_ms >= RG_MPI_LATE_MS)
        return RG_MPI_NAP_LONG_US;
    mpi->nap_us = nap * 2 < RG_MPI_NAP_MAX_US ? nap * 2 : RG_MPI_NAP_MAX_US;
    return nap;
}

/* What others send from now on must not be written into buffers of the user's. */
static void give_up_round(struct rg_mpi *mpi, struct rg_mpi_round *round)
{
    for (int i = round->ndone; i < round->nrequests; i++) {
        bool done;

        if (!mpi->ops->finalized() && mpi->ops->cancel(&round->requests[i]) == 0)
            mpi->ops->test(&round->requests[i], &done);
    }
    round->nrequests = round->ndone = 0;
}

static void abort_mpi(void *state)
{
    struct rg_mpi *mpi = state;

    if (mpi->dead)
        return;
    mpi->dead = true;
    if (!mpi->op.active)
        return;
    rg_mpi_world_spoil();
    for (int i = 0; i < RG_MPI_ROUNDS && mpi->op.way == RG_MPI_ROUNDWISE; i++)
        give_up_round(mpi, &mpi->rounds[i]);
}

static void close_mpi(void *state, int timeout_ms)
{
    struct rg_mpi *mpi = state;

    (void) timeout_ms;
    if (!mpi)
        return;
    /* MPI may still write into buffers of what was given up: they, and the communicator, are left
     * to it. */
    if (mpi->op.active)
        return;
    mpi->ops->free(&mpi->comm);
    release(mpi);
}

static const struct rg_plane_library_ops library = { .describe = rg_mpi_world_describe,
                                                     .mpi = rg_mpi_world_mpi };

const struct rg_plane_ops rg_plane_mpi = {
    .name = "mpi",
    .scopes = 1u << RG_SCOPE_LEADERS | 1u << RG_SCOPE_ALL,
    .memories = 1u << RG_MEMORY_HOST,
    .asked = rg_mpi_world_asked,
    .prepare = rg_mpi_world_prepare,
    .offer = rg_mpi_world_offer,
    .agree = rg_mpi_world_agree,
    .open = open_mpi,
    .score = score,
    .post = post,
    .progress = progress,
    .poll_us = poll_us,
    .abort = abort_mpi,
    .close = close_mpi,
    .library = &library,
};
