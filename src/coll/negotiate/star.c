/* SPDX-License-Identifier: Apache-2.0 */
/* What leaders say to each other and what they do when they hear it, as a star: all offers go to
 * the coordinator, whose decider makes the one stream of decisions, and that goes to all. */
#include "coll/negotiate/star.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "base/time.h"

#define COORDINATOR 0 /* its node */

/* ---- deaths and ends */

static void tell_death(struct rg_order *order, int rank, const char *text, int from)
{
    struct rg_order_frame frame = { .type = RG_ORDER_DIED, .rank = (uint32_t) rank, .text = text };

    if (order->died.errnum == 0)
        rg_error_set(&order->died, ECONNRESET, "%s", text);
    if (order->decider)
        rg_peers_say_all(order->peers, from, &frame);
    order->events.on_died(order->events.arg, rank, text);
}

static void on_gone(void *arg, int node, const char *why)
{
    struct rg_order *order = arg;
    int rank = order->team->leaders[node];
    struct rg_error err = RG_ERROR_INIT;

    rg_error_set(&err, ECONNRESET, "rank %d on host %s is gone: %s",
                 rg_team_world_rank(order->team, rank), order->team->peers[rank].host, why);
    tell_death(order, rank, err.text, node);
}

static int say_up(struct rg_order *order, const struct rg_order_frame *frame);

/* When nothing is in flight directly any more. */
static void shut(struct rg_order *order)
{
    if (order->shut || !order->frozen)
        return;
    /* The coordinator stays until all know what is void. */
    if (rg_known_nbegun(order->known, false) > 0 || (!order->ended && order->decider))
        return;
    order->shut = true;
    order->events.on_shutdown(order->events.arg, order->shut_rank);
}

/* The first rank to leave ends the job for all; that others leave too is no news. */
static void freeze(struct rg_order *order, int rank)
{
    struct rg_order_frame frame = { .type = RG_ORDER_HAVE };
    struct rg_use use;

    if (order->frozen)
        return;
    order->frozen = true;
    order->shut_rank = rank;
    for (uint32_t i = 0; rg_known_each(order->known, &i, &use);) {
        frame.id = use.id;
        frame.seq = use.seq;
        say_up(order, &frame);
    }
    frame = (struct rg_order_frame) { .type = RG_ORDER_FROZEN };
    say_up(order, &frame);
    shut(order);
}

/* The coordinator has left, and said nothing of what is in flight. */
static void give_up_direct(struct rg_order *order)
{
    struct rg_use use;

    for (uint32_t i = 0; rg_known_each_begun(order->known, &i, &use);) {
        rg_known_void(order->known, use);
        order->events.on_void(order->events.arg, use.id, false);
    }
}

/* ---- what is heard */

static void on_goodbye(struct rg_order *order, int node)
{
    int rank = order->team->leaders[node];

    if (order->decider) {
        if (!order->frozen)
            rg_decider_shutdown(order->decider, rank);
        rg_decider_frozen(order->decider, node);
        return;
    }
    freeze(order, rank);
    if (!order->ended)
        give_up_direct(order);
    order->ended = true;
    shut(order);
}

/* Decisions, at the coordinator and where they come to. */
static void deliver(void *arg, const char *name, const struct rg_signature *sig, const char *text,
                    bool more)
{
    struct rg_order *order = arg;

    if (!order->frozen)
        order->events.on_decided(order->events.arg, name, sig, text && text[0] ? text : NULL, more);
}

static void expect(void *arg, struct rg_use use)
{
    struct rg_order *order = arg;

    if (order->events.on_expect)
        order->events.on_expect(order->events.arg, use.id, use.seq);
}

static int say_of(struct rg_order *order, uint8_t type, struct rg_use use)
{
    struct rg_order_frame frame = { .type = type, .id = use.id, .seq = use.seq };

    return say_up(order, &frame);
}

/* Of the ranks here, which have joined, nothing is in flight directly any more. */
static void tell_clear(struct rg_order *order)
{
    struct rg_order_frame frame = { .type = RG_ORDER_CLEAR };

    if (!order->owes_clear || rg_known_nbegun(order->known, true) > 0)
        return;
    order->owes_clear = false;
    say_up(order, &frame);
}

