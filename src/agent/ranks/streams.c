/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks read and write. Output may come faster than the user's terminal shows it: without
 * credit ranks block in their pipes, and no memory grows. Standard input may go to all ranks: it is
 * kept once, and given to each as fast as that one reads. */
#include <termios.h>

#include "agent/ranks/agent.h"
#include "base/fd.h"

/* --- output ----------------------------------------------------------------------------------- */

void rg_pump_open(struct rg_pump *pump, int take_fd)
{
    pump->fd = take_fd;
    pump->last = false;
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
static bool is_last(const struct rg_pump *pump)
{
    return pump->last || pump->agent->state == RG_AGENT_GONE;
}

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
    if (n < 0 && (errno == EINTR || (errno == EAGAIN && !is_last(pump))))
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

    while (is_last(pump) && pump->fd >= 0 && may_send(pump))
        pump_once(pump);
    if (pump->fd < 0)
        return;
    if (!may_send(pump))
        rg_io_stop(&pump->io);
    else if (!rg_io_active(&pump->io))
        rg_io_start(&pump->io, agent->loop, pump->fd, RG_IO_READ, pump_ready, pump);
}

void rg_pump_catch_up(struct rg_pump *pump)
{
    if (pump->fd >= 0 && may_send(pump))
        pump_once(pump);
}

bool rg_task_drained(const struct rg_task *task)
{
    return task->pumps[0].fd < 0 && task->pumps[1].fd < 0;
}

bool rg_agent_drained(const struct rg_agent *agent)
{
    for (size_t i = 0; i < agent->ntasks; i++) {
        if (!rg_task_drained(agent->tasks[i]))
            return false;
    }
    return true;
}

/* --- input ------------------------------------------------------------------------------------ */

void rg_task_input_close(struct rg_task *task)
{
    if (task->input_fd < 0)
        return;
    rg_io_stop(&task->input_io);
    close(rg_steal_fd(&task->input_fd));
}

static void input_ready(void *arg, int events)
{
    struct rg_task *task = arg;

    (void) events;
    rg_agent_input_flow(task->agent);
}

/* A terminal has no end: its reader sees one when the end-of-file character comes at a line's
 * start. Within a line the first such character only hands on what is there of it. */
static void end_input(struct rg_task *task)
{
    struct termios mode;

    if (!task->spec.pty) {
        rg_task_input_close(task);
        return;
    }
    if (task->input_eof_sent)
        return;
    task->input_eof_sent = true;
    if (tcgetattr(task->input_fd, &mode) == 0 && (mode.c_lflag & ICANON)) {
        cc_t end[2] = { mode.c_cc[VEOF], mode.c_cc[VEOF] };
        ssize_t ignored = write(task->input_fd, end, task->agent->input.in_line ? 2 : 1);
        (void) ignored;
    }
}

/* Write what this rank lacks; true when it must wait until it can take more. */
static bool feed(struct rg_task *task)
{
    struct rg_task_input *input = &task->agent->input;

    for (;;) {
        size_t skip = (size_t) (task->input_at - input->buf_at);
        size_t nbytes = rg_buf_nbytes(&input->buf) - skip;
        if (!nbytes)
            return false;
        ssize_t n = write(task->input_fd, rg_buf_bytes(&input->buf) + skip, nbytes);
        if (n > 0) {
            task->input_at += (size_t) n;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return true;
        rg_task_input_close(task); /* EPIPE: it reads no more */
        return false;
    }
}

/* Drop what all have got, and give the launcher credit for it, a step's worth at a time: what is
 * kept back never stops it, since its window is several steps. */
static void acknowledge(struct rg_agent *agent)
{
    struct rg_task_input *input = &agent->input;
    uint64_t low = input->buf_at + rg_buf_nbytes(&input->buf);
    bool anyone = false;

    for (size_t i = 0; i < agent->ntasks; i++) {
        struct rg_task *task = agent->tasks[i];
        if (task->input_fd < 0)
            continue;
        anyone = true;
        if (task->input_at < low)
            low = task->input_at;
    }
    rg_buf_consume(&input->buf, (size_t) (low - input->buf_at));
    input->uncredited += low - input->buf_at;
    input->buf_at = low;
    if (!anyone && !input->closed_told) {
        input->closed_told = true;
        rg_agent_send(agent, RG_MSG_INPUT_CLOSED, NULL);
    } else if (anyone && input->uncredited >= RG_MSG_INPUT_STEP) {
        rg_agent_send(agent, RG_MSG_INPUT_CREDIT, &(struct rg_msg_bytes){ input->uncredited });
        input->uncredited = 0;
    }
}

void rg_agent_input_flow(struct rg_agent *agent)
{
    if (agent->state == RG_AGENT_WAITING)
        return;
    for (size_t i = 0; i < agent->ntasks; i++) {
        struct rg_task *task = agent->tasks[i];
        if (task->input_fd < 0)
            continue;
        bool wait = feed(task);
        if (task->input_fd < 0)
            continue;
        if (!wait && agent->input.eof)
            end_input(task);
        if (!wait)
            rg_io_stop(&task->input_io);
        else if (!rg_io_active(&task->input_io))
            rg_io_start(&task->input_io, agent->loop, task->input_fd, RG_IO_WRITE, input_ready,
                        task);
    }
    acknowledge(agent);
}

int rg_agent_input(struct rg_agent *agent, const uint8_t *data, size_t nbytes)
{
    struct rg_task_input *input = &agent->input;

    if (input->eof || rg_buf_nbytes(&input->buf) + nbytes > RG_MSG_INPUT_WINDOW)
        return -EMSGSIZE;
    if (input->closed_told)
        return 0;
    if (nbytes)
        input->in_line = data[nbytes - 1] != '\n';
    rg_buf_put(&input->buf, data, nbytes);
    int r = rg_buf_status(&input->buf);
    if (r == 0)
        rg_agent_input_flow(agent);
    return r;
}

void rg_agent_input_eof(struct rg_agent *agent)
{
    agent->input.eof = true;
    rg_agent_input_flow(agent);
}
