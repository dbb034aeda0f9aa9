/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order.h as a star: the leader of node 0 coordinates. It decides, and is the only peer of the
 * others, who know it as node 0; its own peers are all other nodes. star_connect.c brings the
 * leaders together, star.c says and hears.
 */
#ifndef RG_COLL_NEGOTIATE_STAR_H
#define RG_COLL_NEGOTIATE_STAR_H

#include "coll/negotiate/order.h"
#include "coll/negotiate/order_decide.h"
#include "coll/negotiate/order_known.h"
#include "coll/negotiate/peers.h"

struct rg_order {
    struct rg_team *team;
    struct rg_order_events events;
    struct rg_peers *peers;
    struct rg_decider *decider;  /* coordinator; else NULL */
    struct rg_known *known;
    bool gathering;              /* coordinator: leaders are missing */
    bool frozen;                 /* SHUTDOWN has come: nothing is begun any more ... */
    int shut_rank;               /* ... as this rank leaves ... */
    bool ended;                  /* ... and what is left comes to its end */
    bool shut;                   /* on_shutdown was called */
    bool owes_clear;             /* to the coordinator, since JOIN */
    bool blocked;                /* what rg_order_blocked was told last */
    struct rg_error died;        /* the first death that was told */
};

/* Of rg_peers_create; the argument is the order. */
extern const struct rg_peers_ops rg_order_peers_ops;

#endif
