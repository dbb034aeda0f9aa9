/* SPDX-License-Identifier: Apache-2.0 */
/* Signals to ranks, their ends, and the end of what they leave behind. All of it asks who descends
 * from whom, as a process' number alone may be another's by the time it is used. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/ranks/agent.h"
#include "agent/ranks/rankserver.h"
#include "agent/ranks/remote.h"
#include "base/process/proctree.h"
#include "base/time.h"

#define SWEEP_MS 20        /* between two looks for what is left */

static bool stops_by_default(int signo)
{
    return signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT;
}

/* What a dead rank (NULL: any) left in its session; its group's number may belong to others by now,
 * so only our own descendants count. */
static void signal_left_behind(const struct rg_agent *agent, const struct rg_task *task, int signo)
{
    rg_autofree struct rg_process *list = NULL;
    size_t count = 0;

    if (rg_proctree_descendants(getpid(), &list, &count) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        for (size_t t = 0; t < agent->ntasks; t++) {
            const struct rg_task *dead = agent->tasks[t];
            if (dead->ended && dead->pid && dead->pid == list[i].session &&
                (!task || task == dead))
                kill(list[i].pid, signo);
        }
    }
}

static void send_signal(const struct rg_agent *agent, int signo)
{
    bool some_ended = false;

    for (size_t i = 0; i < agent->ntasks; i++) {
        struct rg_task *task = agent->tasks[i];
        if (task->pid && !task->ended)
            kill(-task->pid, signo);
        some_ended |= task->pid && task->ended;
    }
    if (some_ended && rg_process_has_children())
        signal_left_behind(agent, NULL, signo);
}

void rg_task_signal(struct rg_task *task, int signo)
{
    if (!task->pid || task->ended) {
        signal_left_behind(task->agent, task, signo);
        return;
    }
    task->signalled = (uint32_t) signo;
    kill(-task->pid, signo);
    if (stops_by_default(signo))
        kill(-task->pid, SIGCONT);
}

/* Their ends will be taken for consequences of it. */
static void note_signalled(const struct rg_agent *agent, int signo)
{
    for (size_t i = 0; i < agent->ntasks; i++) {
        if (!agent->tasks[i]->ended)
            agent->tasks[i]->signalled = (uint32_t) signo;
    }
}

void rg_agent_deliver(const struct rg_agent *agent, int signo)
{
    note_signalled(agent, signo);
    send_signal(agent, signo);
    /* A stopped process would not see it before it goes on. */
    if (stops_by_default(signo))
        send_signal(agent, SIGCONT);
}

/* It did not come directly. */
static void on_late(void *arg)
{
    struct rg_agent *agent = arg;

    rg_timer_stop(&agent->late.timer);
    rg_agent_deliver(agent, agent->late.signo);
}

const int rg_agent_signals[RG_AGENT_SIGNALS] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 };

void rg_agent_signal(struct rg_agent *agent, int signo, enum rg_signal_way way)
{
    bool is_new = true, waits = rg_timer_active(&agent->late.timer);
    bool slurms = signo == SIGTERM || signo == SIGUSR1 || signo == SIGUSR2;

    for (size_t i = 0; i < RG_AGENT_SIGNALS; i++) {
        if (rg_agent_signals[i] == signo)
            is_new = rg_heard_note(&agent->heard[i], way, signo == SIGTERM || signo == SIGINT,
                                   rg_now_ns());
    }
    if (way == RG_WAY_DIRECT && waits && agent->late.signo == signo)
        rg_timer_stop(&agent->late.timer);
    if (way == RG_WAY_DIRECT)
        note_signalled(agent, signo);
    if (!is_new || way == RG_WAY_DIRECT)
        return;
    if (waits)
        on_late(agent);
    agent->late.signo = signo;
    if (agent->boot.tracked && slurms)
        rg_timer_start(&agent->late.timer, agent->loop, RG_SIGNAL_WAIT_MS, 0, on_late, agent);
    else
        rg_agent_deliver(agent, signo);
}

void rg_agent_pause(struct rg_agent *agent, bool pause)
{
    agent->lease.paused = pause;
    agent->lease.silent_ms = 0;
    send_signal(agent, pause ? SIGSTOP : SIGCONT);
    rg_remotes_signal(agent, pause ? SIGSTOP : SIGCONT);
}

/* --- ends ------------------------------------------------------------------------------------- */

/* A shell, mpirun or another program between us and the process that was killed makes an exit code
 * of it, 137 or any other but 0. */
