/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms of the tcp plane, as lists of transfers.
 *
 *      allreduce       doubling: recursive doubling; where the number of members is no power of two
 *                      the odd ones of the first members are folded into their neighbours
 *                      halving: reduce-scatter and allgather by levels (tcp_levels.c)
 *                      ring: a ring of reduce-scatter and allgather
 *      broadcast       binomial tree; pipelined chain; scatter and allgather (tcp_levels.c)
 *      reduce          binomial tree; pipelined chain
 *      allgatherv, reducescatterv: halving; ring. alltoallv: pairwise.
 *
 * See Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH"
 * (2005). All members end with the same bits: a part is either computed once and passed on, or
 * (recursive doubling) computed by all from the same two operands in the same order.
 */
#include "coll/planes/tcp/tcp_op.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/reduce/reduce.h"

/* ------------------------------------------------------------ rings */

/* In step s every member sends block me + shift - s to its right and gets block me + shift - s - 1
 * from its left, in nsub chunks each; a chunk is sent on once it has come. */
static void ring_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    int s = (int) (i / op->nsub);
    int block = rg_tcp_wrap(op->me + op->shift - s, op->n);
    size_t count, from = rg_tcp_chunk(op, block, i % op->nsub, &count);

    *send = (struct rg_tcp_send) { .peer = rg_tcp_wrap(op->me + 1, op->n),
                                   .from = { s == 0 ? op->base : &op->acc,
                                             from * op->esize },
                                   .nbytes = count * op->esize,
                                   .needs = s == 0 ? 0 : i - op->nsub + 1 };
}

/* The first n - 1 steps of a reduction add what comes to this member's own part. */
static void ring_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    int s = (int) (i / op->nsub), last = op->n - 2;
    int block = rg_tcp_wrap(op->me + op->shift - s - 1, op->n);
    size_t count, from = rg_tcp_chunk(op, block, i % op->nsub, &count);

    *recv = (struct rg_tcp_recv) { .peer = rg_tcp_wrap(op->me - 1, op->n),
                                   .to = { &op->acc, from * op->esize },
                                   .nbytes = count * op->esize };
    if (!rg_coll_reduces(op->coll.kind) || s > last)
        return;
    if (op->coll.kind == RG_COLL_REDUCESCATTERV && s == last && op->coll.out)
        recv->to = (struct rg_tcp_place){ &op->out, (from - op->starts[op->me]) * op->esize };
    recv->with = (struct rg_tcp_place){ op->base, from * op->esize };
    recv->last = s == last;
}

/* ------------------------------------------------------------ recursive doubling */

static void doubling_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    const struct rg_doubling *doubling = &op->doubling;
    size_t folded = doubling->has_folded;

    *send = (struct rg_tcp_send) { .peer = doubling->neighbour, .from = { &op->acc, 0 },
                                   .nbytes = op->total };
    if (doubling->is_folded)
        return;
    if ((int) i < doubling->nsteps)
        send->peer = rg_doubling_partner(doubling, (int) i);
    send->needs = folded + i;
}

static void doubling_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    const struct rg_doubling *doubling = &op->doubling;
    size_t folded = doubling->has_folded;

    *recv = (struct rg_tcp_recv) { .peer = doubling->neighbour, .to = { &op->acc, 0 },
                                   .nbytes = op->total };
    if (doubling->is_folded) {
        recv->needs = 1;
        return;
    }
    if (i >= folded) {
        recv->peer = rg_doubling_partner(doubling, (int) (i - folded));
        recv->needs = i - folded + 1;
    }
    recv->with = recv->to;
    recv->with_first = op->me < recv->peer;
}

static void set_doubling(struct rg_tcp_op *op)
{
    op->send_step = doubling_send;
    op->recv_step = doubling_recv;
    op->scale_at_end = true;
    op->doubling = rg_doubling_of(op->n, op->me);
    op->nsends = op->nrecvs = op->doubling.is_folded
                                  ? 1 : (size_t) op->doubling.nsteps + op->doubling.has_folded;
}

/* ------------------------------------------------------------ trees and chains */

/* The member `distance` places after the root, and this member's distance from it. */
static int from_root(const struct rg_tcp_op *op, int distance)
{
    return rg_tcp_wrap(op->coll.root + distance, op->n);
}

static int my_distance(const struct rg_tcp_op *op)
{
    return rg_tcp_wrap(op->me - op->coll.root, op->n);
}

