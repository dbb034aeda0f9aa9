/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithms of the tcp plane, as lists of transfers.
 *
 *      allreduce       small: recursive doubling; where the number of members is no power of two
 *                      the odd ones of the first members are folded into their neighbours
 *                      large: a ring of reduce-scatter and allgather
 *      broadcast       small: binomial tree; large: pipelined chain
 *      reduce          small: binomial tree; large: pipelined chain
 *      allgatherv, reducescatterv: ring. alltoallv: pairwise.
 *
 * See Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH"
 * (2005). All members end with the same bits: a part is either computed once and passed on, or
 * (recursive doubling) computed by all from the same two operands in the same order.
 */
#include "coll/planes/tcp_steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/planes/common.h"
#include "coll/reduce/reduce.h"

static int wrap(int member, int n)
{
    return ((member % n) + n) % n;
}

static bool has_scale_after(const struct rg_scale *scale)
{
    return scale->post != 1.0 || scale->divisor != 1;
}

/* Chunk j of member b's block: its first element and how many. */
static size_t chunk_of(const struct rg_tcp_op *op, int b, size_t j, size_t *ret_count)
{
    size_t from = op->starts[b] + j * op->chunk, end = op->starts[b + 1];

    if (from >= end) {
        *ret_count = 0;
        return end;
    }
    *ret_count = end - from < op->chunk ? end - from : op->chunk;
    return from;
}

/* ------------------------------------------------------------ rings */

/* In step s every member sends block me + shift - s to its right and gets block me + shift - s - 1
 * from its left, in nsub chunks each; a chunk is sent on once it has come. */
static void ring_send(const struct rg_tcp_op *op, size_t i, int shift, struct rg_tcp_send *send)
{
    int s = (int) (i / op->nsub);
    size_t count, from = chunk_of(op, wrap(op->me + shift - s, op->n), i % op->nsub, &count);
    const char *source = s == 0 ? op->base : op->acc;

    *send = (struct rg_tcp_send) { .peer = wrap(op->me + 1, op->n),
                                   .from = source + from * op->esize,
                                   .nbytes = count * op->esize,
                                   .needs = s == 0 ? 0 : i - op->nsub + 1 };
}

static char *ring_recv(const struct rg_tcp_op *op, size_t i, int shift, struct rg_tcp_recv *recv,
                       size_t *ret_from)
{
    int s = (int) (i / op->nsub);
    size_t count, from = chunk_of(op, wrap(op->me + shift - s - 1, op->n), i % op->nsub, &count);
    char *to = op->acc + from * op->esize;

    *recv = (struct rg_tcp_recv) { .peer = wrap(op->me - 1, op->n), .to = to,
                                   .nbytes = count * op->esize };
    *ret_from = from;
    return to;
}

/* Make it a receive that is added to this member's own part. */
static void add_own(const struct rg_tcp_op *op, struct rg_tcp_recv *recv, char *to, size_t from)
{
    recv->to = op->scratch;
    recv->reduce_to = to;
    recv->with = op->base + from * op->esize;
}

static void allreduce_ring_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    ring_send(op, i, 0, send);
}

static void allreduce_ring_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    size_t from, step = i / op->nsub, last = (size_t) op->n - 2;
    char *to = ring_recv(op, i, 0, recv, &from);

    if (step > last)
        return;
    add_own(op, recv, to, from);
    recv->last = step == last;
}

static void reducescatter_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    ring_send(op, i, -1, send);
}

static void reducescatter_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    size_t from, step = i / op->nsub, last = (size_t) op->n - 2;
    char *to = ring_recv(op, i, -1, recv, &from);

    if (step == last && op->coll.out)
        to = (char *) op->coll.out + (from - op->starts[op->me]) * op->esize;
    add_own(op, recv, to, from);
    recv->last = step == last;
}

static void allgather_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    ring_send(op, i, 0, send);
}

static void allgather_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    size_t from;

    ring_recv(op, i, 0, recv, &from);
}

/* ------------------------------------------------------------ recursive doubling */

