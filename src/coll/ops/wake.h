/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the threads of a rank sleep while they wait for operations, and how they are woken: by the
 * bells, which other ranks ring too, and by `events`, for threads that wait and do not drive.
 *
 * Thread rule: any thread; only rg_wake_sleep blocks.
 */
#ifndef RG_COLL_OPS_WAKE_H
#define RG_COLL_OPS_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coll/team/bell.h"

struct rg_wake {
    const struct rg_bells *bells;  /* where drivers sleep; borrowed from the team */
    struct rg_bells thread_bells;  /* where communication threads sleep */
    _Atomic uint32_t events;       /* process-private futex */
    _Atomic int nsleepers;         /* on events */
    _Atomic int nwaiters;          /* user threads that wait */
};

/* Ring a rank of this node, both its driver and its communication thread; or every one. */
void rg_wake_ring(const struct rg_wake *wake, int member, bool urgent);
void rg_wake_ring_all(const struct rg_wake *wake, bool urgent);
/* Sleep on events, unless they are not what they were when `seen` was read; at most timeout_us. */
void rg_wake_sleep(struct rg_wake *wake, uint32_t seen, uint64_t timeout_us);
/* Wake who sleeps on events. */
void rg_wake_sleepers(struct rg_wake *wake);

#endif
