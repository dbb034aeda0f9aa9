/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a leader keeps: the numbers of operations that it has seen decided, and of those that go
 * directly (order.h) which use comes next and whether it has begun.
 *
 * A number that is called in is kept, and used for nothing new, until it stands for another name:
 * an offer of the name says which use of it is refused.
 *
 * Thread rule: one thread at a time; nothing blocks.
 */
#ifndef RG_COLL_NEGOTIATE_ORDER_KNOWN_H
#define RG_COLL_NEGOTIATE_ORDER_KNOWN_H

#include "coll/negotiate/order_frames.h"

#define RG_KNOWN_IDS_MAX (1u << 24) /* numbers are small and reused: a larger one is garbage */

struct rg_known;

enum rg_begun {
    RG_BEGUN_NOT = 0,
    RG_BEGUN_OWN,   /* ranks of this node have submitted it */
    RG_BEGUN_ZEROS, /* they have joined */
    RG_BEGUN_VOID,  /* it was void before, or will be */
};

struct rg_use {
    uint32_t id, seq;
};

/* 0 or -ENOMEM. */
int rg_known_create(struct rg_known **ret_known);
void rg_known_destroy(struct rg_known *known); /* NULL is fine */
/* The number by which to offer, 0: by name; then *ret_refused is the direct use that the offer
 * refuses, if any (id 0: none). */
uint32_t rg_known_number(const struct rg_known *known, const char *name,
                         const struct rg_signature *sig, struct rg_use *ret_refused);
/* What a number stands for, or stood for when it was called in; NULL: nothing. And back; 0. */
const char *rg_known_name(const struct rg_known *known, uint32_t id);
uint32_t rg_known_id(const struct rg_known *known, const char *name);
/* Take a DECIDED (of one, by id, seq and flags) or DECIDED_NEW frame: fn gets the decision, and
 * expect, if it is not NULL, before that a use that comes next of a number that goes directly; way:
 * how the uses that follow go, enum rg_direct_way. 0; -EPROTO unknown number; -ENOMEM. */
int rg_known_decided(struct rg_known *known, const struct rg_order_frame *frame,
                     void (*fn)(void *arg, const char *name, const struct rg_signature *sig,
                                const char *text, bool more, uint8_t way),
                     void (*expect)(void *arg, struct rg_use use, uint8_t way), void *arg);

/* ---- direct uses */

/* A use of this name has begun, and is not over. */
bool rg_known_has_begun(const struct rg_known *known, const char *name);
/* Begin the next use of this name: 1; 0: it may not go directly; -EAGAIN: the one before is not
 * over. */
int rg_known_begin(struct rg_known *known, const char *name, const struct rg_signature *sig,
                    struct rg_use *ret_use);
/* Begin this use with zeros: 1 and the signature; 0: it is not that one's turn, or has begun;
 * -ESTALE: its number is called in. */
int rg_known_lend(struct rg_known *known, struct rg_use use, struct rg_signature *ret_sig);
/* What was begun has come to its end. The use that comes next; true: its number was called in, and
 * is free now. */
bool rg_known_done(struct rg_known *known, uint32_t id, struct rg_use *ret_next);
/* This use is void: enum rg_begun, as which it had begun here, or -EPROTO: it is none that can be
 * void. Where the use before it has begun and is not over: RG_BEGUN_VOID, and when that is over,
 * rg_known_void_is_due says once that this is to be called again. */
int rg_known_void(struct rg_known *known, struct rg_use use);
bool rg_known_void_is_due(struct rg_known *known, uint32_t id);
/* The number is called in. True: nothing of it is in flight; *ret_next as above. */
bool rg_known_retire(struct rg_known *known, uint32_t id, struct rg_use *ret_next);
bool rg_known_is_retired(const struct rg_known *known, uint32_t id);
/* How many have begun and not ended: all, or with something of ranks of this node. */
int rg_known_nbegun(const struct rg_known *known, bool own);
/* The i-th number that goes directly, by its last use that has begun. False: no more. *i: 0 at
 * first. */
bool rg_known_each(const struct rg_known *known, uint32_t *i, struct rg_use *ret_last);
/* The same of those in flight: the use. */
bool rg_known_each_begun(const struct rg_known *known, uint32_t *i, struct rg_use *ret_use);

#endif