/* Members that take part in the doubling, and how many of the first ones are folded in pairs. */
static int power_below(int n)
{
    int p = 1;

    while (p * 2 <= n)
        p *= 2;
    return p;
}

static bool is_folded(const struct rg_tcp_op *op, int member)
{
    int rest = op->n - power_below(op->n);

    return member < 2 * rest && member % 2 == 1;
}

static bool has_folded(const struct rg_tcp_op *op, int member)
{
    int rest = op->n - power_below(op->n);

    return member < 2 * rest && member % 2 == 0;
}

static int doubling_partner(const struct rg_tcp_op *op, int level)
{
    int rest = op->n - power_below(op->n);
    int number = op->me < 2 * rest ? op->me / 2 : op->me - rest;
    int partner = number ^ (1 << level);

    return partner < rest ? partner * 2 : partner + rest;
}

static int levels(const struct rg_tcp_op *op)
{
    int count = 0;

    while (1 << (count + 1) <= op->n)
        count++;
    return count;
}

static void doubling_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    size_t folded = has_folded(op, op->me);

    *send = (struct rg_tcp_send) { .from = op->acc, .nbytes = op->total };
    if (is_folded(op, op->me)) {
        send->peer = op->me - 1;
    } else if ((int) i < levels(op)) {
        send->peer = doubling_partner(op, (int) i);
        send->needs = folded + i;
    } else {
        send->peer = op->me + 1;
        send->needs = op->nrecvs;
    }
}

static void doubling_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    size_t folded = has_folded(op, op->me);

    *recv = (struct rg_tcp_recv) { .to = op->scratch, .nbytes = op->total, .reduce_to = op->acc,
                                   .with = op->acc };
    if (is_folded(op, op->me)) {
        *recv = (struct rg_tcp_recv) { .peer = op->me - 1, .to = op->acc, .nbytes = op->total,
                                       .needs = 1 };
    } else if (folded && i == 0) {
        recv->peer = op->me + 1;
        recv->with_first = true;
    } else {
        recv->peer = doubling_partner(op, (int) (i - folded));
        recv->needs = i - folded + 1;
        recv->with_first = op->me < recv->peer;
    }
}

static void set_doubling(struct rg_tcp_op *op)
{
    op->send_step = doubling_send;
    op->recv_step = doubling_recv;
    op->scale_at_end = true;
    if (is_folded(op, op->me)) {
        op->nsends = op->nrecvs = 1;
        return;
    }
    op->nsends = (size_t) levels(op) + has_folded(op, op->me);
    op->nrecvs = op->nsends;
}

/* ------------------------------------------------------------ trees and chains */

/* The member `distance` places after the root, and this member's distance from it. */
static int from_root(const struct rg_tcp_op *op, int distance)
{
    return wrap(op->coll.root + distance, op->n);
}

static int my_distance(const struct rg_tcp_op *op)
{
    return wrap(op->me - op->coll.root, op->n);
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

/* The farthest child first: it has most to do. */
static void tree_down_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    int bit = 1 << (nchildren(op) - 1 - (int) i);

    *send = (struct rg_tcp_send) { .peer = from_root(op, my_distance(op) + bit), .from = op->base,
                                   .nbytes = op->total, .needs = op->nrecvs };
}

static void tree_down_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    (void) i;
    *recv = (struct rg_tcp_recv) { .peer = parent(op), .to = op->acc, .nbytes = op->total };
}

static void tree_up_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    (void) i;
    *send = (struct rg_tcp_send) { .peer = parent(op), .from = op->nrecvs ? op->acc : op->base,
                                   .nbytes = op->total, .needs = op->nrecvs };
}

static void tree_up_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    *recv = (struct rg_tcp_recv) { .peer = from_root(op, my_distance(op) + (1 << i)),
                                   .to = op->scratch, .nbytes = op->total,
                                   .reduce_to = op->acc, .with = i == 0 ? op->base : op->acc,
                                   .with_first = true,
                                   .last = my_distance(op) == 0 && i + 1 == op->nrecvs };
}

