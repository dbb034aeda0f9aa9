/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks may write faster than the user's terminal shows: without credit they block in their
 * pipes, and no memory grows. */
#include "agent/ranks/agent.h"
#include "agent/ranks/remote.h"
#include "base/fd.h"

void rg_pump_open(struct rg_pump *pump, int take_fd)
{
    pump->fd = take_fd;
    rg_fd_set_nonblock(take_fd, true);
}

void rg_pump_close(struct rg_pump *pump)
{
    if (pump->fd < 0)
        return;
    rg_io_stop(&pump->io);
    close(rg_steal_fd(&pump->fd));
}

static bool may_send(const struct rg_pump *pump)
{
    return *pump->credit > 0 && !rg_channel_congested(pump->agent->channel);
}

/* Once nothing of ours can write any more, an empty pipe is at its end even if a process of
 * somebody else's holds it. */
static void pump_once(struct rg_pump *pump)
{
    struct rg_agent *agent = pump->agent;
    size_t room = *pump->credit < RG_MSG_CHUNK_MAX ? *pump->credit : RG_MSG_CHUNK_MAX;
    ssize_t n = read(pump->fd, agent->scratch, room);

    if (n > 0) {
        *pump->credit -= (size_t) n;
        pump->send(pump, agent->scratch, (size_t) n);
        return;
    }
    if (n < 0 && (errno == EINTR || (errno == EAGAIN && agent->state != RG_AGENT_GONE)))
        return;
    /* 0; EIO, which is a terminal's way to say that nobody has it open; or EAGAIN at the very
     * end. */
    rg_pump_close(pump);
    pump->send(pump, NULL, 0);
}

static void pump_ready(void *arg, int events)
{
    struct rg_pump *pump = arg;

    (void) events;
    if (may_send(pump))
        pump_once(pump);
    rg_pump_flow(pump);
    if (pump->fd < 0)
        pump->ended(pump->owner);
}

void rg_pump_flow(struct rg_pump *pump)
{
    struct rg_agent *agent = pump->agent;

    while (agent->state == RG_AGENT_GONE && pump->fd >= 0 && may_send(pump))
        pump_once(pump);
    if (pump->fd < 0)
        return;
    if (!may_send(pump))
        rg_io_stop(&pump->io);
    else if (!rg_io_active(&pump->io))
        rg_io_start(&pump->io, agent->loop, pump->fd, RG_IO_READ, pump_ready, pump);
}

void rg_agent_pump(struct rg_agent *agent)
{
    for (size_t i = 0; i < agent->ntasks; i++) {
        rg_pump_flow(&agent->tasks[i]->pumps[0]);
        rg_pump_flow(&agent->tasks[i]->pumps[1]);
    }
    rg_remotes_pump(agent);
    if (agent->state == RG_AGENT_GONE)
        rg_agent_advance(agent);
}

bool rg_agent_drained(const struct rg_agent *agent)
{
    for (size_t i = 0; i < agent->ntasks; i++) {
        if (agent->tasks[i]->pumps[0].fd >= 0 || agent->tasks[i]->pumps[1].fd >= 0)
            return false;
    }
    return true;
}
