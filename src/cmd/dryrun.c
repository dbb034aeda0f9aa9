/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/dryrun.h"

#include <string.h>

#include "container/runtime.h"
#include "spec/engine.h"

void rg_shell_quote(struct rg_buf *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:,@%+";

    if (*word && word[strspn(word, plain)] == '\0') {
        rg_buf_printf(text, "%s", word);
        return;
    }
    rg_buf_put(text, "'", 1);
    for (const char *p = word; *p; p++) {
        if (*p == '\'')
            rg_buf_put(text, "'\\''", 4);
        else
            rg_buf_put(text, p, 1);
    }
    rg_buf_put(text, "'", 1);
}

static void put_assignment(struct rg_buf *text, const char *entry)
{
    size_t n = strcspn(entry, "=");

    rg_buf_printf(text, " %.*s=", (int) n, entry);
    rg_shell_quote(text, entry + n + 1);
}

/* The caller's own environment is what the ranks have otherwise. */
static int base_env(struct rg_strv *base)
{
    extern char **environ;

    return rg_strv_add_all(base, environ);
}

/* What the agent puts in front of the command where it puts mpirun's line together; how that
 * program is called on the host is found out there. */
static int print_engine(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text)
{
    rg_autostrv struct rg_strv options = RG_STRV_INIT;

    if (job->engine != RG_ENGINE_OPENMPI && job->engine != RG_ENGINE_HYDRA)
        return 0;
    if (rg_job_engine_options(job, &options) < 0)
        return -ENOMEM;
    rg_buf_printf(text, " %s %d",
                  job->engine == RG_ENGINE_OPENMPI ? "mpirun -np" : "mpiexec.hydra -n", plan->np);
    for (size_t i = 0; i < options.count; i++) {
        rg_buf_printf(text, " ");
        rg_shell_quote(text, options.v[i]);
    }
    return 0;
}

static int print_rank(const struct rg_plan *plan, const struct rg_job *job, int rank,
                      const struct rg_strv *base, struct rg_buf *text)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    if (rg_plan_rank_env(plan, job, rank, base, &env) < 0)
        return -ENOMEM;
    const char *host = plan->hosts[plan->ranks[rank].host].name;

    if (plan->engine)
        rg_buf_printf(text, "# %s on %s, with hostlist and the variables of docs/mpi.md\n",
                      plan->engine, host);
    else
        rg_buf_printf(text, "# rank %d on %s\n", rank, host);
    rg_buf_printf(text, "env");
    for (size_t i = 0; i < env.count; i++)
        put_assignment(text, env.v[i]);
    for (size_t i = 0; i < job->env.count; i++) {
        if (strchr(job->env.v[i], '='))
            put_assignment(text, job->env.v[i]);
    }
    for (size_t i = 0; i < job->share_env.count; i++)
        rg_buf_printf(text, " %s=\"$%s\"", job->share_env.v[i], job->share_env.v[i]);
    rg_buf_printf(text, " \\\n   ");
    if (print_engine(plan, job, text) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < job->command.count; i++) {
        rg_buf_printf(text, " ");
        rg_shell_quote(text, job->command.v[i]);
    }
    rg_buf_printf(text, " &\n");
    return 0;
}

static void print_map(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text)
{
    rg_autobuf struct rg_buf map = RG_BUF_INIT;

    rg_plan_print(plan, job, &map);
    const char *line = rg_buf_text(&map);

    for (size_t n; *line; line += n + (line[n] == '\n')) {
        n = strcspn(line, "\n");
        rg_buf_printf(text, "# %.*s\n", (int) n, line);
    }
}

/* The command line that makes a host's container, as far as it is known here: what depends on the
 * host stands for the caller's. */
static int print_container(const struct rg_plan *plan, const struct rg_job *job, int host,
                           struct rg_buf *text, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    rg_autofree char *name = rg_strf("reigen-%s-%d", plan->job_id, host);
    const char *runtime = job->container.runtime ? job->container.runtime : "docker";
    const struct rg_container_ops *ops = rg_container_find(runtime);
    struct rg_container container = job->container;
    bool own = geteuid() != 0 && !container.user; /* root, and another user: the image's files */
    const struct rg_container_host facts = {
        .program = runtime, .name = name, .job_id = plan->job_id, .uid = geteuid(),
        .gid = getegid(), .user_name = getenv("USER"), .home = own ? getenv("HOME") : NULL,
        .cwd = container.place.cwd, .bin_dir = "/JOB/bin", .run_dir = "/JOB/run",
        .passwd = own ? "/JOB/passwd" : NULL, .group = own ? "/JOB/group" : NULL,
        .shm_nbytes = (uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE) / 2,
        .kit_dir = container.place.kit_digest ? "/KIT" : NULL,
        .infiniband = container.ibdevices, .image_dir = "/IMAGES",
    };

    container.place.one_host = plan->nhosts == 1;
    int r = name && ops ? ops->run(&container, &facts, &argv, err) : -ENOMEM;
    if (r < 0)
        return r;
    rg_buf_printf(text, "# container on %s:", plan->hosts[host].name);
    for (size_t i = 0; i < argv.count; i++) {
        rg_buf_printf(text, " ");
        rg_shell_quote(text, argv.v[i]);
    }
    rg_buf_printf(text, "\n");
    return 0;
}

int rg_dryrun_print(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text,
                    struct rg_error *err)
{
    rg_autostrv struct rg_strv base = RG_STRV_INIT;
    int rc = base_env(&base);

    rg_buf_printf(text, "#!/bin/sh\n");
    print_map(plan, job, text);
    bool ours = job->container.image && !rg_container_by_slurm(&job->container);
    for (int h = 0; rc == 0 && ours && h < plan->nhosts; h++)
        rc = print_container(plan, job, h, text, err);
    if (job->cwd) {
        rg_buf_printf(text, "cd ");
        rg_shell_quote(text, job->cwd);
        rg_buf_printf(text, " || exit\n");
    }
    for (int r = 0; rc == 0 && r < plan->nranks; r++)
        rc = print_rank(plan, job, r, &base, text);
    rg_buf_printf(text, "wait\n");
    rc = rc < 0 ? rc : rg_buf_status(text);
    return rc == -ENOMEM ? rg_error_set(err, ENOMEM, "out of memory") : rc;
}
