/* SPDX-License-Identifier: Apache-2.0 */
/* What chance chooses is said before anything starts, so that the same can be had again. */
#include "head/chaos.h"

#include <sys/random.h>

#include "base/exitcode.h"
#include "base/say.h"
#include "base/time.h"

static uint64_t any_seed(void)
{
    uint64_t seed = rg_wall_ns();

    (void) !getrandom(&seed, sizeof(seed), GRND_NONBLOCK);
    return seed & UINT32_MAX; /* people copy it */
}

static int say_drawn(const struct rg_chaos *chaos)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_buf_printf(&text, "chaos: seed=%llu: ", (unsigned long long) chaos->seed);
    for (size_t i = 0; i < chaos->count; i++) {
        rg_buf_printf(&text, "%s", i ? "," : "");
        rg_chaos_print(&chaos->events[i], &text);
    }
    if (rg_buf_status(&text) < 0)
        return -ENOMEM;
    rg_say("%s", rg_buf_text(&text));
    return 0;
}

static int check(const struct rg_chaos *chaos, const struct rg_plan *plan, struct rg_error *err)
{
    rg_autofree const char **names = calloc((size_t) plan->nhosts + 1, sizeof(*names));

    if (!names)
        return rg_error_memory(err);
    for (int i = 0; i < plan->nhosts; i++)
        names[i] = plan->hosts[i].name;
    int r = rg_chaos_check("--chaos", chaos, plan->nranks, names, (size_t) plan->nhosts, err);

    if (r < 0)
        err->exit_code = RG_EXIT_USAGE;
    return r;
}

/* Hosts and ranks of an elastic job may come later. */
static int settle(struct rg_chaos *chaos, struct rg_planned *planned, struct rg_error *err)
{
    struct rg_job *job = &planned->job;
    rg_autobuf struct rg_buf steps = RG_BUF_INIT;
    int nranks = job->elastic.on && job->np ? job->np : planned->plan.nranks;
    int r = job->elastic.on ? 0 : check(chaos, &planned->plan, err);

    if (r < 0)
        return r;
    if (rg_chaos_is_open(chaos)) {
        chaos->seed = chaos->seeded ? chaos->seed : any_seed();
        rg_chaos_draw(chaos, nranks > 0 ? nranks : 1);
        r = planned->quiet ? 0 : say_drawn(chaos);
    }
    rg_chaos_put_variable(chaos, &steps);
    if (r == 0)
        r = rg_buf_status(&steps);
    if (r == 0 && rg_buf_nbytes(&steps))
        r = rg_env_set(&job->env, RG_CHAOS_VARIABLE, rg_buf_text(&steps));
    return r < 0 ? rg_error_memory(err) : 0;
}

int rg_head_chaos_prepare(struct rg_planned *planned, struct rg_chaos **ret_chaos,
                          struct rg_error *err)
{
    if (!planned->job.chaos)
        return 0;
    struct rg_chaos *chaos = calloc(1, sizeof(*chaos));
    int r = chaos ? rg_chaos_parse("--chaos", planned->job.chaos, chaos, err)
                  : rg_error_memory(err);

    r = r < 0 ? r : settle(chaos, planned, err);
    if (r < 0)
        free(chaos);
    else
        *ret_chaos = chaos;
    return r;
}

void rg_head_chaos_tell_idle(const struct rg_chaos *chaos, struct rg_presenter *shown)
{
    for (size_t i = 0; chaos && i < chaos->count; i++) {
        const struct rg_chaos_event *event = &chaos->events[i];
        rg_autobuf struct rg_buf text = RG_BUF_INIT;

        if (event->happened)
            continue;
        rg_buf_printf(&text, "chaos: never happened: ");
        rg_chaos_print(event, &text);
        rg_buf_printf(&text, event->missed ? " (there was no such rank or host then)"
                                           : " (the job ended before)");
        shown->ops->note(shown, -1, rg_buf_text(&text));
    }
}

void rg_head_chaos_free(struct rg_chaos *chaos)
{
    free(chaos);
}