/* A chain has one block, that of everybody: chunk i of it. */
static size_t chain_chunk(const struct rg_tcp_op *op, size_t i, size_t *ret_nbytes)
{
    size_t from = i * op->chunk, count = op->coll.count - from;

    *ret_nbytes = (count < op->chunk ? count : op->chunk) * op->esize;
    return from * op->esize;
}

static void chain_down_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    size_t nbytes, from = chain_chunk(op, i, &nbytes);

    *send = (struct rg_tcp_send) { .peer = from_root(op, my_distance(op) + 1),
                                   .from = op->base + from, .nbytes = nbytes,
                                   .needs = op->nrecvs ? i + 1 : 0 };
}

static void chain_down_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    size_t nbytes, from = chain_chunk(op, i, &nbytes);

    *recv = (struct rg_tcp_recv) { .peer = from_root(op, my_distance(op) - 1),
                                   .to = op->acc + from, .nbytes = nbytes };
}

static void chain_up_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    size_t nbytes, from = chain_chunk(op, i, &nbytes);

    *send = (struct rg_tcp_send) { .peer = from_root(op, my_distance(op) - 1),
                                   .from = (op->nrecvs ? op->acc : op->base) + from,
                                   .nbytes = nbytes, .needs = op->nrecvs ? i + 1 : 0 };
}

static void chain_up_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    size_t nbytes, from = chain_chunk(op, i, &nbytes);

    *recv = (struct rg_tcp_recv) { .peer = from_root(op, my_distance(op) + 1), .to = op->scratch,
                                   .nbytes = nbytes, .reduce_to = op->acc + from,
                                   .with = op->base + from, .with_first = true,
                                   .last = my_distance(op) == 0 };
}

static void set_rooted(struct rg_tcp_op *op, bool down, bool small)
{
    size_t nchunks = (op->coll.count + op->chunk - 1) / op->chunk;
    bool root = op->me == op->coll.root, end = my_distance(op) == op->n - 1;
    size_t tree = (size_t) nchildren(op), towards_root = root ? 0 : small ? 1 : nchunks;
    size_t away = small ? tree : end ? 0 : nchunks;

    op->nsends = down ? away : towards_root;
    op->nrecvs = down ? towards_root : away;
    if (down) {
        op->send_step = small ? tree_down_send : chain_down_send;
        op->recv_step = small ? tree_down_recv : chain_down_recv;
    } else {
        op->send_step = small ? tree_up_send : chain_up_send;
        op->recv_step = small ? tree_up_recv : chain_up_recv;
    }
}

/* ------------------------------------------------------------ pairwise */

static void pairwise_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    int to = wrap(op->me + 1 + (int) i, op->n);

    *send = (struct rg_tcp_send) { .peer = to, .from = op->base + op->starts[to] * op->esize,
                                   .nbytes = op->coll.counts[to] * op->esize };
}

static void pairwise_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    int from = wrap(op->me - 1 - (int) i, op->n);

    *recv = (struct rg_tcp_recv) { .peer = from,
                                   .to = op->acc + op->recv_starts[from] * op->esize,
                                   .nbytes = op->coll.recv_counts[from] * op->esize };
}

/* ------------------------------------------------------------ begin and end */

static size_t *prefix_sums(const size_t *counts, int n)
{
    size_t *starts = calloc((size_t) n + 1, sizeof(*starts));

    if (starts)
        rg_prefix_sums(counts, n, starts);
    return starts;
}

static size_t *even_blocks(size_t count, int n)
{
    size_t *starts = calloc((size_t) n + 1, sizeof(*starts));

    for (int i = 0; starts && i <= n; i++)
        starts[i] = count / (size_t) n * (size_t) i +
                    ((size_t) i < count % (size_t) n ? (size_t) i : count % (size_t) n);
    return starts;
}

static int grow(char **memory, size_t *have, size_t nbytes)
{
    if (*have >= nbytes)
        return 0;
    char *bigger = realloc(*memory, nbytes);

    if (!bigger)
        return -ENOMEM;
    *memory = bigger;
    *have = nbytes;
    return 0;
}

static size_t elements(const struct rg_tcp_op *op)
{
    return rg_coll_has_counts(op->coll.kind) ? op->starts[op->n] : op->coll.count;
}

