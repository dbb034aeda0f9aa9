/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks may write faster than the user's terminal shows: without credit they block in their
 * pipes, and no memory grows. */
#include <string.h>

#include "agent/ranks/agent.h"
#include "agent/ranks/remote.h"
#include "base/fd.h"

void rg_pump_open(struct rg_pump *pump, struct rg_task *task, uint8_t stream, int take_fd)
{
    memset(pump, 0, sizeof(*pump));
    pump->task = task;
    pump->stream = stream;
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

static void send_output(struct rg_pump *pump, uint8_t *data, size_t nbytes)
{
    struct rg_msg_output msg = {
        .rank = pump->task->spec.rank,
        .stream = pump->stream,
        .data = { data, nbytes },
    };

    rg_agent_send(pump->task->agent, RG_MSG_OUTPUT, &msg);
}

static void end_stream(struct rg_pump *pump)
{
    struct rg_agent *agent = pump->task->agent;

    rg_pump_close(pump);
    send_output(pump, NULL, 0);
    rg_agent_advance(agent);
}

static bool may_send(const struct rg_agent *agent)
{
    return agent->credit > 0 && !rg_channel_congested(agent->channel);
}

/* Once nothing of ours can write any more, an empty pipe is at its end even if a stranger holds it.
 * */
static void pump_once(struct rg_pump *pump)
{
    struct rg_agent *agent = pump->task->agent;
    size_t room = agent->credit < RG_MSG_CHUNK_MAX ? agent->credit : RG_MSG_CHUNK_MAX;
    ssize_t n = read(pump->fd, agent->scratch, room);

    if (n > 0) {
        agent->credit -= (size_t) n;
        send_output(pump, agent->scratch, (size_t) n);
        return;
    }
    if (n < 0 && errno == EINTR)
        return;
    if (n < 0 && errno == EAGAIN && agent->state != RG_AGENT_GONE)
        return;
    /* 0; EIO, which is a terminal's way to say that nobody has it open; or EAGAIN at the very end.
     * */
    end_stream(pump);
}

static void pump_ready(void *arg, int events)
{
    struct rg_pump *pump = arg;
    struct rg_agent *agent = pump->task->agent;

    (void) events;
    if (may_send(agent))
        pump_once(pump);
    if (!may_send(agent))
        rg_agent_pump(agent);
}

static void drain(struct rg_pump *pump)
{
    struct rg_agent *agent = pump->task->agent;

    while (pump->fd >= 0 && may_send(agent))
        pump_once(pump);
}

void rg_agent_pump(struct rg_agent *agent)
{
    bool go = may_send(agent);

    for (size_t i = 0; i < agent->ntasks; i++) {
        for (int s = 0; s < 2; s++) {
            struct rg_pump *pump = &agent->tasks[i]->pumps[s];
            if (pump->fd < 0)
                continue;
            if (!go)
                rg_io_stop(&pump->io);
            else if (agent->state == RG_AGENT_GONE)
                drain(pump);
            else if (!rg_io_active(&pump->io))
                rg_io_start(&pump->io, agent->loop, pump->fd, RG_IO_READ, pump_ready, pump);
        }
    }
    rg_remotes_pump(agent);
}

bool rg_agent_drained(const struct rg_agent *agent)
{
    for (size_t i = 0; i < agent->ntasks; i++) {
        if (agent->tasks[i]->pumps[0].fd >= 0 || agent->tasks[i]->pumps[1].fd >= 0)
            return false;
    }
    return true;
}
