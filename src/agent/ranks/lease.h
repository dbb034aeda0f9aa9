/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's lease: how long it may be silent until the ranks here are ended. It is counted in
 * ticks that this process itself has lived through, so that a computer that slept, or a paused job,
 * has not been silent.
 *
 * Thread rule: the loop's thread; nothing blocks.
 */
#ifndef RG_AGENT_RANKS_LEASE_H
#define RG_AGENT_RANKS_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"

/* Its fields are lease.c's. */
struct rg_lease {
    struct rg_timer timer;
    uint64_t limit_ms, tick_ms, silent_ms;
    bool paused;
    void (*over)(void *arg, uint64_t limit_ms);
    void *arg;
};

/* Count from now on; over is called once the launcher has been silent for limit_ms, and again with
 * every tick. May be called again with another limit. */
void rg_lease_start(struct rg_lease *lease, struct rg_loop *loop, uint64_t limit_ms,
                    void (*over)(void *arg, uint64_t limit_ms), void *arg);
/* The launcher has said something. */
void rg_lease_heard(struct rg_lease *lease);
/* While paused no time counts. */
void rg_lease_pause(struct rg_lease *lease, bool pause);
void rg_lease_stop(struct rg_lease *lease);

#endif