/* In the binomial tree a member's children are at distances d + 1, d + 2, d + 4, ... below its own
 * lowest set bit. */
static int nchildren(const struct rg_tcp_op *op)
{
    int d = my_distance(op), count = 0;

    for (int bit = 1; d + bit < op->n && !(d & bit); bit *= 2)
        count++;
    return count;
}

static int parent(const struct rg_tcp_op *op)
{
    int d = my_distance(op);

    return from_root(op, d & (d - 1));
}

static bool goes_down(const struct rg_tcp_op *op)
{
    return op->coll.kind == RG_COLL_BROADCAST;
}

/* What is passed on has come, but for the member with which it begins. */
static const struct rg_tcp_area *passed_on(const struct rg_tcp_op *op)
{
    return op->nrecvs ? &op->acc : op->base;
}

/* Down, the farthest child first: it has most to do. */
static void tree_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    *send = (struct rg_tcp_send) { .peer = parent(op), .from = { passed_on(op), 0 },
                                   .nbytes = op->total, .needs = op->nrecvs };
    if (goes_down(op))
        send->peer = from_root(op, my_distance(op) + (1 << (nchildren(op) - 1 - (int) i)));
}

static void tree_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    *recv = (struct rg_tcp_recv) { .peer = parent(op), .to = { &op->acc, 0 },
                                   .nbytes = op->total };
    if (goes_down(op))
        return;
    recv->peer = from_root(op, my_distance(op) + (1 << i));
    recv->with.area = i == 0 ? op->base : &op->acc;
    recv->with_first = true;
    recv->last = my_distance(op) == 0 && i + 1 == op->nrecvs;
}

/* A chain has one block, that of everybody: chunk i of it. */
static size_t chain_chunk(const struct rg_tcp_op *op, size_t i, size_t *ret_nbytes)
{
    size_t from = i * op->chunk, count = op->coll.count - from;

    *ret_nbytes = (count < op->chunk ? count : op->chunk) * op->esize;
    return from * op->esize;
}

/* The member so many places on in the direction of the data. */
static int along_chain(const struct rg_tcp_op *op, int places)
{
    return from_root(op, my_distance(op) + (goes_down(op) ? places : -places));
}

static void chain_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    size_t nbytes, from = chain_chunk(op, i, &nbytes);

    *send = (struct rg_tcp_send) { .peer = along_chain(op, 1),
                                   .from = { passed_on(op), from },
                                   .nbytes = nbytes, .needs = op->nrecvs ? i + 1 : 0 };
}

static void chain_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    size_t nbytes, from = chain_chunk(op, i, &nbytes);

    *recv = (struct rg_tcp_recv) { .peer = along_chain(op, -1), .to = { &op->acc, from },
                                   .nbytes = nbytes };
    if (goes_down(op))
        return;
    recv->with = (struct rg_tcp_place){ op->base, from };
    recv->with_first = true;
    recv->last = my_distance(op) == 0;
}

static void set_rooted(struct rg_tcp_op *op)
{
    bool tree = op->algorithm == RG_ALGORITHM_TREE;
    size_t nchunks = (op->coll.count + op->chunk - 1) / op->chunk;
    bool root = op->me == op->coll.root, end = my_distance(op) == op->n - 1;
    size_t towards_root = root ? 0 : tree ? 1 : nchunks;
    size_t away = tree ? (size_t) nchildren(op) : end ? 0 : nchunks;

    op->nsends = goes_down(op) ? away : towards_root;
    op->nrecvs = goes_down(op) ? towards_root : away;
    op->send_step = tree ? tree_send : chain_send;
    op->recv_step = tree ? tree_recv : chain_recv;
}

/* ------------------------------------------------------------ pairwise */

static void pairwise_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    int to = rg_tcp_wrap(op->me + 1 + (int) i, op->n);

    *send = (struct rg_tcp_send) { .peer = to,
                                   .from = { op->base, op->starts[to] * op->esize },
                                   .nbytes = op->coll.counts[to] * op->esize };
}

static void pairwise_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    int from = rg_tcp_wrap(op->me - 1 - (int) i, op->n);

    *recv = (struct rg_tcp_recv) { .peer = from,
                                   .to = { &op->acc, op->recv_starts[from] * op->esize },
                                   .nbytes = op->coll.recv_counts[from] * op->esize };
}

/* ------------------------------------------------------------ begin and end */

