/* SPDX-License-Identifier: Apache-2.0 */
/* Programs written for other launchers find here the variables that they look for. */
#include <string.h>

#include "launch/plan/plan.h"
#include "job/engine.h"
#include "job/hostlist.h"

/* Whoever gives one of these a value with --env means it. */
static bool user_sets(const struct rg_job *job, const char *name)
{
    return rg_env_get(&job->env, name) != NULL;
}

const char *rg_plan_address(const struct rg_plan *plan, int host)
{
    const char *name = plan->hosts[host].name;

    if (plan->hosts[host].address)
        return plan->hosts[host].address;
    return plan->nhosts == 1 || rg_host_is_local(name) ? "127.0.0.1" : name;
}

static struct rg_plan_seat seat_of(const struct rg_plan *plan, const struct rg_plan_rank *r)
{
    return (struct rg_plan_seat){
        .rank = r->rank, .size = plan->nranks, .local_rank = r->local_rank,
        .local_size = r->local_size, .cross_rank = r->cross_rank, .cross_size = r->cross_size,
        .group = r->host, .first_host = plan->ranks[0].host,
    };
}

static int add_coordinates(const struct rg_plan *plan, const struct rg_plan_rank *r,
                           const struct rg_plan_seat *seat, struct rg_strv *env)
{
    const struct { const char *name; int value; } numbers[] = {
        { "REIGEN_RANK", seat->rank }, { "REIGEN_SIZE", seat->size },
        { "REIGEN_LOCAL_RANK", seat->local_rank }, { "REIGEN_LOCAL_SIZE", seat->local_size },
        { "REIGEN_CROSS_RANK", seat->cross_rank }, { "REIGEN_CROSS_SIZE", seat->cross_size },
        { "HOROVOD_RANK", seat->rank }, { "HOROVOD_SIZE", seat->size },
        { "HOROVOD_LOCAL_RANK", seat->local_rank }, { "HOROVOD_LOCAL_SIZE", seat->local_size },
        { "HOROVOD_CROSS_RANK", seat->cross_rank }, { "HOROVOD_CROSS_SIZE", seat->cross_size },
        { "RANK", seat->rank }, { "WORLD_SIZE", seat->size },
        { "LOCAL_RANK", seat->local_rank }, { "LOCAL_WORLD_SIZE", seat->local_size },
        { "GROUP_RANK", seat->group }, { "ROLE_RANK", seat->rank },
        { "ROLE_WORLD_SIZE", seat->size },
    };

    for (size_t i = 0; i < rg_array_len(numbers); i++) {
        if (rg_strv_addf(env, "%s=%d", numbers[i].name, numbers[i].value) < 0)
            return -ENOMEM;
    }
    const char *host = plan->hosts[r->host].name;

    return rg_strv_addf(env, "REIGEN_JOB_ID=%s", plan->job_id) < 0 ||
           rg_strv_addf(env, "REIGEN_HOSTNAME=%s", host) < 0 ||
           rg_strv_addf(env, "HOROVOD_HOSTNAME=%s", host) < 0 ? -ENOMEM : 0;
}

/* The cluster as tf.distribute reads it: all ranks are workers. */
static int add_tf_config(const struct rg_plan *plan, const struct rg_plan_rank *r,
                         struct rg_strv *env)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_buf_printf(&text, "{\"cluster\": {\"worker\": [");
    for (int i = 0; i < plan->nranks; i++)
        rg_buf_printf(&text, "%s\"%s:%d\"", i ? ", " : "",
                      rg_plan_address(plan, plan->ranks[i].host), plan->tf_ports[i]);
    rg_buf_printf(&text, "]}, \"task\": {\"type\": \"worker\", \"index\": %d}}", r->rank);
    return rg_buf_status(&text) < 0 ? -ENOMEM
                                    : rg_strv_addf(env, "TF_CONFIG=%s", rg_buf_text(&text));
}

/* What a program can go by that is started anew, or goes on among others. */
static int add_elastic(const struct rg_plan_rank *r, const struct rg_plan_seat *seat,
                       struct rg_strv *env)
{
    if (!seat->epoch)
        return 0;
    return rg_strv_addf(env, "REIGEN_ELASTIC=1") < 0 ||
           rg_strv_addf(env, "HOROVOD_ELASTIC=1") < 0 ||
           rg_strv_addf(env, "REIGEN_PLACE=%d", r->rank) < 0 ||
           rg_strv_addf(env, "REIGEN_EPOCH=%u", seat->epoch) < 0 ||
           rg_strv_addf(env, "REIGEN_RESTART_COUNT=%u", seat->nrestarts) < 0 ||
           rg_strv_addf(env, "TORCHELASTIC_RESTART_COUNT=%u", seat->nrestarts) < 0 ? -ENOMEM : 0;
}

static int add_defaults(const struct rg_plan *plan, const struct rg_job *job,
                        const struct rg_plan_rank *r, int first_host, const struct rg_strv *base,
                        struct rg_strv *env)
{
    int ncores = plan->hosts[r->host].ncores;
    int threads = r->ncpus && r->ncpus < ncores / r->local_size ? r->ncpus
                                                               : ncores / r->local_size;
    int rc = 0;

