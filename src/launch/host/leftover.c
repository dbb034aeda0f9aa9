/* SPDX-License-Identifier: Apache-2.0 */
/* An agent that was killed cannot clear up: what it had started falls to the next subreaper above,
 * which is us. */
#include "launch/host/leftover.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "base/process/proctree.h"
#include "base/time.h"
#include "launch/host/agentfile.h"

#define REPEAT_MS 10 /* between looks */
#define LIMIT_MS 3000
#define GRACE_MS 300 /* an agent whose guard was killed hears of that, and clears up itself */
#define MARK "REIGEN_JOB_ID"

int rg_leftover_init(struct rg_leftover *leftover, const struct rg_job *job,
                     const struct rg_plan *plan, struct rg_strv *env)
{
    leftover->plan = plan;
    leftover->spared = calloc((size_t) plan->room_hosts, sizeof(*leftover->spared));
    leftover->had_children = rg_process_has_children();
    snprintf(leftover->job_entry, sizeof(leftover->job_entry), MARK "=%s", plan->job_id);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (!leftover->spared || rg_agent_env_make(job, NULL, env) < 0)
        return -ENOMEM;
    return rg_env_set(env, MARK, plan->job_id);
}

void rg_leftover_fini(struct rg_leftover *leftover)
{
    free(rg_steal_ptr(&leftover->spared));
}

static bool is_spared(const struct rg_leftover *leftover, pid_t pid)
{
    for (int i = 0; i < leftover->plan->nhosts; i++) {
        if (leftover->spared[i] == pid)
            return true;
    }
    return false;
}

/* The list has parents before children, so one pass marks whole trees. */
static bool is_kept(const struct rg_process *list, const bool *kept, size_t before, pid_t parent)
{
    for (size_t i = before; i-- > 0;) {
        if (list[i].pid == parent)
            return kept[i];
    }
    /* Below a process that is just going: it will be ours, or its reaper's, at the next look. */
    return parent != getpid();
}

/* Take what is spared, and what descends from it, out of the list. Returns its new length. */
static size_t spare(const struct rg_leftover *leftover, struct rg_process *list, size_t count)
{
    rg_autofree bool *kept = calloc(count + 1, sizeof(*kept));
    size_t nleft = 0;

    if (!kept)
        return 0;
    for (size_t i = 0; i < count; i++)
        kept[i] = is_spared(leftover, list[i].pid) || is_kept(list, kept, i, list[i].parent);
    for (size_t i = 0; i < count; i++) {
        if (!kept[i])
            list[nleft++] = list[i];
    }
    return nleft;
}

/* Kill them, or only look. How many processes there were. Children go before their parents, and so
 * an agent last: should we be killed meanwhile, it is still there to clear up. */
static size_t kill_all(const struct rg_leftover *leftover, bool look_only)
{
    rg_autofree struct rg_process *list = NULL;
    size_t count = 0, nkilled = 0;

    if (!rg_process_has_children() || rg_proctree_descendants(getpid(), &list, &count) < 0)
        return 0;
    count = spare(leftover, list, count);
    for (size_t i = count; i-- > 0;) {
        if (leftover->had_children && !rg_process_has_env(list[i].pid, leftover->job_entry))
            continue;
        if (!look_only)
            kill(list[i].pid, SIGKILL);
        nkilled++;
    }
    return nkilled;
}

static void look(void *arg)
{
    struct rg_sweep *sweep = arg;
    uint64_t now_ns = rg_now_ns();
    bool look_only = now_ns + (LIMIT_MS - GRACE_MS) * RG_NS_PER_MS < sweep->deadline_ns;

    if (kill_all(sweep->leftover, look_only) > 0 && now_ns < sweep->deadline_ns)
        return;
    rg_timer_stop(&sweep->timer);
    sweep->done(sweep->arg);
}

void rg_sweep_start(struct rg_sweep *sweep, const struct rg_leftover *leftover,
                    struct rg_loop *loop, void (*done)(void *arg), void *arg)
{
    sweep->leftover = leftover;
    sweep->deadline_ns = rg_now_ns() + LIMIT_MS * RG_NS_PER_MS;
    sweep->done = done;
    sweep->arg = arg;
    rg_timer_start(&sweep->timer, loop, REPEAT_MS, REPEAT_MS, look, sweep);
    look(sweep);
}

void rg_leftover_end(const struct rg_leftover *leftover)
{
    uint64_t deadline_ns = rg_now_ns() + LIMIT_MS * RG_NS_PER_MS;

    while (kill_all(leftover, false) && rg_now_ns() < deadline_ns)
        rg_sleep_ms(2);
}
