/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bells: how a rank sleeps until another rank of its node has something for it, with no system call
 * on either side while both are awake.
 *
 * A rank that finds nothing to do publishes how it sleeps (mode), looks once more, and only then
 * sleeps. Whoever has published data or a flag rings: a fence, a load of the mode, and a system
 * call only if the other sleeps. The fence on both sides (store flag; fence; load mode / store
 * mode; fence; load flag) makes a lost wake-up impossible.
 *
 * At most one thread of a process sleeps on its bell: the one that drives progress. Modes tell what
 * may wake it: a communication thread with nobody waiting for small results is woken by urgent
 * rings only.
 *
 * Bells live in the node's shared segment; the event descriptors are per process (passed at boot)
 * and used where a rank must wait for sockets too.
 */
#ifndef RG_COLL_TEAM_BELL_H
#define RG_COLL_TEAM_BELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum rg_bell_mode {
    RG_BELL_AWAKE = 0,
    RG_BELL_FUTEX = 1,        /* asleep on seq; any ring wakes */
    RG_BELL_FUTEX_URGENT = 2, /* asleep on seq; urgent rings wake */
    RG_BELL_EVENT = 3,        /* asleep in epoll with its eventfd; any ring wakes */
};

struct rg_bell {
    _Alignas(128) _Atomic uint32_t seq; /* futex word, changed by each ring that wakes */
    _Atomic uint32_t mode;
};

struct rg_bells {
    struct rg_bell *bell; /* in the segment, by node rank */
    int *event_fd;        /* by node rank, -1 where not passed (one node only) */
    int nmembers;
    int me;               /* node rank */
};

/* Wake the member if it sleeps and this kind of ring wakes it. After the data it announces was
 * stored with release order. Any thread; async-signal-safe. */
void rg_bell_ring(const struct rg_bells *bells, int member, bool urgent);
void rg_bell_ring_all(const struct rg_bells *bells, bool urgent); /* all but me */

/* Sleep at most timeout_us. prepare: publish the mode; then the caller must check for work again
 * and call either commit (sleeps on the futex) or cancel. For event modes the caller sleeps in
 * epoll instead of commit and then calls cancel. Only the driving thread. */
uint32_t rg_bell_prepare(const struct rg_bells *bells, enum rg_bell_mode mode);
void rg_bell_commit(const struct rg_bells *bells, uint32_t seen, uint64_t timeout_us);
void rg_bell_cancel(const struct rg_bells *bells);

#endif
