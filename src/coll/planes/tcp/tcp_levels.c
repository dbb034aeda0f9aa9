/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tcp plane's algorithms of log2 n levels that send no byte twice: an allgather by doubling, a
 * reduce-scatter by halving, and what they make together. For any number of members, none is
 * folded: Bruck et al. (1997) for the allgather, which Traeff (2024) runs backwards for the
 * reduce-scatter (model/model.h has the titles). For a power of two an allreduce by them is
 * Rabenseifner's.
 *
 *      allgather       level t = 0, 1, ...: member m sends the blocks m, m + 1, ..., of which it
 *                      has 2^t by then, 2^t places down, and gets the blocks from m + 2^t on
 *      reduce-scatter  the same backwards: the last level first, what was sent is received and
 *                      added, what was received is sent
 *
 * With y = 1, 2, ..., n - 1 for block m + y of member m, the allgather's receives are y = 1 ...
 * n - 1 in order, from the member 2^floor(log2 y) up. Transfer y of either list goes with y: what
 * the member 2^t up calls block y - 2^t is this one's block y. So all lists run through y, and a
 * block leaves for the next level as soon as it has come in this one.
 */
#include "coll/planes/tcp/tcp_op.h"

static int level_of(int y)
{
    return 1 << rg_floor_log2(y);
}

/* Chunk j of the block y places on from this member. */
static size_t block_chunk(const struct rg_tcp_op *op, int y, size_t j, size_t *ret_nbytes)
{
    size_t count, from = rg_tcp_chunk(op, rg_tcp_wrap(op->me + y, op->n), j, &count);

    *ret_nbytes = count * op->esize;
    return from * op->esize;
}

static size_t phase(const struct rg_tcp_op *op)
{
    return (size_t) (op->n - 1) * op->nsub;
}

/* ------------------------------------------------------------ reduce-scatter */

/* The y of transfer i: backwards. */
static int falling(const struct rg_tcp_op *op, size_t i)
{
    return op->n - 1 - (int) (i / op->nsub);
}

/* Block y goes to the member 2^t up, with all that was added to it: last in the level above its
 * own, if any member is so far away. */
static void halving_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    int y = falling(op, i), above = y + 2 * level_of(y);
    size_t nbytes, from = block_chunk(op, y, i % op->nsub, &nbytes);
    bool added = above <= op->n - 1;

    *send = (struct rg_tcp_send){ .peer = rg_tcp_wrap(op->me + level_of(y), op->n),
                                  .from = { added ? &op->acc : op->base, from },
                                  .nbytes = nbytes };
    if (added)
        send->needs = (size_t) (op->n - 1 - above) * op->nsub + i % op->nsub + 1;
}

/* What the member 2^t down calls y is this one's block y - 2^t. */
static void halving_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    int y = falling(op, i), mine = y - level_of(y);
    size_t nbytes, from = block_chunk(op, mine, i % op->nsub, &nbytes);
    bool first = mine + 2 * level_of(y) > op->n - 1;

    *recv = (struct rg_tcp_recv){ .peer = rg_tcp_wrap(op->me - level_of(y), op->n),
                                  .to = { &op->acc, from },
                                  .nbytes = nbytes,
                                  .with = { first ? op->base : &op->acc, from },
                                  .last = y == 1 };
    if (op->coll.kind == RG_COLL_REDUCESCATTERV && recv->last && op->coll.out)
        recv->to = (struct rg_tcp_place){ &op->out, from - op->starts[op->me] * op->esize };
}

/* ------------------------------------------------------------ allgather */

/* The root of a broadcast has everything; nobody sends to it. */
static bool has_all(const struct rg_tcp_op *op, int member)
{
    return op->coll.kind == RG_COLL_BROADCAST && member == op->coll.root;
}

/* After `before` receives, the last of which have brought this member's own block. */
static void gather_send(const struct rg_tcp_op *op, size_t i, size_t before,
                        struct rg_tcp_send *send)
{
    int y = 1 + (int) (i / op->nsub), mine = y - level_of(y);
    size_t j = i % op->nsub, nbytes, from = block_chunk(op, mine, j, &nbytes);
    int peer = rg_tcp_wrap(op->me - level_of(y), op->n);
    size_t came = before + (size_t) mine * op->nsub;

    *send = (struct rg_tcp_send){ .peer = peer,
                                  .from = { has_all(op, op->me) ? op->base : &op->acc, from },
                                  .nbytes = has_all(op, peer) ? 0 : nbytes };
    if (came > 0 && !has_all(op, op->me))
        send->needs = came - op->nsub + j + 1;
}

static void gather_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    int y = 1 + (int) (i / op->nsub);
    size_t nbytes, from = block_chunk(op, y, i % op->nsub, &nbytes);

    *recv = (struct rg_tcp_recv){ .peer = rg_tcp_wrap(op->me + level_of(y), op->n),
                                  .to = { &op->acc, from },
                                  .nbytes = has_all(op, op->me) ? 0 : nbytes };
}

/* ------------------------------------------------------------ together */

static void levels_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    size_t before = op->coll.kind == RG_COLL_ALLGATHERV ? 0 : phase(op);

    if (i < before)
        halving_send(op, i, send);
    else
        gather_send(op, i - before, before, send);
}

static void levels_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    size_t before = op->coll.kind == RG_COLL_ALLGATHERV ? 0 : phase(op);

    if (i < before)
        halving_recv(op, i, recv);
    else
        gather_recv(op, i - before, recv);
}

/* The root sends each member its block, and then, as all do, the blocks of the allgather. */
static void scatter_send(const struct rg_tcp_op *op, size_t i, struct rg_tcp_send *send)
{
    bool root = has_all(op, op->me);

    if (!root || i >= phase(op)) {
        gather_send(op, root ? i - phase(op) : i, op->nsub, send);
        return;
    }
    int y = falling(op, i);
    size_t nbytes, from = block_chunk(op, y, i % op->nsub, &nbytes);

    *send = (struct rg_tcp_send){ .peer = rg_tcp_wrap(op->me + y, op->n),
                                  .from = { op->base, from }, .nbytes = nbytes };
}

static void scatter_recv(const struct rg_tcp_op *op, size_t i, struct rg_tcp_recv *recv)
{
    size_t nbytes, from;

    if (i >= op->nsub) {
        gather_recv(op, i - op->nsub, recv);
        return;
    }
    from = block_chunk(op, 0, i, &nbytes);
    *recv = (struct rg_tcp_recv){ .peer = op->coll.root, .to = { &op->acc, from },
                                  .nbytes = nbytes };
}

void rg_tcp_set_levels(struct rg_tcp_op *op)
{
    bool scatter = op->algorithm == RG_ALGORITHM_SCATTER, root = has_all(op, op->me);
    size_t nphases = op->coll.kind == RG_COLL_ALLREDUCE ? 2 : 1;

    op->send_step = scatter ? scatter_send : levels_send;
    op->recv_step = scatter ? scatter_recv : levels_recv;
    op->nsends = op->nrecvs = nphases * phase(op);
    if (scatter) {
        op->nsends += root ? phase(op) : 0;
        op->nrecvs = root ? 0 : op->nrecvs + op->nsub;
    }
}