static void even_blocks(struct rg_tcp_op *op)
{
    size_t n = (size_t) op->n, each = op->coll.count / n, rest = op->coll.count % n;

    for (size_t i = 0; i <= n; i++)
        op->starts[i] = each * i + (i < rest ? i : rest);
}

static void set_chunks(struct rg_tcp_op *op)
{
    size_t largest = 0;

    op->chunk = op->chunk_nbytes / op->esize;
    for (int i = 0; i < op->n; i++) {
        size_t count = op->starts[i + 1] - op->starts[i];

        largest = count > largest ? count : largest;
    }
    op->nsub = (largest + op->chunk - 1) / op->chunk;
}

static void set_ring(struct rg_tcp_op *op, int shift, int nsteps)
{
    op->send_step = ring_send;
    op->recv_step = ring_recv;
    op->shift = shift;
    op->nsends = op->nrecvs = (size_t) nsteps * op->nsub;
}

static void set_steps(struct rg_tcp_op *op)
{
    int steps = op->n - 1;

    op->nsends = op->nrecvs = 0;
    switch (op->n > 1 ? op->algorithm : RG_ALGORITHM_AUTO) {
    case RG_ALGORITHM_DOUBLING:
        set_doubling(op);
        break;
    case RG_ALGORITHM_HALVING:
    case RG_ALGORITHM_SCATTER:
        rg_tcp_set_levels(op);
        break;
    case RG_ALGORITHM_RING:
        set_ring(op, op->coll.kind == RG_COLL_REDUCESCATTERV ? -1 : 0,
                 op->coll.kind == RG_COLL_ALLREDUCE ? 2 * steps : steps);
        break;
    case RG_ALGORITHM_TREE:
    case RG_ALGORITHM_CHAIN:
        set_rooted(op);
        break;
    case RG_ALGORITHM_PAIRWISE:
        op->send_step = pairwise_send;
        op->recv_step = pairwise_recv;
        op->nsends = op->nrecvs = (size_t) steps;
        break;
    default:
        break;
    }
}

/* What a receive that is reduced may bring at once. */
static size_t scratch_nbytes(const struct rg_tcp_op *op)
{
    bool whole = op->algorithm == RG_ALGORITHM_DOUBLING || op->algorithm == RG_ALGORITHM_TREE;

    return whole && op->total > op->chunk_nbytes ? op->total : op->chunk_nbytes;
}

/* The bytes of a fused tensor, or of all there is. */
static size_t piece_nbytes(const struct rg_tcp_op *op, const struct rg_coll *coll, int ncolls)
{
    if (ncolls > 1)
        return coll->count * op->esize;
    return coll->kind == RG_COLL_ALLTOALLV ? op->recv_starts[op->n] * op->esize : op->total;
}

/* Where results grow: the caller's out, unless it is dropped, too short or to be kept from partial
 * results. */
static int set_acc(struct rg_tcp_op *op, const struct rg_coll *colls, int ncolls)
{
    bool kept = colls->kind == RG_COLL_REDUCESCATTERV ||
                (colls->kind == RG_COLL_REDUCE && op->me != colls->root);
    size_t own_nbytes = 0, own_at = 0;

    for (int i = 0; i < ncolls; i++)
        own_nbytes += kept || !colls[i].out ? piece_nbytes(op, &colls[i], ncolls) : 0;
    if (rg_tcp_area_clear(&op->acc, ncolls) < 0 || rg_store_reserve(&op->work, own_nbytes + 1) < 0)
        return -ENOMEM;
    for (int i = 0; i < ncolls; i++) {
        size_t nbytes = piece_nbytes(op, &colls[i], ncolls);
        bool own = kept || !colls[i].out;

        rg_tcp_area_add(&op->acc, own ? op->work.at + own_at : colls[i].out, nbytes);
        own_at += own ? nbytes : 0;
    }
    return 0;
}

/* Where received bytes wait for their reduction, and the result of a reduce-scatter. */
static int set_came(struct rg_tcp_op *op)
{
    const struct rg_coll *coll = &op->coll;

    if (!rg_coll_reduces(coll->kind))
        return 0;
    if (rg_store_reserve(&op->scratch, scratch_nbytes(op)) < 0 ||
        rg_tcp_area_clear(&op->came, 1) < 0 || rg_tcp_area_clear(&op->out, 1) < 0)
        return -ENOMEM;
    rg_tcp_area_add(&op->came, op->scratch.at, scratch_nbytes(op));
    if (coll->kind == RG_COLL_REDUCESCATTERV && coll->out)
        rg_tcp_area_add(&op->out, coll->out, coll->counts[op->me] * op->esize);
    return 0;
}