static bool was_oom(struct rg_task *task, int status)
{
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    bool failed = WIFEXITED(status) && WEXITSTATUS(status) != 0 && task->cut_by == RG_MSG_NO_RANK;

    return (killed || failed) && task->signalled != SIGKILL &&
           rg_oom_happened(&task->agent->reaper.oom);
}

/* Of a process whose end no rank's explains: a rank goes on without it, or it belonged to an mpirun
 * on another host. */
static void tell_oom(struct rg_agent *agent)
{
    char limit[RG_OOM_TEXT_MAX];

    if (!agent->setup.host || !rg_oom_happened(&agent->reaper.oom))
        return;
    rg_oom_limit(&agent->reaper.oom, limit, sizeof(limit));
    rg_agent_note(agent, "host %s: a process was killed because memory ran out (%s)",
                  agent->setup.host, limit);
}

static void task_ended(struct rg_task *task, int status)
{
    struct rg_agent *agent = task->agent;
    char limit[RG_OOM_TEXT_MAX] = "", sshd_host[RG_JOBDIR_HOST_MAX + 1] = "";
    struct rg_msg_exited msg = {
        .rank = task->spec.rank,
        .status = status,
        .sshd_host = sshd_host,
        .sshd_port = agent->setup.resident && status
                         ? rg_jobdir_sshd_failed(&agent->jobdir, sshd_host) : 0,
        .oom = was_oom(task, status),
        .signalled = task->signalled,
        .memory = limit,
    };

    if (msg.oom)
        rg_oom_limit(&agent->reaper.oom, limit, sizeof(limit));
    task->ended = true;
    rg_task_input_close(task);
    /* First what its runtime still said, then the news to its peers, then the launcher's. */
    rg_rankserver_ended(agent->server, task, status);
    msg.in_runtime = task->in_runtime;
    msg.cut_by = task->cut_by;
    /* Why it has failed is in its last words. */
    rg_pump_catch_up(&task->pumps[0]);
    rg_pump_catch_up(&task->pumps[1]);
    rg_agent_send(agent, RG_MSG_EXITED, &msg);
    rg_agent_input_flow(agent);
}

static bool all_ended(const struct rg_agent *agent)
{
    for (size_t i = 0; i < agent->ntasks; i++) {
        if (agent->tasks[i]->pid && !agent->tasks[i]->ended)
            return false;
    }
    return true;
}

static void child_ended(void *arg, pid_t pid, int status)
{
    struct rg_agent *agent = arg;

    for (size_t i = 0; i < agent->ntasks; i++) {
        struct rg_task *task = agent->tasks[i];
        if (task->pid == pid && !task->ended) {
            task_ended(task, status);
            break;
        }
    }
    rg_remote_child_ended(agent, pid, status);
    agent->advance(agent);
}

void rg_reaper_start(struct rg_agent *agent)
{
    rg_oom_init(&agent->reaper.oom, "/proc/self/cgroup", "/sys/fs/cgroup");
    rg_child_start(&agent->reaper.child, agent->loop, 0, child_ended, agent);
}

void rg_reaper_stop(struct rg_agent *agent)
{
    rg_timer_stop(&agent->reaper.timer);
    rg_child_stop(&agent->reaper.child);
}

static void sweep_due(void *arg)
{
    rg_agent_sweep(arg);
}

void rg_agent_sweep(struct rg_agent *agent)
{
    struct rg_reaper *reaper = &agent->reaper;

    if (agent->state == RG_AGENT_RUNNING && all_ended(agent) && !rg_remotes_hold(agent)) {
        agent->state = RG_AGENT_SWEEPING;
        reaper->deadline_ns = rg_now_ns() + RG_AGENT_SWEEP_LIMIT_S * RG_NS_PER_S;
    }
    if (agent->state != RG_AGENT_SWEEPING)
        return;
    if (!rg_process_has_children()) {
        agent->state = RG_AGENT_GONE;
    } else {
        reaper->nleft = (uint32_t) rg_agent_kill(agent);
        if (rg_now_ns() >= reaper->deadline_ns)
            agent->state = RG_AGENT_GONE;
    }
    if (agent->state == RG_AGENT_SWEEPING) {
        if (!rg_timer_active(&reaper->timer))
            rg_timer_start(&reaper->timer, agent->loop, SWEEP_MS, SWEEP_MS, sweep_due, agent);
        return;
    }
    rg_timer_stop(&reaper->timer);
    tell_oom(agent);
    if (!rg_process_has_children())
        reaper->nleft = 0;
    rg_agent_pump(agent);
}
