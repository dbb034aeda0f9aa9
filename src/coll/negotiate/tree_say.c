/* SPDX-License-Identifier: Apache-2.0 */
/* What leaders say to each other along their tree. */
#include "coll/negotiate/tree_state.h"

int rg_tree_node(const struct rg_order *order, int peer)
{
    return peer == RG_TREE_PARENT ? rg_tree_parent(order->degree, order->team->node)
                                  : order->first_child + peer - 1;
}

/* ---- up */

int rg_tree_say_up(struct rg_order *order, const struct rg_order_frame *frame)
{
    struct rg_order_frame own = *frame;
    int r;

    own.node = (uint32_t) order->team->node;
    if (order->decider)
        return rg_tree_take_word(order, &own);
    rg_held_spill(order->held, 0);
    r = rg_peers_say(order->peers, RG_TREE_PARENT, &own);
    if (frame->type == RG_ORDER_JOIN)
        rg_held_join(order->held, 0);
    return r;
}

int rg_tree_say_use(struct rg_order *order, uint8_t type, struct rg_use use)
{
    struct rg_order_frame frame = { .type = type, .id = use.id, .seq = use.seq };

    return rg_tree_say_up(order, &frame);
}

void rg_tree_tell_clear(struct rg_order *order)
{
    struct rg_order_frame frame = { .type = RG_ORDER_CLEAR };

    if (!order->owes_clear || rg_known_nbegun(order->known, true) > 0)
        return;
    order->owes_clear = false;
    rg_tree_say_up(order, &frame);
}

void rg_tree_tell_held(void *arg, int source, const struct rg_order_frame *frame)
{
    struct rg_order *order = arg;
    struct rg_order_frame own = *frame;

    own.node = (uint32_t) (source > 0 ? rg_tree_node(order, source) : order->team->node);
    own.flags = source == 0 ? 0 : RG_ORDER_WHOLE;
    rg_peers_say(order->peers, RG_TREE_PARENT, &own);
}

/* ---- down */

/* Decisions that were made together travel together. */
void rg_tree_say_batch(struct rg_order *order)
{
    struct rg_order_frame frame = { .type = RG_ORDER_DECIDED, .decisions = order->batch,
                                    .ndecisions = order->nbatch };

    if (order->nbatch)
        rg_peers_say_all(order->peers, -1, &frame);
    order->nbatch = 0;
}

void rg_tree_say_down(struct rg_order *order, const struct rg_order_frame *frame)
{
    if (frame->type != RG_ORDER_DECIDED || order->nbatch == RG_ORDER_NUMBERS_MAX)
        rg_tree_say_batch(order);
    if (frame->type == RG_ORDER_DECIDED)
        order->batch[order->nbatch++] =
            (struct rg_order_decision) { frame->id, frame->seq, frame->flags };
    else
        rg_peers_say_all(order->peers, -1, frame);
}

/* ---- to all */

/* Only the first goes on: what dies of it is no news. */
void rg_tree_tell_death(struct rg_order *order, int rank, const char *text, int but)
{
    struct rg_order_frame frame = { .type = RG_ORDER_DIED, .rank = (uint32_t) rank, .text = text };

    if (order->died.errnum != 0)
        return;
    rg_error_set(&order->died, ECONNRESET, "%s", text);
    rg_peers_say_all(order->peers, but, &frame);
}
