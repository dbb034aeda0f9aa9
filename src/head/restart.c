/* SPDX-License-Identifier: Apache-2.0 */
/* This decides whether a failed job is started again, and what the user is told of it. */
#include "head/restart.h"

#include <string.h>

#include "base/say.h"
#include "base/str.h"
#include "base/time.h"
#include "base/exitcode.h"

static int set(struct rg_strv *env, const char *name, int value)
{
    rg_env_unset(env, name);
    return rg_strv_addf(env, "%s=%d", name, value);
}

static uint64_t spent_ms(const struct rg_restart *restart)
{
    return (rg_now_ns() - restart->since_ns) / RG_NS_PER_MS;
}

/* What was lost is not replaced at once. */
static void prolong_start(struct rg_restart *restart, struct rg_job *job)
{
    if (!restart->lost_only || !job->start_timeout_ms)
        return;
    if (!restart->start_ms)
        restart->start_ms = job->start_timeout_ms;
    job->start_timeout_ms = restart->start_ms + restart->lost_only(restart->before +
                                                                   restart->count);
}

int rg_restart_prepare(struct rg_restart *restart, struct rg_job *job)
{
    if (!job->max_restarts)
        return 0;
    prolong_start(restart, job);
    if (!restart->since_ns) {
        restart->since_ns = rg_now_ns();
        restart->timeout_ms = job->timeout_ms;
    } else if (restart->timeout_ms) {
        uint64_t spent = spent_ms(restart);
        job->timeout_ms = spent < restart->timeout_ms ? restart->timeout_ms - spent : 1;
    }
    int n = restart->before + restart->count;
    int rc = set(&job->env, RG_RESTART_VARIABLE, n);

    rc = rc < 0 ? rc : set(&job->env, RG_RESTART_TORCH, n);
    return rc < 0 ? rc : set(&job->env, RG_RESTART_TORCH_MAX, job->max_restarts);
}

static bool may_go_better(const struct rg_restart *restart, const struct rg_verdict *verdict)
{
    if (verdict->ok)
        return false;
    if (restart->lost_only)
        return verdict->exit_code == RG_EXIT_PREEMPTED || verdict->exit_code == RG_EXIT_HOST_LOST;
    if (verdict->first)
        return verdict->first->end == RG_END_EXIT || verdict->first->end == RG_END_SIGNAL ||
               verdict->first->end == RG_END_LOST;
    return verdict->exit_code == RG_EXIT_HOST_LOST;
}

/* Whether this attempt failed as the one before did. */
static bool is_vain(struct rg_restart *restart, const struct rg_job *job,
                    const struct rg_verdict *verdict)
{
    struct rg_failure *before = &restart->failures[0], *now = &restart->failures[1];

    if (restart->count)
        *before = *now;
    *now = verdict->failure ? *verdict->failure
                            : (struct rg_failure){ .kind = RG_FAILURE_UNKNOWN };
    return restart->count && !job->restart_always && rg_failure_is_vain(before, now);
}

const struct rg_failure *rg_restart_twice(const struct rg_restart *restart)
{
    return restart->vain ? restart->failures : NULL;
}

bool rg_restart_wanted(struct rg_restart *restart, const struct rg_job *job,
                       const struct rg_verdict *verdict)
{
    if (!job->max_restarts)
        return false;
    /* As the verdict has it. */
    uint64_t after_ns = verdict->first ? verdict->first->at_ns : verdict->elapsed_ns;

    /* Without memory for the words the list lacks one of them. */
    if (!verdict->ok)
        rg_strv_addf(&restart->causes, "%s, after %.1f s", verdict->cause,
                     (double) after_ns / 1e9);
    if (restart->stopped || !may_go_better(restart, verdict) ||
        restart->before + restart->count >= job->max_restarts ||
        (restart->timeout_ms && spent_ms(restart) >= restart->timeout_ms))
        return false;
    restart->vain = is_vain(restart, job, verdict);
    if (restart->vain)
        return false;
    restart->count++;
    return true;
}

void rg_restart_print_next(const struct rg_restart *restart, const struct rg_job *job,
                           struct rg_buf *text)
{
    rg_buf_printf(text, "reigen: the job is started again: restart %d of %d\n",
                  restart->before + restart->count, job->max_restarts);
}

void rg_restart_print_all(const struct rg_restart *restart, bool ok, struct rg_buf *text)
{
    const struct rg_strv *causes = &restart->causes;
    const char *plural = restart->count == 1 ? "" : "s";

    if (!restart->count || (restart->vain && restart->count == 1)) /* both have been told */
        return;
    rg_shown_printf(text, ok ? "reigen: the job ended well after %d restart%s; what had failed:\n"
                           : "reigen: the job was started again %d time%s; what failed each "
                             "time:\n",
                    restart->count, plural);
    for (size_t i = 0; i < causes->count; i++)
        rg_shown_printf(text, "  %zu. %s\n", i + 1, causes->v[i]);
}

void rg_restart_fini(struct rg_restart *restart)
{
    rg_strv_fini(&restart->causes);
}
