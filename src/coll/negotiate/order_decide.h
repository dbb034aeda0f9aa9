/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the coordinator knows of all nodes' offers, and the stream of decisions that it makes of
 * them. No sockets here: tree.c brings offers and carries the stream to all leaders.
 *
 * An operation is decided when every node has offered it or has joined. On its first decision it
 * gets a number, by which it travels afterwards. Numbers are taken back from names that were not
 * used for as long as `capacity` decisions: the coordinator says EVICT, keeps the name until every
 * leader has answered EVICTED, and so understands offers by that number that were under way.
 *
 * From then on what options.direct says goes directly (order.h): the decider hears nothing of it.
 * An offer of such a name refuses its next direct use, so the decider says that this use is void;
 * each node answers, with an offer where it had begun it, else that it lacks it; then all is as
 * before.
 *
 * Thread rule: one thread at a time; nothing blocks.
 */
#ifndef RG_COLL_NEGOTIATE_ORDER_DECIDE_H
#define RG_COLL_NEGOTIATE_ORDER_DECIDE_H

#include "base/error.h"
#include "coll/negotiate/order_frames.h"

struct rg_decider;

struct rg_decider_options {
    int nnodes;
    const int *leaders;    /* rank by node, for messages; borrowed */
    size_t fusion_nbytes;  /* largest sum of a fused run */
    int capacity;          /* numbers kept when idle; 0: no numbers */
    /* How uses of such an operation are to go, which rg_signature_is_direct: enum rg_direct_way;
     * asked at each decision until it is not NOT. NULL: nothing goes directly. */
    uint8_t (*direct)(void *arg, const struct rg_signature *sig);
    /* of a process set: what people call each rank; NULL: that; borrowed */
    const int *world_ranks;
    /* A node has offered an operation; NULL: nobody wants to know. */
    void (*on_offered)(void *arg, int node, const char *name);
    void *arg;
};

/* 0 or -ENOMEM. */
int rg_decider_create(const struct rg_decider_options *options, struct rg_decider **ret_decider);
void rg_decider_destroy(struct rg_decider *decider); /* NULL is fine */

/* What an OFFER_NEW (text: why it fails there, or ""), or one number of an OFFER, says of all these
 * nodes: of several, those that have offered it, or have joined, are left out. 0; -EPROTO: offered
 * twice, no such number, or older than its last decision; -ENOMEM. */
int rg_decider_offer(struct rg_decider *decider, const int *nodes, int n,
                     const struct rg_order_frame *frame, uint32_t id);
/* The node has not begun this direct use of the name, and will not. Unless it is over, or void
 * already, it is void now. 0 or -ENOMEM. */
int rg_decider_refuse(struct rg_decider *decider, int node, const char *name, uint32_t id,
                      uint32_t seq);
/* The same as an answer to VOID, or because the number is called in. */
int rg_decider_lack(struct rg_decider *decider, int node, uint32_t id, uint32_t seq);
/* The node has begun this direct use, which takes long. */
void rg_decider_waiting(struct rg_decider *decider, int node, uint32_t id, uint32_t seq);
/* This direct use has come to its end on the coordinator's node: the number is in use. */
void rg_decider_used(struct rg_decider *decider, uint32_t id, uint32_t seq);
/* All ranks of the node have joined, rank as the last of them. clear: nothing of them is in flight
 * directly; else rg_decider_clear says so later: so long no round of joins ends. 0 or -EPROTO,
 * -ENOMEM. */
int rg_decider_join(struct rg_decider *decider, int node, int rank, bool clear);
int rg_decider_clear(struct rg_decider *decider, int node);
/* A rank leaves; all leaders hear of it at the same place in the stream. 0 or -ENOMEM. */
int rg_decider_shutdown(struct rg_decider *decider, int rank);
/* A leader uses the number no more; seq would be the next direct use. 0 or -EPROTO. */
int rg_decider_evicted(struct rg_decider *decider, uint32_t id, uint32_t seq);
/* After SHUTDOWN: the last direct use of a number that the node has begun, and that this was all.
 * When all nodes have said so, what some have begun and others have not is void, and the stream
 * ends with ENDED. 0; -EPROTO; -ENOMEM. */
int rg_decider_have(struct rg_decider *decider, int node, uint32_t id, uint32_t seq);
int rg_decider_frozen(struct rg_decider *decider, int node);

/* The next frame of the stream: 1, or 0 when nothing is decided. DECIDED frames have name, sig and
 * text too, for the coordinator's own node. All pointers are the decider's, until the next call.
 * Call until 0: only decisions that are taken out together are fused. */
int rg_decider_next(struct rg_decider *decider, struct rg_order_frame *ret_frame);
/* As rg_order_hold. */
void rg_decider_hold(struct rg_decider *decider, bool holds);
/* As rg_order_missing. */
int rg_decider_missing(const struct rg_decider *decider, const char *name, bool *ret_missing);
/* As rg_order_blocked, of this node. */
void rg_decider_blocked(struct rg_decider *decider, int node, bool blocked);
/* As rg_order_crossed. */
bool rg_decider_crossed(const struct rg_decider *decider, uint64_t before_ns,
                        struct rg_error *err);
/* Names known now, in flight or numbered: for tests of what is kept. */
int rg_decider_count(const struct rg_decider *decider);

#endif