/* What was begun is offered; so each node has answered, and nothing of it is kept. */
static int on_void(struct rg_order *order, struct rg_use use)
{
    bool retired = rg_known_is_retired(order->known, use.id);
    struct rg_use next = { use.id, use.seq + 1 };
    int begun = rg_known_void(order->known, use);

    if (begun < 0 || begun == RG_BEGUN_VOID)
        return begun < 0 ? begun : 0;
    if (begun != RG_BEGUN_NOT)
        order->events.on_void(order->events.arg, use.id,
                              begun == RG_BEGUN_OWN && !order->frozen);
    expect(order, next);
    if (!order->frozen && begun != RG_BEGUN_OWN)
        say_of(order, RG_ORDER_LACK, use);
    if (retired && begun != RG_BEGUN_NOT)
        say_of(order, RG_ORDER_EVICTED, next);
    tell_clear(order);
    shut(order);
    return 0;
}

static int on_evict(struct rg_order *order, uint32_t id)
{
    struct rg_use next;

    return rg_known_retire(order->known, id, &next) ? say_of(order, RG_ORDER_EVICTED, next) : 0;
}

/* What the stream of decisions holds; it is the same at all leaders. */
static int take_news(struct rg_order *order, const struct rg_order_frame *frame)
{
    switch (frame->type) {
    case RG_ORDER_DECIDED:
    case RG_ORDER_DECIDED_NEW:
        return rg_known_decided(order->known, frame, deliver, expect, order);
    case RG_ORDER_JOINED:
        if (!order->frozen)
            order->events.on_joined(order->events.arg, (int) frame->rank);
        return 0;
    case RG_ORDER_SHUTDOWN:
        freeze(order, (int) frame->rank);
        return 0;
    case RG_ORDER_EVICT:
        return on_evict(order, frame->id);
    case RG_ORDER_VOID:
        return on_void(order, (struct rg_use) { frame->id, frame->seq });
    case RG_ORDER_ENDED:
        order->ended = true;
        shut(order);
        return 0;
    default:
        return -EBADMSG;
    }
}

/* What leaders say of direct uses. */
static int on_direct_frame(struct rg_order *order, int node, const struct rg_order_frame *frame)
{
    switch (frame->type) {
    case RG_ORDER_LACK:
        return rg_decider_lack(order->decider, node, frame->id, frame->seq);
    case RG_ORDER_WAITING:
        rg_decider_waiting(order->decider, node, frame->id, frame->seq);
        return 0;
    case RG_ORDER_CLEAR:
        return rg_decider_clear(order->decider, node);
    case RG_ORDER_HAVE:
        return rg_decider_have(order->decider, node, frame->id, frame->seq);
    case RG_ORDER_FROZEN:
        return rg_decider_frozen(order->decider, node);
    default:
        return -EBADMSG;
    }
}

static int on_offer(struct rg_order *order, int node, const struct rg_order_frame *frame)
{
    int r = rg_decider_refuse(order->decider, node, frame->name, frame->id, frame->seq);

    return r < 0 ? r : rg_decider_offer(order->decider, node, frame->name, &frame->sig,
                                        frame->text);
}

/* At the coordinator, of another leader or of this one. */
static int on_leader_frame(struct rg_order *order, int node, const struct rg_order_frame *frame)
{
    switch (frame->type) {
    case RG_ORDER_OFFER_NEW:
        return on_offer(order, node, frame);
    case RG_ORDER_OFFER:
        return rg_decider_offer_id(order->decider, node, frame->id);
    case RG_ORDER_JOIN:
        return rg_decider_join(order->decider, node, (int) frame->rank,
                               frame->flags & RG_ORDER_IS_CLEAR);
    case RG_ORDER_SHUTDOWN:
        return rg_decider_shutdown(order->decider, (int) frame->rank);
    case RG_ORDER_EVICTED:
        return rg_decider_evicted(order->decider, frame->id, frame->seq);
    case RG_ORDER_STALL_REPLY:
        order->events.on_stall_reply(order->events.arg, node, frame->text);
        return 0;
    case RG_ORDER_BLOCKED:
        rg_decider_blocked(order->decider, node, frame->flags != 0);
        return 0;
    default:
        return on_direct_frame(order, node, frame);
    }
}

/* At another leader. */
static int on_coordinator_frame(struct rg_order *order, const struct rg_order_frame *frame)
{
    if (frame->type != RG_ORDER_STALL_QUERY)
        return take_news(order, frame);
    order->events.on_stall_query(order->events.arg);
    return 0;
}

static int on_frame(void *arg, int node, const struct rg_order_frame *frame)
{
    struct rg_order *order = arg;

    if (frame->rank >= (uint32_t) order->team->size)
        return -EBADMSG;
    if (frame->type == RG_ORDER_GOODBYE)
        on_goodbye(order, node);
    else if (frame->type == RG_ORDER_DIED)
        tell_death(order, (int) frame->rank, frame->text, node);
    else
        return order->decider ? on_leader_frame(order, node, frame)
                              : on_coordinator_frame(order, frame);
    return 0;
}

