/* SPDX-License-Identifier: Apache-2.0 */
/* A job begins with what holds where the user says nothing, and ends with rules over all of it. */
#include "job/job.h"

#include <limits.h>
#include <string.h>

#include "job/engine.h"

void rg_job_init(struct rg_job *job)
{
    *job = (struct rg_job){
        .start_timeout_ms = RG_START_TIMEOUT_MS,
        .deadlock_ms = RG_DEADLOCK_UNSET,
        .grace_ms = RG_GRACE_MS,
        .lease_ms = RG_LEASE_MS,
        .elastic = { .timeout_ms = RG_ELASTIC_TIMEOUT_MS, .reset_limit = RG_ELASTIC_NO_LIMIT },
        .tag = RG_TAG_AUTO,
        .stdin_mode = RG_STDIN_RANK,
    };
}

void rg_job_fini(struct rg_job *job)
{
    if (!job)
        return;
    for (size_t i = 0; i < job->nhosts; i++) {
        free(job->hosts[i].name);
        free(job->hosts[i].user);
    }
    free(job->hosts);
    for (size_t i = 0; i < job->nroles; i++)
        rg_role_fini(&job->roles[i]);
    free(job->roles);
    free(job->title);
    free(job->elastic.discovery);
#ifndef RG_AGENT /* no plan's file has them */
    free(job->chaos);
    free(job->notify);
    free(job->metrics);
    free(job->sync);
#endif
    free(job->record);
    free(job->file_name);
    free(job->file_text);
    free(job->cwd);
    free(job->output_dir);
    free(job->on);
    free(job->ssh_identity);
    rg_container_fini(&job->container);
    rg_strv_fini(&job->settings);
    rg_strv_fini(&job->engine_options);
    rg_strv_fini(&job->ssh_options);
    rg_strv_fini(&job->network_interfaces);
    rg_strv_fini(&job->require);
    rg_strv_fini(&job->command);
    rg_strv_fini(&job->env);
    rg_strv_fini(&job->share_env);
    rg_ranks_fini(&job->show);
    *job = (struct rg_job){ 0 };
}

int rg_job_set_ports(struct rg_job *job, const char *what, const char *value, struct rg_error *err)
{
    int rc = rg_parse_ports(what, value, &job->ports, err);

    /* The ranks' runtime reads it, and from it comes what an MPI is told. */
    if (rc == 0 && rg_env_set(&job->env, RG_PORT_RANGE, value) < 0)
        rc = rg_error_memory(err);
    return rc;
}

int rg_job_take_ports(struct rg_job *job, struct rg_error *err)
{
    const char *said = getenv(RG_PORT_RANGE);

    return job->ports.first || !said || !*said
               ? 0 : rg_job_set_ports(job, RG_PORT_RANGE, said, err);
}

int rg_job_take_notice(struct rg_job *job, struct rg_error *err)
{
    const char *said = getenv(RG_POD_GRACE);
    int64_t seconds = 0;
    int rc = !job->notice_ms && said && *said
                 ? rg_parse_int(RG_POD_GRACE, said, 0, INT32_MAX, &seconds, err) : 0;

    unsetenv(RG_POD_GRACE);
    if (seconds)
        job->notice_ms = rg_job_notice_ms((uint64_t) seconds);
    return seconds ? 1 : rc;
}

/* Of a name with a colon: an interface may follow the address. */
static bool is_no_address(const char *name)
{
    size_t n = strspn(name, "abcdefABCDEF0123456789:.");

    return name[n] && name[n] != '%';
}

