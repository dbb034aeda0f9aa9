/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation that a job is to run in: the one that we are in, or one that is asked for. What is
 * known of it is asked of Slurm's programs then. */
#include "base/exitcode.h"
#include "platform/slurm/internal.h"
#include "job/slurm.h"

struct slurm_held {
    struct rg_acquire_options o;
    struct slurm_salloc *salloc; /* NULL: we were in one */
    struct rg_timer timer;
    struct slurm_question question;
    struct rg_slurm_allocation allocation;
    struct slurm_facts facts;
};

/* --- what is known of it ---------------------------------------------------------------------- */

static void ask_next(struct slurm_held *held);

static void on_fact(void *arg, char *text)
{
    struct slurm_held *held = arg;

    slurm_facts_take(&held->facts, text);
    ask_next(held);
}

static void ask_next(struct slurm_held *held)
{
    char *const *argv;

    while ((argv = slurm_facts_next(&held->facts))) {
        if (slurm_question_start(&held->question, held->o.loop, argv, on_fact, held) == 0)
            return;
        slurm_facts_take(&held->facts, NULL);
    }
    held->o.on_done(held->o.arg, NULL);
}

/* We are in the allocation, by our environment. */
static void be_there(void *arg)
{
    struct slurm_held *held = arg;
    const struct rg_strv env = rg_slurm_environment();
    struct rg_error err = RG_ERROR_INIT;

    held->facts = (struct slurm_facts){
        .env = env, .allocation = &held->allocation,
        .scope = rg_slurm_in_step(&env) ? RG_SLURM_STEP : RG_SLURM_JOB,
        .wants_config = true,
    };
    if (rg_slurm_allocation_read(&env, held->facts.scope, &held->allocation, &err) == 0) {
        ask_next(held);
        return;
    }
    if (!err.exit_code)
        err.exit_code = RG_EXIT_UNAVAILABLE;
    held->o.on_done(held->o.arg, &err);
}

const struct rg_slurm_allocation *slurm_held_allocation(const struct slurm_held *held,
                                                        enum rg_slurm_scope *ret_scope)
{
    *ret_scope = held->facts.scope;
    return &held->allocation;
}

uint64_t slurm_held_notice_ms(const struct slurm_held *held)
{
    return rg_job_notice_ms((uint64_t) held->facts.kill_wait_s);
}

int slurm_held_read_whole(const struct slurm_held *held,
                          struct rg_slurm_allocation *ret_allocation, struct rg_error *err)
{
    const struct rg_strv env = rg_slurm_environment();
    int r = rg_slurm_allocation_read(&env, held->facts.scope, ret_allocation, err);

    if (r == 0 && held->facts.details)
        rg_slurm_spread_gpus(ret_allocation, held->facts.details);
    return r;
}

/* --- from the request to its return ----------------------------------------------------------- */

#ifndef RG_AGENT
static void on_got(void *arg, const struct rg_error *err)
{
    struct slurm_held *held = arg;

    if (err)
        held->o.on_done(held->o.arg, err);
    else
        be_there(held);
}
#endif

int slurm_acquire(const struct rg_acquire_options *options, void **ret_held, struct rg_error *err)
{
    const struct rg_strv env = rg_slurm_environment();
    struct slurm_held *held;
    int r = 0;

    if (options->job->dry_run && !rg_slurm_in_job(&env))
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "--dry-run: only in an allocation is known which nodes the ranks "
                                 "are to have, and none is asked for now; run it in one (salloc "
                                 "-N 2), or with --on local");
    held = calloc(1, sizeof(*held));
    if (!held)
        return rg_error_set(err, ENOMEM, "out of memory");
    held->o = *options;
    if (rg_slurm_in_job(&env)) {
        rg_timer_start(&held->timer, options->loop, 0, 0, be_there, held);
    } else {
#ifdef RG_AGENT /* a head that Slurm has started is in one */
        r = rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                              "this is no allocation of Slurm's; reigen head asks for one");
#else
        r = slurm_salloc_start(&held->o, on_got, held, &held->salloc, err);
#endif
    }
    if (r < 0)
        slurm_release(held);
    else
        *ret_held = held;
    return r;
}

void slurm_release(void *state)
{
    struct slurm_held *held = state;

    rg_timer_stop(&held->timer);
    slurm_question_stop(&held->question);
#ifndef RG_AGENT
    if (held->salloc)
        slurm_salloc_end(held->salloc);
#endif
    rg_slurm_allocation_fini(&held->allocation);
    free(held->facts.details);
    free(held);
}
