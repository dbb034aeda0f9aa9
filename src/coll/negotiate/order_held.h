/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a leader that is not the coordinator keeps back: offers of its own node and of those below
 * it, until all of them have offered an operation, or have joined. Then one offer speaks for all
 * that nothing was said of before. No sockets here: tree.c brings what comes, and carries on what
 * goes up.
 *
 * Each offer goes up once: by itself, or as part of the whole. By itself it goes where it cannot be
 * part of it (an error, another signature than the others', a refused direct use), where the rest
 * lets wait for itself, so that the coordinator knows who is missing, and before anything that must
 * not overtake it.
 *
 * Who offers is a source: 0 is this node, i > 0 its i-th child with all that is below that one.
 *
 * Thread rule: one thread at a time; nothing blocks. `tell` may not call back.
 */
#ifndef RG_COLL_NEGOTIATE_ORDER_HELD_H
#define RG_COLL_NEGOTIATE_ORDER_HELD_H

#include "coll/negotiate/order_frames.h"

#define RG_HELD_WHOLE (-1)

/* The longest that an offer waits for others: far longer than what is ready at about the same time
 * takes, and far less than what people see as a stall. */
#define RG_HELD_NS UINT64_C(100000000)

struct rg_held;

struct rg_held_options {
    int nsources;
    const int *nnodes; /* by source; borrowed */
    /* An OFFER or OFFER_NEW goes up, of a source or of them all; node and flags are the caller's to
     * set. */
    void (*tell)(void *arg, int source, const struct rg_order_frame *frame);
    void *arg;
};

/* 0 or -ENOMEM. */
int rg_held_create(const struct rg_held_options *options, struct rg_held **ret_held);
void rg_held_destroy(struct rg_held *held); /* NULL is fine */

/* All nodes of the source have offered this number, when they had heard of epoch decisions; or what
 * an OFFER_NEW says. 0; -EPROTO: twice, or before its last decision; -ENOMEM. */
int rg_held_offer(struct rg_held *held, int source, uint32_t id, uint64_t epoch);
int rg_held_offer_new(struct rg_held *held, int source, const struct rg_order_frame *frame);
/* Tell what numbers are complete, in as few frames as that takes. */
void rg_held_flush(struct rg_held *held);
/* The same, and what is kept of this source, each by itself. */
void rg_held_spill(struct rg_held *held, int source);
/* Spill what waits since RG_HELD_NS, and leave it open to what comes of it. */
void rg_held_look(struct rg_held *held, uint64_t now_ns);
/* A node of the source has joined, until all have (rg_held_new_round). Spill it first. */
void rg_held_join(struct rg_held *held, int source);
void rg_held_new_round(struct rg_held *held);
/* An operation was decided: its number (0: none) and name. The next offer is a new one. */
void rg_held_decided(struct rg_held *held, uint32_t id, const char *name);
/* The number is called in: what comes of it goes on at once. */
void rg_held_evict(struct rg_held *held, uint32_t id);
/* 0; -ENOMEM: an offer was lost on its way. */
int rg_held_status(const struct rg_held *held);
/* How many decisions there were. */
uint64_t rg_held_epoch(const struct rg_held *held);

#endif