    if (!user_sets(job, "MASTER_ADDR"))
        rc = rg_strv_addf(env, "MASTER_ADDR=%s", rg_plan_address(plan, first_host));
    if (rc == 0 && !user_sets(job, "MASTER_PORT"))
        rc = rg_strv_addf(env, "MASTER_PORT=%d", plan->master_port);
    /* Not under an engine, which would mix the ranks' pieces of lines. */
    if (rc == 0 && !user_sets(job, "PYTHONUNBUFFERED") && !plan->engine)
        rc = rg_strv_add(env, "PYTHONUNBUFFERED=1");
    if (rc == 0 && ncores && !user_sets(job, "OMP_NUM_THREADS") &&
        !(base && rg_env_get(base, "OMP_NUM_THREADS")))
        rc = rg_strv_addf(env, "OMP_NUM_THREADS=%d", threads > 0 ? threads : 1);
    if (rc == 0 && job->deadlock_ms != RG_DEADLOCK_UNSET &&
        !user_sets(job, "REIGEN_DEADLOCK_SECONDS"))
        rc = rg_strv_addf(env, "REIGEN_DEADLOCK_SECONDS=%llums",
                          (unsigned long long) job->deadlock_ms);
    if (rc == 0 && plan->tf_ports && !user_sets(job, "TF_CONFIG"))
        rc = add_tf_config(plan, r, env);
    return rc;
}

/* What an engine and all that it starts find, on every host. No coordinates: they are the engine's
 * to give, and a runtime that saw ours would take all its ranks for one. */
static int add_engine(const struct rg_plan *plan, const struct rg_job *job,
                      const struct rg_strv *base, struct rg_strv *env)
{
    struct rg_plan_rank first = plan->ranks[0];

    first.local_size = plan->hosts[0].nplanned;
    if (rg_strv_addf(env, "REIGEN_JOB_ID=%s", plan->job_id) < 0 ||
        (!user_sets(job, "np") && rg_strv_addf(env, "np=%d", plan->np) < 0))
        return -ENOMEM;
    return add_defaults(plan, job, &first, first.host, base, env);
}

int rg_plan_rank_env(const struct rg_plan *plan, const struct rg_job *job, int rank,
                     const struct rg_strv *base_env, struct rg_strv *env)
{
    if (rg_job_has_engine(job))
        return add_engine(plan, job, base_env, env);
    struct rg_plan_seat seat = seat_of(plan, &plan->ranks[rank]);

    return rg_plan_seat_env(plan, job, rank, &seat, base_env, env);
}

int rg_plan_seat_env(const struct rg_plan *plan, const struct rg_job *job, int place,
                     const struct rg_plan_seat *seat, const struct rg_strv *base_env,
                     struct rg_strv *env)
{
    const struct rg_plan_rank *r = &plan->ranks[place];
    int rc = add_coordinates(plan, r, seat, env);

    if (rc == 0)
        rc = add_elastic(r, seat, env);
    return rc < 0 ? rc : add_defaults(plan, job, r, seat->first_host, base_env, env);
}

static void print_set(struct rg_buf *text, const int *v, int count)
{
    for (int i = 0; i < count; i++) {
        int last = i;
        while (last + 1 < count && v[last + 1] == v[last] + 1)
            last++;
        rg_buf_printf(text, last > i ? "%s%d-%d" : "%s%d", i ? "," : "", v[i], v[last]);
        i = last;
    }
}

static void print_tasks(const struct rg_plan *plan, const struct rg_plan_host *host,
                        struct rg_buf *text)
{
    for (int i = 0; i < host->nranks; i++)
        rg_buf_printf(text, "%s%s", i ? ", " : "",
                      plan->ranks[plan->by_host[host->first_rank_index + i]].task);
}

static void print_engine_hosts(const struct rg_plan *plan, int width, struct rg_buf *text)
{
    rg_buf_printf(text, ", started by %s on %s\n  %-*s  slots  how many\n",
                  plan->engine, plan->hosts[0].name, width, "host");
    for (int h = 0; h < plan->nhosts; h++)
        rg_buf_printf(text, "  %-*s  %5d  %d\n", width, plan->hosts[h].name,
                      plan->hosts[h].nslots, plan->hosts[h].nplanned);
}

static void print_binding(const struct rg_plan *plan, const struct rg_job *job, int rank,
                          struct rg_buf *text)
{
    const struct rg_plan_rank *r = &plan->ranks[rank];
    const char *host = plan->hosts[r->host].name;

    rg_buf_printf(text, "  rank %d on %s: ", rank, host);
    if (r->cpus)
        rg_buf_printf(text, "cpus %s\n", r->cpus);
    else if (!rg_plan_knows_cpus(plan, job, r->host))
        rg_buf_printf(text, "one %s, by its local rank %d\n",
                      job->bind == RG_BIND_CORE ? "core" : "socket", r->local_rank);
    else
        rg_buf_printf(text, "not bound\n");
}

void rg_plan_print(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text)
{
    int width = 4;

    for (int h = 0; h < plan->nhosts; h++) {
        int n = (int) strlen(plan->hosts[h].name);
        width = n > width ? n : width;
    }
    const char *what = job->nroles ? "task" : "rank";
    rg_buf_printf(text, "job %s: %d %s%s on %d host%s", plan->job_id, plan->np, what,
                  plan->np == 1 ? "" : "s", plan->nhosts, plan->nhosts == 1 ? "" : "s");
    if (plan->engine) {
        print_engine_hosts(plan, width, text);
        return;
    }
    rg_buf_printf(text, "\n");
    rg_buf_printf(text, "  %-*s  slots  %ss\n", width, "host", what);
    for (int h = 0; h < plan->nhosts; h++) {
        const struct rg_plan_host *host = &plan->hosts[h];
        rg_buf_printf(text, "  %-*s  %5d  ", width, host->name, host->nslots);
        if (job->nroles)
            print_tasks(plan, host, text);
        else
            print_set(text, plan->by_host + host->first_rank_index, host->nranks);
        rg_buf_printf(text, "\n");
    }
    for (int r = 0; job->bind != RG_BIND_NONE && r < plan->nranks; r++)
        print_binding(plan, job, r, text);
}