static int check_host_name(const char *name, struct rg_error *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:%@";
    size_t good = strspn(name, allowed);

    if (!*name)
        return rg_error_set(err, EINVAL, "a host without a name; write NAME or NAME:SLOTS");
    if (strlen(name) > RG_HOST_NAME_MAX)
        return rg_error_set(err, EINVAL, "host \"%.40s...\": a host name has at most %d characters",
                            name, RG_HOST_NAME_MAX);
    if (name[good])
        return rg_error_set(
            err, EINVAL,
            "host \"%s\": character %zu cannot stand in a host name; write letters, "
            "digits, '.', '-' and '_'",
            name, good + 1);
    if (name[0] == '-')
        return rg_error_set(err, EINVAL, "host \"%s\": a host name does not begin with '-'", name);
    if (strchr(name, ':') && is_no_address(name))
        return rg_error_set(err, EINVAL, "host \"%s\": ':' stands only in IPv6 addresses and "
                            "before a number of slots; write NAME:SLOTS", name);
    return 0;
}

/* Each mention without a number is one slot as soon as there are several mentions. */
static int merge_slots(struct rg_host *host, int nslots, struct rg_error *err)
{
    int have = host->nslots ? host->nslots : 1;
    int more = nslots ? nslots : 1;

    if (have + more > RG_JOB_SLOTS_MAX)
        return rg_error_set(err, EINVAL, "host %s: %d slots in all; at most %d are possible",
                            host->name, have + more, RG_JOB_SLOTS_MAX);
    host->nslots = have + more;
    return 0;
}

/* The name in "user@name", which may stand without the user. */
static int split_user(const char *text, const char **ret_name, char **ret_user,
                      struct rg_error *err)
{
    const char *at = strchr(text, '@');

    *ret_name = at ? at + 1 : text;
    *ret_user = NULL;
    if (!at)
        return 0;
    if (at == text || text[0] == '-' || strchr(at + 1, '@'))
        return rg_error_set(err, EINVAL, "host \"%.80s\": write USER@HOST", text);
    *ret_user = strndup(text, (size_t) (at - text));
    return *ret_user ? 0 : rg_error_memory(err);
}

static int same_user(const struct rg_host *host, const char *user, struct rg_error *err)
{
    if (!user || (host->user && strcmp(host->user, user) == 0))
        return 0;
    return rg_error_set(err, EINVAL, "host %s: once as %s and once as %s; one login per host",
                        host->name, host->user ? host->user : "nobody in particular", user);
}

#define HOSTS_AT_ONCE 64

/* Where the next host goes; NULL: no memory. The array gets room for so many more whenever their
 * number is a multiple of that. Nobody adds hosts to a job that was read from a plan, whose array
 * has no room. */
static struct rg_host *next_host(struct rg_job *job)
{
    if (job->nhosts % HOSTS_AT_ONCE == 0) {
        void *more = reallocarray(job->hosts, job->nhosts + HOSTS_AT_ONCE, sizeof(*job->hosts));

        if (!more)
            return NULL;
        job->hosts = more;
    }
    return &job->hosts[job->nhosts];
}

int rg_job_add_host(struct rg_job *job, const char *text, int nslots, struct rg_error *err)
{
    rg_autofree char *user = NULL;
    const char *name;
    int rc = split_user(text, &name, &user, err);

    if (rc == 0)
        rc = check_host_name(name, err);
    if (rc < 0)
        return rc;
    if (nslots < 0 || nslots > RG_JOB_SLOTS_MAX)
        return rg_error_set(err, EINVAL, "host %s: %d slots; give 1 to %d", name, nslots,
                            RG_JOB_SLOTS_MAX);
    for (size_t i = 0; i < job->nhosts; i++) {
        if (strcmp(job->hosts[i].name, name) != 0)
            continue;
        rc = same_user(&job->hosts[i], user, err);
        return rc < 0 ? rc : merge_slots(&job->hosts[i], nslots, err);
    }
    if (job->nhosts == RG_JOB_HOSTS_MAX)
        return rg_error_set(err, E2BIG, "host %s: more than %d hosts", name, RG_JOB_HOSTS_MAX);
    struct rg_host *host = next_host(job);
    char *copy = host ? strdup(name) : NULL;

    if (!copy)
        return rg_error_memory(err);
    *host = (struct rg_host){ copy, nslots, rg_steal_ptr(&user) };
    job->nhosts++;
    return 0;
}

