/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets from this rank to others: how each comes to be. One of the two ranks dials, shakes hands
 * (net/handshake.h), and dials again where that may help; the other one claims the connection from
 * the team's listener (net/listener.h).
 *
 *      NONE -- dialled --> DIALLING -- hands are shaken --> OPEN -- closed, or taken --> NONE
 *
 *      NONE -- claimed --> OPEN          DIALLING -- it failed --> NONE, to be dialled again or not
 *
 * Two ranks may have several sockets for one purpose. Number i of them has a purpose of its own in
 * the handshake, "tall", "tal1", "tal2", ..., and goes by network i (rail) in turn, from the
 * address that its rank has there. Where a further network leads nowhere, that is said once, and
 * what goes by it goes by the first one.
 *
 * Thread rule: one thread at a time, under whatever guards the team's listener. Nothing blocks.
 */
#ifndef RG_COLL_LINKS_LINKS_H
#define RG_COLL_LINKS_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct rg_handshake;
struct rg_team;

/* What the sockets for one purpose have in common: set by their owner, but for rails that turn out
 * to be unfit. */
struct rg_links {
    const struct rg_team *team; /* borrowed */
    uint32_t purpose;      /* of the handshake: four letters */
    int ndials_max;        /* after so many a socket cannot be had; 0: there is no limit */
    unsigned pause_ms;     /* between two of them */
    bool takes_refusals;   /* who refuses a connection may take it later */
    bool carries_data;     /* they leave BBR (net/sock.h), unless the team keeps it */
    unsigned unfit_rails;  /* bits: the team's, and those by which a rank was not reached */
};

enum rg_socket_state { RG_SOCKET_NONE, RG_SOCKET_DIALLING, RG_SOCKET_OPEN };

/* Read by the owner; changed here alone. */
struct rg_socket {
    int fd; /* owned; -1: NONE */
    enum rg_socket_state state;
    int ndials;
    int cause;             /* -errno by which the last dial failed; 0: none has */
    uint64_t again_ns;     /* it is not dialled before */
    struct rg_handshake *handshake; /* while DIALLING; owned */
    uint8_t rail;          /* by which it was dialled last */
    bool awaited;          /* the other rank dials, and had not come at the last look */
};

#define RG_SOCKET_INIT { .fd = -1 }

/* Have socket number i to a rank by dialling: to be called again when it is ready for what
 * rg_links_events says, or again_ns has come. 1: it is open; 0: not yet; -errno: it cannot be had:
 * -EACCES (another key), -EPROTO, -EDESTADDRREQ (the rank has no address), -ENOMEM, or that of the
 * socket; it is NONE then. *ret_moved is set where anything was done. */
int rg_links_dial(struct rg_links *links, int rank, int i, struct rg_socket *socket,
                  bool *ret_moved);
/* Have the sockets from number `from` to before `end`, by dialling where the other rank is the
 * higher one, else by claiming: then the listener's descriptors tell when to call again. As
 * rg_links_dial; 1: all of them are open. sockets: number 0 and those behind it. */
int rg_links_connect(struct rg_links *links, int rank, struct rg_socket *sockets, int from, int end,
                     bool *ret_moved);
/* It is open, by this descriptor. */
void rg_links_adopt(const struct rg_links *links, struct rg_socket *socket, int take_fd);
/* The descriptor of an open socket, which is the caller's from now on, and NONE. */
int rg_links_take(struct rg_socket *socket);
/* What a socket waits for while DIALLING: EPOLLIN or EPOLLOUT. */
unsigned rg_links_events(const struct rg_socket *socket);
/* NONE. Fine at any time. */
void rg_links_close(struct rg_socket *socket);

/* "rank 3 on host b has another key", or how else a socket to it was lost, or could not be had:
 * -EACCES, -EINVAL where it has no address, else -ECONNRESET. cause: -errno; -EPIPE: the other end
 * has closed it. */
int rg_links_tell(const struct rg_team *team, int rank, int cause, struct rg_error *err);

#endif
