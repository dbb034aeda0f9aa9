/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the tcp plane: what leads to the other members.
 *
 * What an operation sends from one member to another is one stream of bytes. The first of them are
 * a header of 16 bytes: u32 operation number, u8 kind, u8 dtype, u8 algorithm, u8 log2 of the bytes
 * of a chunk, u64 bytes of the whole operation; little-endian. Members that have lost step fail at
 * once with -EPROTO instead of mixing tensors.
 *
 * A pair of members has one socket or several (tcp_way.h says how many, the same on all members).
 * The stream is dealt out to them in stripes of RG_TCP_STRIPE_NBYTES, in turn:
 *
 *      byte of the stream   0 ...       256 Ki ...    512 Ki ...
 *      of three sockets     socket 0    socket 1      socket 2    socket 0    ...
 *
 * So both ends know from a byte's place where it comes, nothing is sent besides, and what fits into
 * a stripe takes socket 0 as if there were no other. A socket that is full holds the others up once
 * they are full too: all sockets of a pair get the same share.
 *
 * Sockets are opened when they are first needed (links/links.h), socket 0 by itself and all others
 * together.
 *
 * Thread rule: a plane's.
 */
#ifndef RG_COLL_PLANES_TCP_TCP_LINK_H
#define RG_COLL_PLANES_TCP_TCP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/links/links.h"
#include "coll/planes/plane.h"
#include "coll/planes/tcp/tcp_way.h"

enum { RG_TCP_STRIPE_NBYTES = 256 * 1024 };

/* Where an operation's stream has got to, in one direction. */
struct rg_tcp_stream {
    uint64_t op;     /* the last operation of which a byte went; 0: none */
    uint64_t nbytes; /* that have gone, header included */
};

/* All that leads to one member. */
struct rg_tcp_link {
    struct rg_socket sockets[RG_TCP_SOCKETS_MAX];
    struct rg_tcp_stream sent, received;
    uint64_t rate; /* bytes per second, the most that was seen; 0: not known */
    uint64_t sent_nbytes, sending_us; /* of the sockets that are open, at the last look */
};

struct rg_tcp_links {
    const struct rg_team *team;
    struct rg_links dialling;  /* what the sockets have in common */
    struct rg_group group;
    int nsockets;              /* that each pair uses now */
    uint64_t counted_ns;       /* when traffic was counted last; 0: never */
    bool waits_for_listener;   /* since the caller has set it to false */
    struct rg_tcp_link *links; /* by member; owned */
};

/* Which of a pair's sockets has this byte of a stream. */
static inline int rg_tcp_socket_of(uint64_t at, int nsockets)
{
    return (int) (at / RG_TCP_STRIPE_NBYTES % (uint64_t) nsockets);
}

/* How many bytes from this one on take the same socket. */
static inline size_t rg_tcp_stripe_left(uint64_t at, int nsockets)
{
    return nsockets == 1 ? SIZE_MAX : RG_TCP_STRIPE_NBYTES - at % RG_TCP_STRIPE_NBYTES;
}

/* purpose: of the handshake, tells planes of one rank apart. 0 or -ENOMEM; to be closed in both
 * cases. */
int rg_tcp_links_open(struct rg_tcp_links *links, const struct rg_plane_options *options,
                      uint32_t purpose);
/* Have this member's socket number i, if it is above 0 together with all others that the pair uses.
 * 1 open, 0 not yet, -errno with the rank named. */
int rg_tcp_connect(struct rg_tcp_links *links, int member, int i, bool *ret_moved,
                   struct rg_error *err);
/* What to wait for until socket i can send or receive (events: EPOLLOUT, EPOLLIN), or, while it is
 * not there, until its handshake goes on; added to the n that are there, which may be of the same
 * sockets. How many they are then, at most max. */
int rg_tcp_wait_fds(const struct rg_tcp_links *links, int member, int i, unsigned events,
                    int *fds, unsigned *all_events, int n, int max);
/* "rank 3 on host b: <what>", -ECONNRESET for all ways of losing a socket; -EACCES, -EPROTO,
 * -EMFILE and -ENFILE stay. */
int rg_tcp_lost(const struct rg_tcp_links *links, int member, int r, struct rg_error *err);
/* Until all that was written has been acknowledged, or the deadline. */
void rg_tcp_drain(struct rg_tcp_links *links, uint64_t deadline_ns);
/* After an operation: how quickly the kernel has sent to the members who were sent much, by all of
 * a pair's sockets together. */
void rg_tcp_note_rates(struct rg_tcp_links *links, uint64_t op_number);
/* Of all open sockets the longest (least) round trip and the lowest rate; 0: not known. */
void rg_tcp_look(const struct rg_tcp_links *links, uint64_t *ret_round_trip_ns,
                 uint64_t *ret_rate);
/* After an operation: add to the team's traffic what has gone since it was last counted, unless
 * that was less than a quarter of a second ago. */
void rg_tcp_count_traffic(struct rg_tcp_links *links, uint64_t now_ns);
void rg_tcp_disconnect(struct rg_tcp_links *links);
void rg_tcp_links_close(struct rg_tcp_links *links);
/* In a child; async-signal-safe. */
void rg_tcp_links_after_fork(struct rg_tcp_links *links);

#endif
