/* SPDX-License-Identifier: Apache-2.0 */
/* Where the tree ends: what leaders say comes to the decider, which makes one stream of it. */
#include "coll/negotiate/tree_state.h"

#include <errno.h>

/* Nothing more is heard of these nodes. */
static void on_left_below(struct rg_order *order, int node)
{
    int n = rg_tree_below(order->degree, order->team->nnodes, node, order->scratch);

    if (!order->frozen)
        rg_decider_shutdown(order->decider, order->team->leaders[node]);
    for (int i = 0; i < n; i++)
        rg_decider_frozen(order->decider, order->scratch[i]);
}

static int on_offers(struct rg_order *order, const struct rg_order_frame *frame)
{
    int n = 1, r = 0;

    order->scratch[0] = (int) frame->node;
    if (frame->flags & RG_ORDER_WHOLE)
        n = rg_tree_below(order->degree, order->team->nnodes, (int) frame->node, order->scratch);
    if (frame->type == RG_ORDER_OFFER_NEW) {
        r = rg_decider_refuse(order->decider, (int) frame->node, frame->name, frame->id,
                              frame->seq);
        return r < 0 ? r : rg_decider_offer(order->decider, order->scratch, n, frame, 0);
    }
    for (size_t i = 0; i < frame->nnumbers && r == 0; i++)
        r = rg_decider_offer(order->decider, order->scratch, n, frame, frame->numbers[i]);
    return r;
}

/* What is said of direct uses. */
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

int rg_tree_take_word(struct rg_order *order, const struct rg_order_frame *frame)
{
    int node = (int) frame->node;

    switch (frame->type) {
    case RG_ORDER_OFFER_NEW:
    case RG_ORDER_OFFER:
        return on_offers(order, frame);
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
    case RG_ORDER_LEFT:
        on_left_below(order, node);
        return 0;
    default:
        return on_direct_frame(order, node, frame);
    }
}