/* The memory so far into an area, and how much there is in one piece, at most *ret_nbytes. */
static char *memory_at(const struct rg_tcp_area *area, size_t offset, size_t *ret_nbytes)
{
    return rg_tcp_area_at(&(struct rg_tcp_place){ area, offset }, ret_nbytes);
}

/* Fill `to` with `from`, scaled. */
static void apply(const struct rg_tcp_op *op, const struct rg_scale *scale,
                  const struct rg_tcp_area *from, const struct rg_tcp_area *to)
{
    for (size_t done = 0, nbytes; done < to->nbytes; done += nbytes) {
        nbytes = to->nbytes - done;
        char *dst = memory_at(to, done, &nbytes);
        const void *src = memory_at(from, done, &nbytes);

        rg_reduce(op->coll.dtype, op->coll.op, dst, &src, 1, nbytes / op->esize, scale);
    }
}

/* What is applied where a reduction ends. */
static struct rg_scale scale_after(const struct rg_tcp_op *op)
{
    return (struct rg_scale){ 1.0, op->coll.scale.post, op->coll.scale.divisor };
}

/* This member's contribution as it is, or as a copy in acc where it must be scaled, is zero, or is
 * to be added to. */
static void set_reduced(struct rg_tcp_op *op, const struct rg_coll *colls, int ncolls)
{
    const struct rg_scale before = { colls->scale.pre, 1.0, 1 };
    bool as_it_is = colls->scale.pre == 1.0 && op->algorithm != RG_ALGORITHM_DOUBLING;
    size_t offset = 0;

    for (int i = 0; i < ncolls; i++) {
        size_t nbytes = piece_nbytes(op, &colls[i], ncolls);

        as_it_is = as_it_is && (colls[i].in || nbytes == 0);
        rg_tcp_area_add(&op->in, (void *) (uintptr_t) colls[i].in, nbytes);
    }
    op->base = as_it_is ? &op->in : &op->acc;
    for (int i = 0; i < ncolls && !as_it_is; i++) {
        size_t nbytes = piece_nbytes(op, &colls[i], ncolls);

        if (nbytes == 0)
            continue;
        char *acc = memory_at(&op->acc, offset, &nbytes);

        rg_reduce(op->coll.dtype, op->coll.op, acc, &colls[i].in, 1, nbytes / op->esize, &before);
        offset += nbytes;
    }
}

/* What this member sends first, by kind. */
static int set_base(struct rg_tcp_op *op, const struct rg_coll *colls, int ncolls)
{
    const struct rg_coll *coll = &op->coll;
    size_t nbytes = op->total;
    char *acc;

    if (rg_tcp_area_clear(&op->in, ncolls) < 0)
        return -ENOMEM;
    op->base = &op->acc;
    switch (coll->kind) {
    case RG_COLL_BROADCAST:
        if (op->me == coll->root && coll->in) {
            rg_tcp_area_add(&op->in, (void *) (uintptr_t) coll->in, op->total);
            op->base = &op->in;
        } else if (op->me == coll->root && nbytes > 0) {
            acc = memory_at(&op->acc, 0, &nbytes);
            memset(acc, 0, nbytes);
        }
        return 0;
    case RG_COLL_ALLGATHERV:
        nbytes = coll->counts[op->me] * op->esize;
        if (nbytes > 0) {
            acc = memory_at(&op->acc, op->starts[op->me] * op->esize, &nbytes);
            rg_put_operand(acc, coll->in, nbytes);
        }
        return 0;
    case RG_COLL_ALLTOALLV:
        if (!coll->in)
            op->zeros = calloc(1, op->total + 1);
        if (!coll->in && !op->zeros)
            return -ENOMEM;
        rg_tcp_area_add(&op->in, coll->in ? (char *) (uintptr_t) coll->in : op->zeros, op->total);
        op->base = &op->in;
        return 0;
    default:
        set_reduced(op, colls, ncolls);
        return 0;
    }
}

int rg_tcp_op_begin(struct rg_tcp_op *op, const struct rg_coll *colls, int ncolls,
                    struct rg_tcp_way *way, int n, int me)
{
    const struct rg_coll *coll = &op->coll;
    struct rg_model_choice choice;
    int r;

