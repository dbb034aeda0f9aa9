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

/* The first rank to leave ends the job for all; that others leave too is no news. */
static void shut(struct rg_order *order, int rank)
{
    if (!order->shut)
        order->events.on_shutdown(order->events.arg, rank);
    order->shut = true;
}

/* ---- what is heard */

static void on_goodbye(struct rg_order *order, int node)
{
    int rank = order->team->leaders[node];

    if (!order->decider)
        shut(order, rank);
    else if (!order->shut)
        rg_decider_shutdown(order->decider, rank);
}

/* Decisions, at the coordinator and where they come to. */
static void deliver(void *arg, const char *name, const struct rg_signature *sig, const char *text,
                    bool more)
{
    struct rg_order *order = arg;

    order->events.on_decided(order->events.arg, name, sig, text && text[0] ? text : NULL, more);
}

/* What the stream of decisions holds besides them; it is the same at all leaders. */
static void take_news(struct rg_order *order, const struct rg_order_frame *frame)
{
    if (frame->type == RG_ORDER_JOINED)
        order->events.on_joined(order->events.arg, (int) frame->rank);
    else if (frame->type == RG_ORDER_SHUTDOWN)
        shut(order, (int) frame->rank);
}

static int on_leader_frame(struct rg_order *order, int node, const struct rg_order_frame *frame)
{
    switch (frame->type) {
    case RG_ORDER_OFFER_NEW:
        return rg_decider_offer(order->decider, node, frame->name, &frame->sig, frame->text);
    case RG_ORDER_OFFER:
        return rg_decider_offer_id(order->decider, node, frame->id);
    case RG_ORDER_JOIN:
        return rg_decider_join(order->decider, node, (int) frame->rank);
    case RG_ORDER_SHUTDOWN:
        return rg_decider_shutdown(order->decider, (int) frame->rank);
    case RG_ORDER_EVICTED:
        return rg_decider_evicted(order->decider, frame->id);
    case RG_ORDER_STALL_REPLY:
        order->events.on_stall_reply(order->events.arg, node, frame->text);
        return 0;
    case RG_ORDER_BLOCKED:
        rg_decider_blocked(order->decider, node, frame->flags != 0);
        return 0;
    default:
        return -EBADMSG;
    }
}

static int on_coordinator_frame(struct rg_order *order, const struct rg_order_frame *frame)
{
    struct rg_order_frame answer = { .type = RG_ORDER_EVICTED, .id = frame->id };

    switch (frame->type) {
    case RG_ORDER_DECIDED:
    case RG_ORDER_DECIDED_NEW:
        return rg_known_decided(order->known, frame, deliver, order);
    case RG_ORDER_JOINED:
    case RG_ORDER_SHUTDOWN:
        take_news(order, frame);
        return 0;
    case RG_ORDER_STALL_QUERY:
        order->events.on_stall_query(order->events.arg);
        return 0;
    case RG_ORDER_EVICT:
        rg_known_forget(order->known, frame->id);
        return rg_peers_say(order->peers, COORDINATOR, &answer);
    default:
        return -EBADMSG;
    }
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

/* The coordinator's own node hears the stream as well. True when there was anything to say. */
static bool emit(struct rg_order *order)
{
    struct rg_order_frame frame;
    bool any = false;

    while (rg_decider_next(order->decider, &frame) > 0) {
        any = true;
        rg_peers_say_all(order->peers, -1, &frame);
        if (frame.type == RG_ORDER_DECIDED || frame.type == RG_ORDER_DECIDED_NEW)
            deliver(order, frame.name, &frame.sig, frame.text, frame.flags & RG_ORDER_MORE);
        else
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
    return rg_peers_say(order->peers, COORDINATOR, frame);
}

int rg_order_offer(struct rg_order *order, const char *name, const struct rg_signature *sig,
                   const char *error)
{
    struct rg_order_frame frame = { .type = RG_ORDER_OFFER_NEW, .name = name, .sig = *sig,
                                    .text = error ? error : "" };

    if (order->decider)
        return rg_decider_offer(order->decider, COORDINATOR, name, sig, error);
    if (!error)
        frame.id = rg_known_number(order->known, name, sig);
    if (frame.id > 0)
        frame.type = RG_ORDER_OFFER;
    return say_up(order, &frame);
}

int rg_order_offer_join(struct rg_order *order, int last_rank)
{
    struct rg_order_frame frame = { .type = RG_ORDER_JOIN, .rank = (uint32_t) last_rank };

    return order->decider ? rg_decider_join(order->decider, COORDINATOR, last_rank)
                          : say_up(order, &frame);
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
