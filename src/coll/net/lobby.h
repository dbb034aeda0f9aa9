/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One listening socket for all that other ranks dial this rank for: it accepts, lets them knock
 * (coll/net/knock.h), and keeps the proven sockets until whoever they are for claims them by purpose
 * and rank.
 *
 * Strangers, garbage and half-open connections are dropped after RG_LOBBY_KNOCK_MS, unless uids are
 * checked; at most
 * RG_LOBBY_STRANGERS_MAX knock at a time, then the oldest goes. A rank that dials again for the
 * same purpose replaces its older socket.
 *
 * Thread rule: one thread at a time (the engine's drive lock). Nothing blocks, rg_lobby_wait
 * excepted.
 */
#ifndef RG_COLL_NET_LOBBY_H
#define RG_COLL_NET_LOBBY_H

#include <stdbool.h>
#include <stdint.h>

#define RG_LOBBY_KNOCK_MS 10000
#define RG_LOBBY_STRANGERS_MAX 256
#define RG_LOBBY_FULL_TEXT                                                                  \
    "no free descriptor for a rank that connects: it waits until there is one (ulimit -n)"

struct rg_lobby;

struct rg_lobby_options {
    int listen_fd;      /* taken */
    bool check_uid;     /* a unix socket: others than our own uid are not let in */
    const uint8_t *key; /* borrowed for the lobby's life */
    int rank, size;
};

/* 0 or -ENOMEM (listen_fd is closed). */
int rg_lobby_create(const struct rg_lobby_options *options, struct rg_lobby **ret_lobby);
/* Closes all that was not claimed. NULL is fine. */
void rg_lobby_destroy(struct rg_lobby *lobby);
/* Accept and go on with knocking. True when somebody was let in. */
bool rg_lobby_progress(struct rg_lobby *lobby);
/* The socket on which rank came for purpose, now the caller's, non-blocking; -1: not (yet) come. */
int rg_lobby_claim(struct rg_lobby *lobby, uint32_t purpose, int rank);
/* Whoever came for purpose: the socket and *ret_rank; -1: nobody. */
int rg_lobby_claim_any(struct rg_lobby *lobby, uint32_t purpose, int *ret_rank);
/* Descriptors to poll for (EPOLLIN, EPOLLOUT in events), at most max; returns how many. */
int rg_lobby_wait_fds(struct rg_lobby *lobby, int *ret_fds, unsigned *ret_events, int max);
/* Progress until somebody was let in or the deadline. 0 or -ETIMEDOUT. Blocks. */
int rg_lobby_wait(struct rg_lobby *lobby, uint64_t deadline_ns);
/* In a forked child: close. Async-signal-safe. */
void rg_lobby_after_fork(struct rg_lobby *lobby);

#endif