    op->coll = colls[0];
    for (int i = 1; i < ncolls; i++)
        op->coll.count += colls[i].count;
    op->n = n;
    op->me = me;
    op->esize = rg_dtype_nbytes(coll->dtype);
    if (!op->starts)
        op->starts = calloc(2 * ((size_t) n + 1), sizeof(*op->starts));
    if (!op->starts)
        return -ENOMEM;
    op->recv_starts = op->starts + n + 1;
    if (rg_coll_has_counts(coll->kind))
        rg_prefix_sums(coll->counts, n, op->starts);
    else
        even_blocks(op);
    if (coll->kind == RG_COLL_ALLTOALLV)
        rg_prefix_sums(coll->recv_counts, n, op->recv_starts);
    op->total = op->starts[n] * op->esize;
    op->scale_at_end = false;
    op->send_step = NULL;
    op->recv_step = NULL;
    choice = rg_tcp_way_choose(way, coll->kind, op->total, (enum rg_repeat) coll->repeat);
    op->algorithm = choice.algorithm;
    op->chunk_nbytes = choice.chunk_nbytes;
    set_chunks(op);
    set_steps(op);
    r = set_acc(op, colls, ncolls);
    if (r == 0)
        r = set_came(op);
    if (r == 0)
        r = set_base(op, colls, ncolls);
    if (r < 0)
        return r;
    op->number++;
    return 0;
}

struct rg_tcp_place rg_tcp_op_landing(const struct rg_tcp_op *op, const struct rg_tcp_recv *recv)
{
    return recv->with.area ? (struct rg_tcp_place){ &op->came, 0 } : recv->to;
}

void rg_tcp_op_reduce(struct rg_tcp_op *op, const struct rg_tcp_recv *recv)
{
    const struct rg_scale plain = { 1.0, 1.0, 1 };
    const struct rg_scale after = scale_after(op);

    if (!recv->with.area)
        return;
    for (size_t done = 0, nbytes; done < recv->nbytes; done += nbytes) {
        nbytes = recv->nbytes - done;
        char *to = memory_at(recv->to.area, recv->to.offset + done, &nbytes);
        const void *with = memory_at(recv->with.area, recv->with.offset + done, &nbytes);
        const void *came = op->scratch.at + done;
        const void *sources[2] = { recv->with_first ? with : came, recv->with_first ? came : with };

        rg_reduce(op->coll.dtype, op->coll.op, to, sources, 2, nbytes / op->esize,
                  recv->last ? &after : &plain);
    }
}

void rg_tcp_op_end(struct rg_tcp_op *op)
{
    const struct rg_coll *coll = &op->coll;
    const struct rg_scale after = scale_after(op);

    if (op->n == 1 && rg_coll_reduces(coll->kind))
        apply(op, &after, op->base,
              coll->kind == RG_COLL_REDUCESCATTERV ? &op->out : &op->acc);
    if (op->scale_at_end && (after.post != 1.0 || after.divisor != 1))
        apply(op, &after, &op->acc, &op->acc);
    if (coll->kind == RG_COLL_BROADCAST && op->me == coll->root && coll->out && coll->in &&
        coll->out != coll->in)
        memmove(coll->out, coll->in, op->total);
    if (coll->kind == RG_COLL_ALLTOALLV && coll->counts[op->me] > 0) {
        size_t nbytes = coll->counts[op->me] * op->esize;
        char *to = memory_at(&op->acc, op->recv_starts[op->me] * op->esize, &nbytes);
        const char *from = memory_at(op->base, op->starts[op->me] * op->esize, &nbytes);

        memcpy(to, from, nbytes);
    }
    free(op->zeros);
    op->zeros = NULL;
}

uint64_t rg_tcp_op_nbytes(const struct rg_tcp_op *op, int from, int to)
{
    if (op->coll.kind != RG_COLL_ALLTOALLV)
        return op->total;
    return (from == op->me ? op->coll.counts[to] : op->coll.recv_counts[from]) * op->esize;
}

void rg_tcp_op_fini(struct rg_tcp_op *op)
{
    free(op->starts);
    free(op->work.at);
    free(op->scratch.at);
    free(op->zeros);
    rg_tcp_area_fini(&op->in);
    rg_tcp_area_fini(&op->acc);
    rg_tcp_area_fini(&op->out);
    rg_tcp_area_fini(&op->came);
    *op = (struct rg_tcp_op) { 0 };
}
