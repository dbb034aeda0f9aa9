/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order.h as a tree of leaders (tree_shape.h), which fans out by REIGEN_TREE_DEGREE. The leader of
 * node 0 coordinates: it decides. Each leader has a connection to the one above, its parent, and to
 * those right below, its children; what it says to the coordinator, and what that says to all, goes
 * along these.
 *
 *      up      offers come together on their way (order_held.h); all else is passed on as it is, in
 *              the order in which each node said it
 *      down    everything is for everybody, in one order
 *
 * tree_connect.c brings the leaders together, tree_say.c says, tree_hear.c hears, tree_root.c is
 * where what goes up ends, and tree.c is the door.
 */
#ifndef RG_COLL_NEGOTIATE_TREE_STATE_H
#define RG_COLL_NEGOTIATE_TREE_STATE_H

#include "coll/negotiate/order.h"
#include "coll/negotiate/order_decide.h"
#include "coll/negotiate/order_held.h"
#include "coll/negotiate/order_known.h"
#include "coll/negotiate/peers.h"
#include "coll/negotiate/tree_shape.h"

#define RG_TREE_PARENT 0 /* which peer it is; the i-th child is i, from 1 on */

struct rg_meeting;

struct rg_order {
    struct rg_team *team;
    struct rg_order_events events;
    int degree;
    int nchildren, first_child;  /* a node; those of the others follow */
    int *nbelow;                 /* by source (order_held.h): how many nodes it is */
    int *scratch;                /* room for all nodes */
    struct rg_peers *peers;
    struct rg_decider *decider;  /* coordinator; else NULL ... */
    struct rg_held *held;        /* ... and this one is not */
    struct rg_known *known;
    /* Until all leaders are there, else NULL: what is said of that. */
    struct rg_meeting *meeting;
    int (*meet)(struct rg_order *order, int peer, const struct rg_order_frame *frame);
    struct rg_order_decision *batch; /* coordinator: not yet said */
    size_t nbatch;
    bool frozen;                 /* SHUTDOWN has come: nothing is begun any more ... */
    int shut_rank;               /* ... as this rank leaves ... */
    bool ended;                  /* ... and what is left comes to its end */
    bool shut;                   /* on_shutdown was called */
    bool owes_clear;             /* to the coordinator, since JOIN */
    bool blocked;                /* what rg_order_blocked was told last */
    struct rg_error died;        /* the first death that was told */
};

/* ---- tree_root.c */

/* At the coordinator: what a leader says, this one included. 0 or -errno. */
int rg_tree_take_word(struct rg_order *order, const struct rg_order_frame *frame);

/* ---- tree_say.c */

/* The node of a peer. */
int rg_tree_node(const struct rg_order *order, int peer);
/* To the coordinator, of this node. 0 or -errno. */
int rg_tree_say_up(struct rg_order *order, const struct rg_order_frame *frame);
int rg_tree_say_use(struct rg_order *order, uint8_t type, struct rg_use use);
/* Of rg_held_create; the argument is the order. */
void rg_tree_tell_held(void *arg, int source, const struct rg_order_frame *frame);
/* Of the ranks here, which have joined, nothing is in flight directly any more. */
void rg_tree_tell_clear(struct rg_order *order);
/* The coordinator's stream, to the others: decisions that follow each other travel together, at the
 * latest with rg_tree_say_batch. */
void rg_tree_say_down(struct rg_order *order, const struct rg_order_frame *frame);
void rg_tree_say_batch(struct rg_order *order);
/* To all that are connected, but for one peer: a rank is dead. */
void rg_tree_tell_death(struct rg_order *order, int rank, const char *text, int but);

/* ---- tree_hear.c */

/* Of rg_peers_create; the argument is the order. */
extern const struct rg_peers_ops rg_tree_peers_ops;
/* The stream, which all leaders hear; a DECIDED frame says one decision. 0 or -errno. */
int rg_tree_take_news(struct rg_order *order, const struct rg_order_frame *frame);
/* A direct use is void. 0 or -EPROTO. */
int rg_tree_make_void(struct rg_order *order, struct rg_use use);
/* on_shutdown, when nothing is in flight directly any more. */
void rg_tree_shut(struct rg_order *order);

#endif
