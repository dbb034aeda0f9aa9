/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent says to its launcher, and what it does when nobody is there to hear it. */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/ranks/agent.h"
#include "base/proctree.h"
#include "base/time.h"

#define LAST_MS 30000 /* for ranks whose launcher Slurm has killed */
#define LOOK_MS 20    /* between two looks at them; a part of RG_SIGNAL_WAIT_MS */

volatile sig_atomic_t rg_agent_directly[NSIG], rg_agent_told_to_end;

void rg_agent_send(struct rg_agent *agent, enum rg_msg_type type, const void *object)
{
    uint32_t host = agent->has_setup ? agent->setup.host_index : RG_MSG_ANY_HOST;

    if (rg_msg_send(agent->channel, host, type, object) < 0 && agent->state != RG_AGENT_DONE)
        rg_agent_lose_launcher(agent);
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
    for (size_t i = 0; i < count; i++)
        kill(list[i].pid, SIGKILL);
    return count;
}

void rg_agent_abandon(struct rg_agent *agent)
{
    uint64_t deadline_ns = rg_now_ns() + RG_AGENT_SWEEP_LIMIT_S * RG_NS_PER_S;

    do {
        rg_agent_kill(agent);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (!rg_process_has_children())
            break;
        rg_sleep_ms(2);
    } while (rg_now_ns() < deadline_ns);
    rg_jobdir_remove(&agent->jobdir);
    _exit(agent->exit_code);
}

bool rg_agent_is_orphan(const struct rg_agent *agent)
{
    struct pollfd pfd = { .fd = agent->boot.keeper_fd, .events = POLLRDHUP };

    return (agent->boot.guard_pid && getppid() != agent->boot.guard_pid) ||
           (poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLHUP | POLLRDHUP | POLLERR)));
}

static bool ranks_live(const struct rg_agent *agent)
{
    bool live = false;

    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    for (size_t i = 0; i < agent->ntasks; i++) {
        const struct rg_task *task = agent->tasks[i];
        live |= task->pid && !task->ended && kill(task->pid, 0) == 0;
    }
    return live;
}

/* Read what the ranks write, or a handler that says much would wait for its pipe. */
static void drop_output(const struct rg_agent *agent)
{
    for (size_t i = 0; i < agent->ntasks; i++) {
        for (int k = 0; k < 2; k++) {
            ssize_t ignored =
                read(agent->tasks[i]->pumps[k].fd, agent->scratch, RG_MSG_CHUNK_MAX);
            (void) ignored;
        }
    }
}

/* On scancel Slurm tells a job's script and the agents at the same time. A script that is a shell
 * ends by that, and Slurm kills what it has started, the launcher too: nobody hands the word on
 * any more. The ranks have their time nevertheless, which Slurm ends. */
static void let_end(const struct rg_agent *agent)
{
    bool sent = agent->heard[0].ways && !rg_timer_active(&agent->late);

    for (unsigned ms = 0; ms < (rg_agent_told_to_end ? LAST_MS : RG_SIGNAL_WAIT_MS) &&
                          ranks_live(agent) && !rg_agent_is_orphan(agent); ms += LOOK_MS) {
        sent |= rg_agent_directly[SIGTERM];
        if (!sent && ms == RG_SIGNAL_WAIT_MS)
            rg_agent_deliver(agent, SIGTERM);
        drop_output(agent);
        rg_sleep_ms(LOOK_MS);
    }
}

void rg_agent_lose_launcher(struct rg_agent *agent)
{
    if (agent->boot.tracked && agent->state == RG_AGENT_RUNNING)
        let_end(agent);
    rg_agent_abandon(agent);
}
