/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent says to its launcher, and how it leaves when nobody is there to hear it. */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/ranks/agent.h"
#include "base/process/proctree.h"
#include "base/time.h"

void rg_agent_send(struct rg_agent *agent, enum rg_msg_type type, const void *object)
{
    uint32_t host = agent->has_setup ? agent->setup.host_index : RG_MSG_ANY_HOST;

    if (rg_msg_send(agent->channel, host, type, object) < 0 && agent->state != RG_AGENT_DONE)
        agent->on_lost(agent);
}

void rg_agent_note(struct rg_agent *agent, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    rg_agent_send(agent, RG_MSG_NOTE, &(struct rg_msg_note){ RG_MSG_NO_RANK, 1, text });
}

size_t rg_agent_kill(struct rg_agent *agent)
{
    rg_autofree struct rg_process *list = NULL;
    size_t count = 0;

    for (size_t i = 0; i < agent->ntasks; i++) {
        struct rg_task *task = agent->tasks[i];
        if (task->pid && !task->ended) {
            task->signalled = SIGKILL;
            kill(-task->pid, SIGKILL);
        }
    }
    if (rg_proctree_descendants(getpid(), &list, &count) < 0 && getpid() == 1)
        kill(-1, SIGKILL);
    size_t own = 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].pid == agent->copy.pid) /* it ends by itself, with what it has begun */
            own++;
        else
            kill(list[i].pid, SIGKILL);
    }
    return count - own;
}

void rg_agent_abandon(struct rg_agent *agent)
{
    uint64_t deadline_ns = rg_now_ns() + RG_AGENT_SWEEP_LIMIT_S * RG_NS_PER_S;

    if (agent->copy.leave)
        agent->copy.leave(agent, false);
    do {
        rg_agent_kill(agent);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (!rg_process_has_children())
            break;
        rg_sleep_ms(2);
    } while (rg_now_ns() < deadline_ns);
    if (agent->copy.leave)
        agent->copy.leave(agent, true);
    rg_jobdir_remove(&agent->jobdir);
    _exit(agent->exit_code);
}

bool rg_agent_is_orphan(const struct rg_agent *agent)
{
    struct pollfd pfd = { .fd = agent->boot.keeper_fd, .events = POLLRDHUP };

    return (agent->boot.guard_pid && getppid() != agent->boot.guard_pid) ||
           (poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLHUP | POLLRDHUP | POLLERR)));
}
