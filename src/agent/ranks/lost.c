/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher is gone. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/ranks/agent.h"
#include "base/exitcode.h"
#include "base/time.h"

#define LAST_MS 30000 /* for ranks whose launcher Slurm has killed */
#define LOOK_MS 20    /* between two looks at them; a part of RG_SIGNAL_WAIT_MS */

volatile sig_atomic_t rg_agent_directly[NSIG], rg_agent_told_to_end;

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
    bool sent = agent->heard[0].ways && !rg_timer_active(&agent->late.timer);

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
    if (agent->boot.tracked && agent->state == RG_AGENT_RUNNING) {
        agent->exit_code = RG_EXIT_HOST_LOST; /* the job may begin again elsewhere */
        let_end(agent);
    }
    rg_agent_abandon(agent);
}
