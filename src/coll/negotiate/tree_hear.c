/* SPDX-License-Identifier: Apache-2.0 */
/* What a leader does with what it hears: it takes its part, and passes on what others are to hear.
 */
#include "coll/negotiate/tree_state.h"

#include <errno.h>

/* ---- deaths and ends */

static void on_died(struct rg_order *order, int rank, const char *text, int peer)
{
    rg_tree_tell_death(order, rank, text, peer);
    order->events.on_died(order->events.arg, rank, text);
}

static void on_gone(void *arg, int peer, const char *why)
{
    struct rg_order *order = arg;
    int rank = order->team->leaders[rg_tree_node(order, peer)];
    struct rg_error err = RG_ERROR_INIT;

    rg_error_set(&err, ECONNRESET, "rank %d on host %s is gone: %s",
                 rg_team_world_rank(order->team, rank), order->team->peers[rank].host, why);
    on_died(order, rank, err.text, peer);
}

void rg_tree_shut(struct rg_order *order)
{
    if (order->shut || !order->frozen)
        return;
    /* Who has others below stays until all know what is void. */
    if (rg_known_nbegun(order->known, false) > 0 || (!order->ended && order->nchildren > 0))
        return;
    order->shut = true;
    order->events.on_shutdown(order->events.arg, order->shut_rank);
}

/* The first rank to leave ends the job for all; that others leave too is no news. */
static void freeze(struct rg_order *order, int rank)
{
    struct rg_order_frame frozen = { .type = RG_ORDER_FROZEN };
    struct rg_use use;

    if (order->frozen)
        return;
    order->frozen = true;
    order->shut_rank = rank;
    for (uint32_t i = 0; rg_known_each(order->known, &i, &use);)
        rg_tree_say_use(order, RG_ORDER_HAVE, use);
    rg_tree_say_up(order, &frozen);
    rg_tree_shut(order);
}

/* The coordinator cannot be heard any more, and has said nothing of what is in flight. */
static void give_up_direct(struct rg_order *order)
{
    struct rg_use use;

    for (uint32_t i = 0; rg_known_each_begun(order->known, &i, &use);) {
        rg_known_void(order->known, use);
        order->events.on_void(order->events.arg, use.id, false);
    }
}

/* Whoever is between the coordinator and this leader, or the coordinator, has left. */
static void on_left_above(struct rg_order *order, int node)
{
    freeze(order, order->team->leaders[node]);
    if (!order->ended)
        give_up_direct(order);
    order->ended = true;
    rg_tree_shut(order);
}

/* ---- the stream, which comes from above */

static void deliver(void *arg, const char *name, const struct rg_signature *sig, const char *text,
                    bool more, uint8_t way)
{
    struct rg_order *order = arg;

    if (!order->frozen)
        order->events.on_decided(order->events.arg, name, sig, text && text[0] ? text : NULL, more,
                                 way);
}

static void expect(void *arg, struct rg_use use, uint8_t way)
{
    struct rg_order *order = arg;

    if (order->events.on_expect)
        order->events.on_expect(order->events.arg, use.id, use.seq, way);
}

/* What was begun is offered; so each node has answered, and nothing of it is kept. */
int rg_tree_make_void(struct rg_order *order, struct rg_use use)
{
    bool retired = rg_known_is_retired(order->known, use.id);
    struct rg_use next = { use.id, use.seq + 1 };
    int begun = rg_known_void(order->known, use);

    if (begun < 0 || begun == RG_BEGUN_VOID)
        return begun < 0 ? begun : 0;
    if (begun != RG_BEGUN_NOT)
        order->events.on_void(order->events.arg, use.id,
                              begun == RG_BEGUN_OWN && !order->frozen);
    expect(order, next, RG_DIRECT_NOT);
    if (!order->frozen && begun != RG_BEGUN_OWN)
        rg_tree_say_use(order, RG_ORDER_LACK, use);
    if (retired && begun != RG_BEGUN_NOT)
        rg_tree_say_use(order, RG_ORDER_EVICTED, next);
    rg_tree_tell_clear(order);
    rg_tree_shut(order);
    return 0;
}

static int on_evict(struct rg_order *order, uint32_t id)
{
    struct rg_use next;

    if (order->held && rg_known_name(order->known, id))
        rg_held_evict(order->held, id);
    return rg_known_retire(order->known, id, &next)
               ? rg_tree_say_use(order, RG_ORDER_EVICTED, next) : 0;
}

static int on_decided(struct rg_order *order, const struct rg_order_frame *frame)
{
    bool named = frame->type == RG_ORDER_DECIDED_NEW;
    const char *name = named ? frame->name : rg_known_name(order->known, frame->id);
    uint32_t id = frame->id ? frame->id : rg_known_id(order->known, frame->name);

    if (!name || id >= RG_KNOWN_IDS_MAX)
        return -EPROTO;
    if (order->held)
        rg_held_decided(order->held, id, name);
    return rg_known_decided(order->known, frame, deliver, expect, order);
}

static int on_joined(struct rg_order *order, int rank)
{
    if (order->held)
        rg_held_new_round(order->held);
    if (!order->frozen)
        order->events.on_joined(order->events.arg, rank);
    return 0;
}

