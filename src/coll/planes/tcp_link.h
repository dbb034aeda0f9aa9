/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets of a tcp plane, to the members of its group: opened when they are first needed, the
 * lower rank dials, the higher one finds the connection in the team's listener.
 *
 * Thread rule: a plane's.
 */
#ifndef RG_COLL_PLANES_TCP_LINK_H
#define RG_COLL_PLANES_TCP_LINK_H

#include "coll/net/handshake.h"
#include "coll/planes/plane.h"

enum rg_tcp_link_state { RG_TCP_NONE, RG_TCP_DIALLING, RG_TCP_OPEN };

struct rg_tcp_link {
    enum rg_tcp_link_state state;
    int fd; /* -1: none */
    int ndials;
    struct rg_handshake *handshake;          /* while dialling */
    uint64_t sent_op, received_op;   /* the last operation whose header went or came; 0: none */
};

struct rg_tcp_links {
    const struct rg_team *team;
    struct rg_group group;
    uint32_t purpose;          /* of the handshake: tells planes of one rank apart */
    bool waits_for_listener;   /* since the caller has set it to false */
    struct rg_tcp_link *links; /* by member; owned */
};

/* 0 or -ENOMEM; to be closed in both cases. */
int rg_tcp_links_open(struct rg_tcp_links *links, const struct rg_plane_options *options);
/* Have a socket to this member. 1 open, 0 not yet, -errno with the rank named. */
int rg_tcp_connect(struct rg_tcp_links *links, int member, bool *ret_moved, struct rg_error *err);
/* "rank 3 on host b: <what>", -ECONNRESET for all ways of losing a socket. */
int rg_tcp_lost(const struct rg_tcp_links *links, int member, int r, struct rg_error *err);
/* Until all that was written has been acknowledged, or the deadline. */
void rg_tcp_drain(struct rg_tcp_links *links, uint64_t deadline_ns);
void rg_tcp_disconnect(struct rg_tcp_links *links);
void rg_tcp_links_close(struct rg_tcp_links *links);
/* In a child; async-signal-safe. */
void rg_tcp_links_after_fork(struct rg_tcp_links *links);

#endif
