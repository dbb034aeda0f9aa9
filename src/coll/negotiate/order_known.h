/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a leader that is not the coordinator keeps: the numbers of operations that it has seen
 * decided.
 *
 * Thread rule: one thread at a time; nothing blocks.
 */
#ifndef RG_COLL_NEGOTIATE_ORDER_KNOWN_H
#define RG_COLL_NEGOTIATE_ORDER_KNOWN_H

#include "coll/negotiate/order_frames.h"

struct rg_known;

/* 0 or -ENOMEM. */
int rg_known_create(struct rg_known **ret_known);
void rg_known_destroy(struct rg_known *known); /* NULL is fine */
/* The number by which to offer, 0: by name. */
uint32_t rg_known_number(const struct rg_known *known, const char *name,
                         const struct rg_signature *sig);
/* Take a DECIDED or DECIDED_NEW frame: fn gets the decision. 0; -EPROTO unknown number; -ENOMEM. */
int rg_known_decided(struct rg_known *known, const struct rg_order_frame *frame,
                     void (*fn)(void *arg, const char *name, const struct rg_signature *sig,
                                const char *text, bool more),
                     void *arg);
void rg_known_forget(struct rg_known *known, uint32_t id);

#endif
