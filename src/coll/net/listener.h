/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One listener for all that other ranks dial this rank for, at one address or several: it accepts,
 * lets them shake hands (coll/net/handshake.h), and keeps the proven sockets until whoever they are
 * for claims them by purpose and rank.
 *
 * Connections that have proven nothing are dropped after RG_LISTENER_HANDSHAKE_MS, unless uids are
 * checked. At most RG_LISTENER_PENDING_MAX shake hands at a time: when more come, the oldest goes
 * once it has had RG_LISTENER_YOUNG_MS, and they wait for that. A rank that dials again for the
 * same purpose replaces its older socket.
 *
 * Thread rule: one thread at a time (the progress engine's drive lock). Nothing blocks,
 * rg_listener_wait excepted.
 */
#ifndef RG_COLL_NET_LISTENER_H
#define RG_COLL_NET_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#define RG_LISTENER_HANDSHAKE_MS 10000
#define RG_LISTENER_PENDING_MAX 256
#define RG_LISTENER_YOUNG_MS 1000
#define RG_LISTENER_FDS_MAX 8 /* addresses where it listens */
/* Descriptors that rg_listener_wait_fds has at most */
#define RG_LISTENER_WAIT_FDS_MAX (RG_LISTENER_PENDING_MAX + RG_LISTENER_FDS_MAX)
#define RG_LISTENER_FULL_TEXT                                                                  \
    "no free descriptor for a rank that connects: it waits until there is one (ulimit -n)"

struct rg_listener;

struct rg_listener_options {
    int listen_fds[RG_LISTENER_FDS_MAX]; /* taken */
    int nlisten;        /* how many of them there are */
    bool check_uid;     /* a unix socket: others than our own uid are not let in */
    const uint8_t *key; /* borrowed for the listener's life */
    int rank, size;
};

/* 0 or -ENOMEM (listen_fds are closed). */
int rg_listener_create(const struct rg_listener_options *options,
                       struct rg_listener **ret_listener);
/* Closes all that was not claimed. NULL is fine. */
void rg_listener_destroy(struct rg_listener *listener);
/* Accept and go on with handshaking. True when somebody was let in. */
bool rg_listener_progress(struct rg_listener *listener);
/* The socket on which rank came for purpose, now the caller's, non-blocking; -1: not (yet) come. */
int rg_listener_claim(struct rg_listener *listener, uint32_t purpose, int rank);
/* Whoever came for purpose: the socket and *ret_rank; -1: nobody. */
int rg_listener_claim_any(struct rg_listener *listener, uint32_t purpose, int *ret_rank);
/* Descriptors to poll for (EPOLLIN, EPOLLOUT in events), at most max; returns how many. Whoever
 * polls them looks again after RG_LISTENER_YOUNG_MS, too, as some may be left out for a while. */
int rg_listener_wait_fds(struct rg_listener *listener, int *ret_fds, unsigned *ret_events, int max);
/* Progress until somebody was let in or the deadline. 0 or -ETIMEDOUT. Blocks. */
int rg_listener_wait(struct rg_listener *listener, uint64_t deadline_ns);
/* In a forked child: close. Async-signal-safe. */
void rg_listener_after_fork(struct rg_listener *listener);

#endif