const struct rg_peers_ops rg_order_peers_ops = { on_frame, on_gone };

/* ---- progress */

/* The coordinator's own node hears the stream as well, and may answer. True when there was anything
 * to say. */
static bool emit(struct rg_order *order)
{
    struct rg_order_frame frame;
    bool any = false;

    while (rg_decider_next(order->decider, &frame) > 0) {
        any = true;
        rg_peers_say_all(order->peers, -1, &frame);
        take_news(order, &frame);
    }
    return any;
}

bool rg_order_progress(struct rg_order *order)
{
    bool moved = rg_peers_poll(order->peers);

    /* A leader that is still to come must not miss what is decided: it waits. */
    if (order->decider && !order->gathering && emit(order))
        moved = true;
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

bool rg_order_decides(const struct rg_order *order)
{
    return order->decider;
}

/* ---- what is said */

static int say_up(struct rg_order *order, const struct rg_order_frame *frame)
{
    return order->decider ? on_leader_frame(order, COORDINATOR, frame)
                          : rg_peers_say(order->peers, COORDINATOR, frame);
}

int rg_order_offer(struct rg_order *order, const char *name, const struct rg_signature *sig,
                   const char *error)
{
    struct rg_order_frame frame = { .type = RG_ORDER_OFFER_NEW, .name = name, .sig = *sig,
                                    .text = error ? error : "" };
    struct rg_use refused;

    if (order->frozen)
        return 0;
    if (rg_known_has_begun(order->known, name))
        return -EAGAIN;
    frame.id = rg_known_number(order->known, name, error ? NULL : sig, &refused);
    if (frame.id > 0) {
        frame.type = RG_ORDER_OFFER;
    } else {
        frame.id = refused.id;
        frame.seq = refused.seq;
    }
    return say_up(order, &frame);
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
        say_of(order, RG_ORDER_LACK, use);
    return r == 1;
}

void rg_order_direct_done(struct rg_order *order, uint32_t id)
{
    struct rg_use next;
    bool retired = rg_known_done(order->known, id, &next);

    if (order->decider)
        rg_decider_used(order->decider, id, next.seq - 1);
    if (rg_known_void_is_due(order->known, id)) {
        on_void(order, next);
        next.seq++;
    }
    if (retired)
        say_of(order, RG_ORDER_EVICTED, next);
    tell_clear(order);
    shut(order);
}

void rg_order_direct_waits(struct rg_order *order, uint32_t id, uint32_t seq)
{
    say_of(order, RG_ORDER_WAITING, (struct rg_use) { id, seq });
}

int rg_order_offer_join(struct rg_order *order, int last_rank)
{
    struct rg_order_frame frame = { .type = RG_ORDER_JOIN, .rank = (uint32_t) last_rank };

    if (order->frozen)
        return 0;
    order->owes_clear = rg_known_nbegun(order->known, true) > 0;
    frame.flags = order->owes_clear ? 0 : RG_ORDER_IS_CLEAR;
    return say_up(order, &frame);
}

void rg_order_announce_death(struct rg_order *order, int rank, const char *text)
{
    struct rg_order_frame frame = { .type = RG_ORDER_DIED, .rank = (uint32_t) rank, .text = text };

    rg_peers_say_all(order->peers, -1, &frame);
    rg_peers_flush(order->peers);
}

void rg_order_announce_shutdown(struct rg_order *order, int rank)
{
    struct rg_order_frame frame = { .type = RG_ORDER_SHUTDOWN, .rank = (uint32_t) rank };

    if (order->decider)
        rg_decider_shutdown(order->decider, rank);
    else
        say_up(order, &frame);
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
        say_up(order, &frame);
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
        say_up(order, &frame);
    order->blocked = blocked;
}

bool rg_order_crossed(struct rg_order *order, uint64_t before_ns, struct rg_error *err)
{
    return order->decider && rg_decider_crossed(order->decider, before_ns, err);
}

/* ---- the end */

void rg_order_destroy(struct rg_order *order, int timeout_ms)
{
    struct rg_order_frame frame;
    uint64_t deadline_ns =
        rg_now_ns() + (uint64_t) (timeout_ms > 0 ? timeout_ms : 0) * RG_NS_PER_MS;

    if (!order)
        return;
    while (order->peers && order->decider && rg_decider_next(order->decider, &frame) > 0)
        rg_peers_say_all(order->peers, -1, &frame);
    rg_peers_destroy(order->peers, deadline_ns);
    rg_decider_destroy(order->decider);
    rg_known_destroy(order->known);
    free(order);
}

void rg_order_after_fork(struct rg_order *order)
{
    rg_peers_after_fork(order->peers);
}
