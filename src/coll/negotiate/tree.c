/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of order.h, and what they make the leader say. */
#include "coll/negotiate/tree_state.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "base/time.h"

#define COORDINATOR 0 /* its node */

/* ---- progress */

/* The coordinator's own node hears the stream as well, and may answer; at the end it does not any
 * more. True when there was anything to say. */
static bool emit(struct rg_order *order, bool at_end)
{
    struct rg_order_frame frame;
    bool any = false;

    while (rg_decider_next(order->decider, &frame) > 0) {
        any = true;
        rg_tree_say_down(order, &frame);
        if (!at_end)
            rg_tree_take_news(order, &frame);
    }
    rg_tree_say_batch(order);
    return any;
}

/* What was kept goes up in time. */
static void look_at_held(struct rg_order *order)
{
    rg_held_look(order->held, rg_now_ns());
    rg_held_flush(order->held);
    if (rg_held_status(order->held) == 0 || order->died.errnum != 0)
        return;
    rg_order_announce_death(order, order->team->rank, "out of memory");
    order->events.on_died(order->events.arg, order->team->rank, "out of memory");
}

bool rg_order_progress(struct rg_order *order)
{
    bool moved = rg_peers_poll(order->peers);

    /* A leader that is still to come must not miss what is decided: it waits. */
    if (order->decider && !order->meeting && emit(order, false))
        moved = true;
    if (order->held)
        look_at_held(order);
    rg_peers_flush(order->peers);
    return moved;
}

int rg_order_wait_fds(struct rg_order *order, int *ret_fds, unsigned *ret_events, int max)
{
    if (max < 1)
        return 0;
    ret_fds[0] = rg_peers_fd(order->peers);
    ret_events[0] = EPOLLIN;
    return 1;
}

void rg_order_hold(struct rg_order *order, bool holds)
{
    if (order->decider)
        rg_decider_hold(order->decider, holds);
}

bool rg_order_decides(const struct rg_order *order)
{
    return order->decider;
}

uint64_t rg_order_round_trip_ns(const struct rg_order *order)
{
    return rg_peers_round_trip_ns(order->peers);
}

/* ---- what is said */

/* The operation that has no number, or is refused. */
static int offer_new(struct rg_order *order, struct rg_order_frame *frame)
{
    frame->node = (uint32_t) order->team->node;
    frame->epoch = UINT64_MAX;
    return order->decider ? rg_tree_take_word(order, frame)
                          : rg_held_offer_new(order->held, 0, frame);
}

static int offer_id(struct rg_order *order, uint32_t id)
{
    struct rg_order_frame frame = { .type = RG_ORDER_OFFER, .epoch = UINT64_MAX, .numbers = &id,
                                    .nnumbers = 1, .node = (uint32_t) order->team->node };

    return order->decider ? rg_tree_take_word(order, &frame)
                          : rg_held_offer(order->held, 0, id, UINT64_MAX);
}

int rg_order_offer(struct rg_order *order, const char *name, const struct rg_signature *sig,
                   const char *error)
{
    struct rg_order_frame frame = { .type = RG_ORDER_OFFER_NEW, .name = name, .sig = *sig,
                                    .text = error ? error : "" };
    struct rg_use refused;
    uint32_t id;

    if (order->frozen)
        return 0;
    if (rg_known_has_begun(order->known, name))
        return -EAGAIN;
    id = rg_known_number(order->known, name, error ? NULL : sig, &refused);
    if (id > 0)
        return offer_id(order, id);
    frame.id = refused.id;
    frame.seq = refused.seq;
    return offer_new(order, &frame);
}

int rg_order_direct(struct rg_order *order, const char *name, const struct rg_signature *sig,
                    uint32_t *ret_id, uint32_t *ret_seq)
{
    struct rg_use use = { 0, 0 };
    int r = order->frozen ? 0 : rg_known_begin(order->known, name, sig, &use);

    if (r == 1) {
        *ret_id = use.id;
        *ret_seq = use.seq;
    }
    return r;
}

bool rg_order_lend(struct rg_order *order, uint32_t id, uint32_t seq, struct rg_signature *ret_sig)
{
    struct rg_use use = { id, seq };
    int r = order->frozen ? 0 : rg_known_lend(order->known, use, ret_sig);

    if (r == -ESTALE)
        rg_tree_say_use(order, RG_ORDER_LACK, use);
    return r == 1;
}