int rg_tree_take_news(struct rg_order *order, const struct rg_order_frame *frame)
{
    switch (frame->type) {
    case RG_ORDER_DECIDED:
    case RG_ORDER_DECIDED_NEW:
        return on_decided(order, frame);
    case RG_ORDER_JOINED:
        return on_joined(order, (int) frame->rank);
    case RG_ORDER_SHUTDOWN:
        freeze(order, (int) frame->rank);
        return 0;
    case RG_ORDER_EVICT:
        return on_evict(order, frame->id);
    case RG_ORDER_VOID:
        return rg_tree_make_void(order, (struct rg_use) { frame->id, frame->seq });
    case RG_ORDER_ENDED:
        order->ended = true;
        rg_tree_shut(order);
        return 0;
    default:
        return -EBADMSG;
    }
}

static int on_decisions(struct rg_order *order, const struct rg_order_frame *frame)
{
    int r = 0;

    for (size_t i = 0; i < frame->ndecisions && r == 0; i++) {
        struct rg_order_frame one = { .type = RG_ORDER_DECIDED, .id = frame->decisions[i].id,
                                      .seq = frame->decisions[i].seq,
                                      .flags = frame->decisions[i].flags };

        r = one.id > 0 ? on_decided(order, &one) : -EPROTO;
    }
    return r;
}

/* What leaders say to come together; it makes no sense later. */
static int while_meeting(struct rg_order *order, int peer, const struct rg_order_frame *frame)
{
    return order->meet ? order->meet(order, peer, frame) : -EBADMSG;
}

/* All that comes from above is for those below, too. */
static int on_parent_frame(struct rg_order *order, const struct rg_order_frame *frame)
{
    rg_peers_say_all(order->peers, RG_TREE_PARENT, frame);
    switch (frame->type) {
    case RG_ORDER_DECIDED:
        return on_decisions(order, frame);
    case RG_ORDER_STALL_QUERY:
        order->events.on_stall_query(order->events.arg);
        return 0;
    case RG_ORDER_LEFT:
        if (frame->node >= (uint32_t) order->team->nnodes)
            return -EBADMSG;
        on_left_above(order, (int) frame->node);
        return 0;
    case RG_ORDER_START:
    case RG_ORDER_ROLL_CALL:
        return while_meeting(order, RG_TREE_PARENT, frame);
    default:
        return rg_tree_take_news(order, frame);
    }
}

/* ---- elsewhere: what goes through here */

/* A child's offers are kept until they are part of the whole; others were sent by themselves. */
static int hold(struct rg_order *order, int child, const struct rg_order_frame *frame)
{
    int r = 0;

    if (frame->type == RG_ORDER_OFFER_NEW)
        return rg_held_offer_new(order->held, child, frame);
    for (size_t i = 0; i < frame->nnumbers && r == 0; i++)
        r = rg_known_name(order->known, frame->numbers[i])
                ? rg_held_offer(order->held, child, frame->numbers[i], frame->epoch) : -EPROTO;
    return r;
}

static int pass_up(struct rg_order *order, int child, const struct rg_order_frame *frame)
{
    bool offers = frame->type == RG_ORDER_OFFER || frame->type == RG_ORDER_OFFER_NEW;
    int r;

    if (offers && frame->flags & RG_ORDER_WHOLE && (int) frame->node == rg_tree_node(order, child))
        return hold(order, child, frame);
    if (offers)
        rg_held_flush(order->held);
    else
        rg_held_spill(order->held, child);
    r = rg_peers_say(order->peers, RG_TREE_PARENT, frame);
    if (frame->type == RG_ORDER_JOIN)
        rg_held_join(order->held, child);
    return r;
}

static int on_child_frame(struct rg_order *order, int child, const struct rg_order_frame *frame)
{
    uint32_t node = frame->node;

    if (frame->type == RG_ORDER_READY || frame->type == RG_ORDER_ROLL_CALL)
        return while_meeting(order, child, frame);
    /* A rank that leaves says for itself who it is. */
    if (frame->type != RG_ORDER_SHUTDOWN &&
        (node >= (uint32_t) order->team->nnodes ||
         !rg_tree_is_below(order->degree, (int) node, rg_tree_node(order, child))))
        return -EBADMSG;
    if (frame->type == RG_ORDER_ABSENT)
        return while_meeting(order, child, frame);
    return order->decider ? rg_tree_take_word(order, frame) : pass_up(order, child, frame);
}

static void on_goodbye(struct rg_order *order, int peer)
{
    struct rg_order_frame left = { .type = RG_ORDER_LEFT,
                                   .node = (uint32_t) rg_tree_node(order, peer) };

    if (peer == RG_TREE_PARENT)
        on_parent_frame(order, &left);
    else
        on_child_frame(order, peer, &left);
}

static int on_frame(void *arg, int peer, const struct rg_order_frame *frame)
{
    struct rg_order *order = arg;

    if (frame->rank >= (uint32_t) order->team->size)
        return -EBADMSG;
    if (frame->type == RG_ORDER_GOODBYE)
        on_goodbye(order, peer);
    else if (frame->type == RG_ORDER_DIED)
        on_died(order, (int) frame->rank, frame->text, peer);
    else
        return peer == RG_TREE_PARENT ? on_parent_frame(order, frame)
                                      : on_child_frame(order, peer, frame);
    return 0;
}

const struct rg_peers_ops rg_tree_peers_ops = { on_frame, on_gone };
