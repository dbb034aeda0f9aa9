/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/drivers/ssh/ssh.h"

#include <string.h>

#include "base/time.h"
#include "launch/drivers/local/local.h"
#include "launch/drivers/ssh/ssh_internal.h"
#include "base/exitcode.h"

/* Not every installation has an agent for each. */
static const char *const machines[SSH_MACHINES] = { "x86_64", "aarch64" };

/* --- discovery -------------------------------------------------------------------------------- */

static bool is_here(const char *name, const char *user)
{
    const char *own = getenv("USER");

    if (!rg_local_is_here(name))
        return false;
    return !user || (own && strcmp(user, own) == 0);
}

static int discover(struct rg_job *job, struct rg_error *err)
{
    /* One host that is this computer is used as without ssh; else a host without a number has one
     * slot, as with Open MPI: nobody has counted its cores. */
    if (!job->nhosts || (job->nhosts == 1 && is_here(job->hosts[0].name, job->hosts[0].user)))
        return rg_driver_find("local")->discover(job, err);
    for (size_t i = 0; i < job->nhosts; i++) {
        if (!job->hosts[i].nslots)
            job->hosts[i].nslots = 1;
    }
    return 0;
}

/* --- start ------------------------------------------------------------------------------------ */

/* Also called from within itself, when a host fails at once; the loop then goes on by itself. */
void ssh_advance(struct ssh *ssh)
{
    struct rg_error err = RG_ERROR_INIT;

    if (ssh->advancing)
        return;
    ssh->advancing = true;
    while (ssh->nstarting < RG_SSH_WINDOW && ssh->next < ssh->o.plan->nhosts) {
        struct ssh_host *host = &ssh->hosts[ssh->next++];
        if (host->state != SSH_QUEUED)
            continue;
        host->state = SSH_STARTING;
        ssh->nstarting++;
        if (ssh_host_start(host, &err) == 0)
            continue;
        host->err = err;
        ssh_host_stop(host);
    }
    ssh->advancing = false;
}

static int find_agents(struct ssh *ssh, bool some_remote, struct rg_error *err)
{
    struct rg_error cause = RG_ERROR_INIT;
    int nfound = 0;
    int r = rg_agent_file_find(ssh->agent_path, err);

    if (r < 0 || !some_remote)
        return r;
    if (!ssh_config_says(&ssh->o.job->ssh_options, "ConnectTimeout"))
        ssh->connect_s = RG_SSH_CONNECT_S;
    for (size_t i = 0; i < SSH_MACHINES; i++)
        nfound += rg_agent_file_load(machines[i], &ssh->agents[i], &cause) == 0;
    if (nfound == 0) {
        if (err)
            *err = cause;
        return -cause.errnum;
    }
    return 0;
}

/* Two descriptors per host soon pass the usual 1024. */
static void raise_limit(struct ssh *ssh)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &ssh->nofile);
    limit = ssh->nofile;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int prepare(struct ssh *ssh, struct rg_error *err)
{
    const struct rg_plan *plan = ssh->o.plan;
    bool some_remote = false;

    for (int i = 0; i < plan->nhosts; i++) {
        struct ssh_host *host = &ssh->hosts[i];
        host->ssh = ssh;
        host->index = i;
        host->name = plan->hosts[i].name;
        host->user = plan->hosts[i].user;
        host->direct = is_here(host->name, host->user);
        host->fd = host->err_fd = -1;
        some_remote |= !host->direct;
    }
    if (!getcwd(ssh->cwd, sizeof(ssh->cwd)))
        ssh->cwd[0] = '\0';
    raise_limit(ssh);
    rg_leftover_init(&ssh->leftover, plan->job_id);
    if (rg_agent_env_make(ssh->o.job, &ssh->env) < 0 ||
        rg_leftover_mark(&ssh->leftover, &ssh->env) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    return find_agents(ssh, some_remote, err);
}

static void destroy(void *state)
{
    struct ssh *ssh = state;
    uint64_t deadline_ns = rg_now_ns() + RG_LEFTOVER_LIMIT_MS * RG_NS_PER_MS;
    bool some = false;

    ssh->next = ssh->o.plan->nhosts;
    for (int i = 0; i < ssh->o.plan->nhosts; i++) {
        some |= ssh->hosts[i].direct && ssh->hosts[i].pid && !ssh->o.job->container.image;
        ssh_host_fini(&ssh->hosts[i]);
    }
    while (some && rg_leftover_kill(&ssh->leftover, NULL, 0) && rg_now_ns() < deadline_ns)
        rg_sleep_ms(2);
    for (size_t i = 0; i < SSH_MACHINES; i++)
        rg_agent_file_fini(&ssh->agents[i]);
    rg_strv_fini(&ssh->notes);
    rg_strv_fini(&ssh->env);
    free(ssh->hosts);
    free(ssh);
}

static int start(const struct rg_driver_options *options, void **ret_state, struct rg_error *err)
{
    struct ssh *ssh = calloc(1, sizeof(*ssh));
    struct ssh_host *hosts = calloc((size_t) options->plan->nhosts, sizeof(*hosts));

    if (!ssh || !hosts) {
        free(ssh);
        free(hosts);
        return rg_error_set(err, ENOMEM, "no memory for %d hosts", options->plan->nhosts);
    }
    ssh->o = *options;
    ssh->hosts = hosts;
    int r = prepare(ssh, err);
    if (r < 0) {
        destroy(ssh);
        return r;
    }
    *ret_state = ssh;
    for (int i = 0; i < options->plan->nhosts; i++)
        options->events->on_phase(options->arg, i, RG_PHASE_PENDING, "waiting for its turn");
    ssh_advance(ssh);
    return 0;
}

static const char *said(void *state, int host, char *buf, size_t nbytes)
{
    struct ssh *ssh = state;

    return ssh_host_said(&ssh->hosts[host], buf, nbytes);
}

static void stop(void *state, int host)
{
    struct ssh *ssh = state;

    ssh_host_stop(&ssh->hosts[host]);
}

const struct rg_driver_ops rg_driver_ssh = {
    .name = "ssh",
    .discover = discover,
    .start = start,
    .said = said,
    .stop = stop,
    .destroy = destroy,
};