void rg_order_direct_done(struct rg_order *order, uint32_t id)
{
    struct rg_use next;
    bool retired = rg_known_done(order->known, id, &next);

    if (order->decider)
        rg_decider_used(order->decider, id, next.seq - 1);
    if (rg_known_void_is_due(order->known, id)) {
        rg_tree_make_void(order, next);
        next.seq++;
    }
    if (retired)
        rg_tree_say_use(order, RG_ORDER_EVICTED, next);
    rg_tree_tell_clear(order);
    rg_tree_shut(order);
}

void rg_order_direct_waits(struct rg_order *order, uint32_t id, uint32_t seq)
{
    rg_tree_say_use(order, RG_ORDER_WAITING, (struct rg_use) { id, seq });
}

int rg_order_offer_join(struct rg_order *order, int last_rank)
{
    struct rg_order_frame frame = { .type = RG_ORDER_JOIN, .rank = (uint32_t) last_rank };

    if (order->frozen)
        return 0;
    order->owes_clear = rg_known_nbegun(order->known, true) > 0;
    frame.flags = order->owes_clear ? 0 : RG_ORDER_IS_CLEAR;
    return rg_tree_say_up(order, &frame);
}

void rg_order_announce_death(struct rg_order *order, int rank, const char *text)
{
    rg_tree_tell_death(order, rank, text, -1);
    rg_peers_flush(order->peers);
}

void rg_order_announce_shutdown(struct rg_order *order, int rank)
{
    struct rg_order_frame frame = { .type = RG_ORDER_SHUTDOWN, .rank = (uint32_t) rank };

    if (order->decider)
        rg_decider_shutdown(order->decider, rank);
    else
        rg_tree_say_up(order, &frame);
}

void rg_order_stall_query(struct rg_order *order)
{
    struct rg_order_frame frame = { .type = RG_ORDER_STALL_QUERY };

    if (order->decider)
        rg_peers_say_all(order->peers, -1, &frame);
}

void rg_order_stall_reply(struct rg_order *order, const char *text)
{
    struct rg_order_frame frame = { .type = RG_ORDER_STALL_REPLY, .text = text };

    if (!order->decider)
        rg_tree_say_up(order, &frame);
}

int rg_order_above(const struct rg_order *order, int node)
{
    return rg_tree_parent(order->degree, node);
}

uint64_t rg_order_silent_ns(const struct rg_order *order, int node, uint64_t now_ns)
{
    int child = node - order->first_child;
    bool below = node > 0 && child >= 0 && child < order->nchildren;
    uint64_t heard_ns;

    if (!below && (node < 0 || node != rg_order_above(order, order->team->node)))
        return 0;
    heard_ns = rg_peers_heard_ns(order->peers, below ? 1 + child : RG_TREE_PARENT);
    return heard_ns < now_ns ? now_ns - heard_ns : 0;
}

int rg_order_missing(struct rg_order *order, const char *name, bool *ret_missing)
{
    return order->decider ? rg_decider_missing(order->decider, name, ret_missing) : 0;
}

void rg_order_blocked(struct rg_order *order, bool blocked)
{
    struct rg_order_frame frame = { .type = RG_ORDER_BLOCKED, .flags = blocked };

    if (order->decider)
        rg_decider_blocked(order->decider, COORDINATOR, blocked);
    else if (blocked != order->blocked)
        rg_tree_say_up(order, &frame);
    order->blocked = blocked;
}

bool rg_order_crossed(struct rg_order *order, uint64_t before_ns, struct rg_error *err)
{
    return order->decider && rg_decider_crossed(order->decider, before_ns, err);
}

/* ---- the end */

void rg_order_destroy(struct rg_order *order, int timeout_ms)
{
    uint64_t deadline_ns =
        rg_now_ns() + (uint64_t) (timeout_ms > 0 ? timeout_ms : 0) * RG_NS_PER_MS;

    if (!order)
        return;
    if (order->peers && order->decider)
        emit(order, true);
    rg_peers_destroy(order->peers, deadline_ns);
    rg_decider_destroy(order->decider);
    rg_held_destroy(order->held);
    rg_known_destroy(order->known);
    free(order->batch);
    free(order->nbelow);
    free(order->scratch);
    free(order);
}

void rg_order_after_fork(struct rg_order *order)
{
    rg_peers_after_fork(order->peers);
}