bool rg_job_reads(const struct rg_job *job)
{
    return job->stdin_mode == RG_STDIN_ALL ||
           (job->stdin_mode == RG_STDIN_RANK && job->stdin_rank != 0);
}

static int check_streams(const struct rg_job *job, struct rg_error *err)
{
    if (job->json && job->pty)
        return rg_error_set(err, EINVAL, "--json and --pty: events and a terminal cannot share one "
                            "output; drop one of them");
    if (job->pty && job->stdin_mode != RG_STDIN_RANK)
        return rg_error_set(err, EINVAL, "--pty gives the terminal to the rank that has standard "
                            "input: drop --stdin, or say --stdin 0");
    if (job->detach && (job->pty || rg_job_reads(job)))
        return rg_error_set(err, EINVAL, "--detach: nobody is there whose keys ranks could read; "
                            "drop %s", job->pty ? "--pty" : "--stdin, or --detach");
    if (job->np && job->stdin_mode == RG_STDIN_RANK && job->stdin_rank >= job->np)
        return rg_error_set(err, EINVAL, "--%s %d: with -np %d the ranks are 0 to %d",
                            job->pty ? "debug-rank" : "stdin", job->stdin_rank, job->np,
                            job->np - 1);
    /* An elastic job may have more ranks than it begins with. */
    for (size_t i = 0; job->np && !job->elastic.on && i < job->show.count; i++) {
        if (job->show.range[i].last >= job->np)
            return rg_error_set(err, EINVAL,
                                "--ranks: there is no rank %d; with -np %d the ranks are "
                                "0 to %d",
                                job->show.range[i].last, job->np, job->np - 1);
    }
    return 0;
}

static int check_env(const struct rg_job *job, struct rg_error *err)
{
    for (size_t i = 0; i < job->share_env.count; i++) {
        const char *name = job->share_env.v[i];
        if (rg_env_get(&job->env, name))
            return rg_error_set(err, EINVAL, "%s is in both --env and --share-env; keep one", name);
    }
    return 0;
}

static int check_roles(const struct rg_job *job, struct rg_error *err)
{
    int ntasks = rg_job_ntasks(job);

    if (job->nroles && (ntasks > RG_JOB_RANKS_MAX || (job->np && job->np != ntasks)))
        return rg_error_set(err, EINVAL, "the roles have %d tasks, and the job has %d", ntasks,
                            job->np);
    for (size_t i = 0; i < job->nroles; i++) {
        int64_t nports = rg_role_count_ports(&job->roles[i]);
        if (nports > RG_ROLE_PORTS_MAX)
            return rg_error_set(err, EINVAL, "role %s: %lld ports; at most %d", job->roles[i].name,
                                (long long) nports, RG_ROLE_PORTS_MAX);
    }
    return 0;
}

int rg_job_settings(const struct rg_job *job, const char *name, struct rg_strv *values)
{
    size_t length = strlen(name);
    int r = 0;

    for (size_t i = 0; r == 0 && i < job->settings.count; i++) {
        const char *text = job->settings.v[i];
        if (strncmp(text, name, length) == 0 && text[length] == '=')
            r = rg_strv_add(values, text + length + 1);
    }
    return r;
}

int rg_job_check(const struct rg_job *job, struct rg_error *err)
{
    if (!job->command.count)
        return rg_error_set(err, EINVAL, "no command: say what to run, for example "
                            "reigen run -np 4 -- python train.py");
    if (!job->command.v[0][0])
        return rg_error_set(err, EINVAL, "the command is the empty string; give a program's name");
    if (job->np < 0 || job->np > RG_JOB_RANKS_MAX)
        return rg_error_set(err, EINVAL, "-np %d: give 1 to %d ranks", job->np, RG_JOB_RANKS_MAX);
    int rc = check_streams(job, err);

    if (rc == 0)
        rc = check_roles(job, err);
    if (rc == 0)
        rc = rg_job_check_engine(job, err);
    return rc < 0 ? rc : check_env(job, err);
}
