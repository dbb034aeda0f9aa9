/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What far.c, which knows doubling, and far_shots.c, which knows one and two shots, share.
 *
 * Thread rule: as far.h.
 */
#ifndef RG_COLL_FAR_FAR_INSIDE_H
#define RG_COLL_FAR_FAR_INSIDE_H

#include "coll/far/far_links.h"
#include "coll/far/far_op.h"
#include "coll/reduce/doubling.h"

/* A frame that came before it was waited for, or that is waited for together with others. */
struct rg_far_early {
    struct rg_far_early *next;
    struct rg_far_frame frame;
    int node; /* the sender's */
    _Alignas(16) uint8_t payload[];
};

/* What is known of a number. */
struct rg_far_use {
    uint32_t next;           /* 0: nothing yet */
    uint8_t way;             /* enum rg_direct_way */
    struct rg_far_op *op;    /* in flight, or NULL */
    struct rg_far_early *early;
};

/* One or two shots in flight: what is still to come, by node. */
struct rg_far_shots {
    uint32_t parts_missing, results_missing; /* bits */
    struct rg_far_early *parts[RG_DIRECT_SHOTS_MAX]; /* owned */
    struct rg_far_shots *next; /* of those that are free */
};

enum { RG_FAR_LEVELS_MAX = 18 }; /* of the doubling, among REIGEN_SIZE_MAX leaders */

struct rg_far {
    const struct rg_team *team;
    struct rg_links dialling; /* what the links' sockets have in common */
    struct rg_far_events events;
    int n, me;
    struct rg_doubling doubling;
    struct rg_far_use **uses; /* by number; owned */
    size_t uses_capacity;
    uint64_t early_nbytes;
    int nearly;             /* frames */
    int nops;               /* in flight */
    struct rg_far_op *folding; /* that wait for who is folded into this one */
    struct rg_far_shots *spare;
    bool dead;
    int nlinks;             /* to all others, by node, where there are few; else the doubling's */
    int by_level[RG_FAR_LEVELS_MAX + 2]; /* the link on which frames of this level of the doubling
                                          * come; -1: they do not */
    struct rg_far_link links[];
};

/* Shots are among so many. */
static inline bool rg_far_shoots(const struct rg_far *far)
{
    return far->n <= RG_DIRECT_SHOTS_MAX;
}

/* ---- far_uses.c */
/* The use of a number, or NULL. */
struct rg_far_use *rg_far_use_of(const struct rg_far *far, uint32_t id);
/* The memory that a kept frame takes. */
size_t rg_far_early_nbytes(const struct rg_far_frame *frame);
/* Take a kept frame out of its use's list, where *link points to it; it is the caller's. */
struct rg_far_early *rg_far_take_out(struct rg_far *far, struct rg_far_early **link);
/* The same of a frame of this use of this level (-1: any) that came early; NULL: none did. */
struct rg_far_early *rg_far_take_early(struct rg_far *far, const struct rg_far_op *op, int level);
/* NULL: out of memory. */
struct rg_far_early *rg_far_copy(const struct rg_far_frame *frame, int node,
                                 const uint8_t *payload);
/* Send a frame with the next flush; until then the payload stays. NULL: zeros. */
void rg_far_put(struct rg_far_op *op, struct rg_far_link *link, int level, const void *payload,
                size_t nbytes);
/* Send what was put. */
void rg_far_flush(struct rg_far *far);
/* Before the operation's memory changes. */
void rg_far_settle(struct rg_far *far, struct rg_far_op *op);
/* op->now is the result. Calls on_done. */
void rg_far_finish(struct rg_far *far, struct rg_far_op *op);

/* ---- far_shots.c: as in far.c what is called post, take and drop. 1: it is done, and the caller's
 * again; 0; -ENOMEM; -EPROTO */
int rg_far_shots_begin(struct rg_far *far, struct rg_far_op *op);
int rg_far_shots_take(struct rg_far *far, struct rg_far_op *op, const struct rg_far_link *link,
                      const struct rg_far_frame *frame, const uint8_t *payload);
void rg_far_shots_drop(struct rg_far *far, struct rg_far_op *op);
/* Frees what was kept for others. */
void rg_far_shots_fini(struct rg_far *far);

#endif