static void set_chunks(struct rg_tcp_op *op)
{
    size_t largest = 0;

    op->chunk = RG_TCP_CHUNK_NBYTES / op->esize;
    for (int i = 0; i < op->n; i++) {
        size_t count = op->starts[i + 1] - op->starts[i];

        largest = count > largest ? count : largest;
    }
    op->nsub = (largest + op->chunk - 1) / op->chunk;
}

static void set_ring(struct rg_tcp_op *op,
                     void (*send)(const struct rg_tcp_op *, size_t, struct rg_tcp_send *),
                     void (*recv)(const struct rg_tcp_op *, size_t, struct rg_tcp_recv *),
                     int nsteps)
{
    op->send_step = send;
    op->recv_step = recv;
    op->nsends = op->nrecvs = (size_t) nsteps * op->nsub;
}

static void choose(struct rg_tcp_op *op)
{
    bool small = op->total <= RG_TCP_SMALL_NBYTES;

    op->nsends = op->nrecvs = 0;
    if (op->n == 1)
        return;
    switch (op->coll.kind) {
    case RG_COLL_ALLREDUCE:
        if (small)
            set_doubling(op);
        else
            set_ring(op, allreduce_ring_send, allreduce_ring_recv, 2 * (op->n - 1));
        break;
    case RG_COLL_REDUCE:
        set_rooted(op, false, small);
        break;
    case RG_COLL_BROADCAST:
        set_rooted(op, true, small);
        break;
    case RG_COLL_ALLGATHERV:
        set_ring(op, allgather_send, allgather_recv, op->n - 1);
        break;
    case RG_COLL_REDUCESCATTERV:
        set_ring(op, reducescatter_send, reducescatter_recv, op->n - 1);
        break;
    case RG_COLL_ALLTOALLV:
        op->send_step = pairwise_send;
        op->recv_step = pairwise_recv;
        op->nsends = op->nrecvs = (size_t) op->n - 1;
        break;
    }
}

/* Where results grow: the caller's out, unless it is dropped, too short or to be kept from partial
 * results. */
static int set_acc(struct rg_tcp_op *op)
{
    const struct rg_coll *coll = &op->coll;
    bool own = !coll->out || coll->kind == RG_COLL_REDUCESCATTERV ||
               (coll->kind == RG_COLL_REDUCE && op->me != coll->root);
    size_t nbytes = op->total;

    if (coll->kind == RG_COLL_ALLTOALLV)
        nbytes = op->recv_starts[op->n] * op->esize;
    if (own && grow(&op->work, &op->work_nbytes, nbytes + 1) < 0)
        return -ENOMEM;
    op->acc = own ? op->work : coll->out;
    size_t scratch = op->total <= RG_TCP_SMALL_NBYTES ? RG_TCP_SMALL_NBYTES : RG_TCP_CHUNK_NBYTES;

    return rg_coll_reduces(coll->kind) ? grow(&op->scratch, &op->scratch_nbytes, scratch) : 0;
}

/* This member's contribution: in itself, or a copy in acc where it must be scaled, zero, or is to
 * be added to. */
static int set_base(struct rg_tcp_op *op)
{
    const struct rg_coll *coll = &op->coll;
    const struct rg_scale before = { coll->scale.pre, 1.0, 1 };

    op->base = coll->in;
    switch (coll->kind) {
    case RG_COLL_BROADCAST:
        if (op->me != coll->root)
            op->base = op->acc;
        else if (!coll->in) {
            memset(op->acc, 0, op->total);
            op->base = op->acc;
        }
        return 0;
    case RG_COLL_ALLGATHERV: {
        char *mine = op->acc + op->starts[op->me] * op->esize;
        size_t nbytes = coll->counts[op->me] * op->esize;

        if (!coll->in)
            memset(mine, 0, nbytes);
        else if (mine != coll->in && nbytes > 0)
            memmove(mine, coll->in, nbytes);
        op->base = op->acc;
        return 0;
    }
    case RG_COLL_ALLTOALLV:
        if (!coll->in) {
            /* Behind what is received: never both in work, as out is dropped only together with
             * in. */
            op->zeros = calloc(1, op->total + 1);
            op->base = op->zeros;
        }
        return op->base ? 0 : -ENOMEM;
    default:
        if (coll->in && coll->scale.pre == 1.0 && op->send_step != doubling_send)
            return 0;
        rg_reduce(coll->dtype, coll->op, op->acc, (const void *const[]) { coll->in }, 1,
                  coll->count ? coll->count : op->total / op->esize, &before);
        op->base = op->acc;
        return 0;
    }
}

