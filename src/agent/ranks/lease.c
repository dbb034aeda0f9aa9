/* SPDX-License-Identifier: Apache-2.0 */
/* A launcher that is gone may leave its link open for hours; ranks must not outlive it for long. */
#include "agent/ranks/lease.h"

#include "wire/msg.h"

static void tick(void *arg)
{
    struct rg_lease *lease = arg;

    if (lease->paused)
        return;
    lease->silent_ms += lease->tick_ms;
    if (lease->silent_ms >= lease->limit_ms + lease->tick_ms)
        lease->over(lease->arg, lease->limit_ms);
}

void rg_lease_start(struct rg_lease *lease, struct rg_loop *loop, uint64_t limit_ms,
                    void (*over)(void *arg, uint64_t limit_ms), void *arg)
{
    lease->limit_ms = limit_ms;
    lease->silent_ms = 0;
    lease->over = over;
    lease->arg = arg;
    lease->tick_ms = limit_ms / 4;
    if (lease->tick_ms > RG_MSG_HEARTBEAT_MS)
        lease->tick_ms = RG_MSG_HEARTBEAT_MS;
    if (!lease->tick_ms)
        lease->tick_ms = 1;
    rg_timer_start(&lease->timer, loop, lease->tick_ms, lease->tick_ms, tick, lease);
}

void rg_lease_heard(struct rg_lease *lease)
{
    lease->silent_ms = 0;
}

void rg_lease_pause(struct rg_lease *lease, bool pause)
{
    lease->paused = pause;
    lease->silent_ms = 0;
}

void rg_lease_stop(struct rg_lease *lease)
{
    rg_timer_stop(&lease->timer);
}