int rg_tcp_op_begin(struct rg_tcp_op *op, const struct rg_coll *coll, int n, int me)
{
    op->coll = *coll;
    op->n = n;
    op->me = me;
    op->esize = rg_dtype_nbytes(coll->dtype);
    free(op->starts);
    free(op->recv_starts);
    op->starts = op->recv_starts = NULL;
    bool by_counts = rg_coll_has_counts(coll->kind);

    op->starts = by_counts ? prefix_sums(coll->counts, n) : even_blocks(coll->count, n);
    if (coll->kind == RG_COLL_ALLTOALLV)
        op->recv_starts = prefix_sums(coll->recv_counts, n);
    if (!op->starts || (coll->kind == RG_COLL_ALLTOALLV && !op->recv_starts))
        return -ENOMEM;
    if (by_counts)
        op->coll.count = 0;
    op->total = elements(op) * op->esize;
    op->scale_at_end = false;
    op->send_step = NULL;
    op->recv_step = NULL;
    set_chunks(op);
    choose(op);
    int r = set_acc(op);

    if (r == 0)
        r = set_base(op);
    if (r < 0)
        return r;
    op->number++;
    return 0;
}

void rg_tcp_op_reduce(struct rg_tcp_op *op, const struct rg_tcp_recv *recv)
{
    const struct rg_scale plain = { 1.0, 1.0, 1 };
    struct rg_scale after = { 1.0, op->coll.scale.post, op->coll.scale.divisor };
    const void *sources[2] = { recv->to, recv->with };

    if (!recv->reduce_to || recv->nbytes == 0)
        return;
    if (recv->with_first) {
        sources[0] = recv->with;
        sources[1] = recv->to;
    }
    rg_reduce(op->coll.dtype, op->coll.op, recv->reduce_to, sources, 2, recv->nbytes / op->esize,
              recv->last ? &after : &plain);
}

/* The parts of the result that no transfer brings. */
static void finish_alone(struct rg_tcp_op *op)
{
    const struct rg_coll *coll = &op->coll;

    if (coll->out && op->n == 1 && coll->kind != RG_COLL_ALLTOALLV) {
        const struct rg_scale after = { 1.0, coll->scale.post, coll->scale.divisor };

        if (rg_coll_reduces(coll->kind))
            rg_reduce(coll->dtype, coll->op, coll->out, (const void *const[]) { op->base }, 1,
                      op->total / op->esize, &after);
        else if (coll->out != op->base)
            memmove(coll->out, op->base, op->total);
    }
}

void rg_tcp_op_end(struct rg_tcp_op *op)
{
    const struct rg_coll *coll = &op->coll;
    const struct rg_scale after = { 1.0, coll->scale.post, coll->scale.divisor };

    if (op->n == 1)
        finish_alone(op);
    if (op->scale_at_end && has_scale_after(&coll->scale))
        rg_reduce(coll->dtype, coll->op, op->acc, (const void *const[]) { op->acc }, 1,
                  coll->count, &after);
    if (coll->kind == RG_COLL_BROADCAST && op->n > 1 && op->me == coll->root && coll->out &&
        coll->out != op->base)
        memmove(coll->out, op->base, op->total);
    if (coll->kind == RG_COLL_ALLTOALLV && coll->counts[op->me] > 0)
        memcpy(op->acc + op->recv_starts[op->me] * op->esize,
               op->base + op->starts[op->me] * op->esize, coll->counts[op->me] * op->esize);
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
    free(op->recv_starts);
    free(op->work);
    free(op->scratch);
    free(op->zeros);
    *op = (struct rg_tcp_op) { 0 };
}
