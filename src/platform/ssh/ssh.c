/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: which hosts there are, and how many are being connected at once. */
#include "platform/ssh/door.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/local/door.h"
#include "platform/ssh/internal.h"

/* --- discovery -------------------------------------------------------------------------------- */

static bool is_here(const char *name, const char *user)
{
    const char *own = getenv("USER");

    if (!rg_local_is_here(name))
        return false;
    return !user || (own && strcmp(user, own) == 0);
}

static int discover(void *held, struct rg_job *job, struct rg_error *err)
{
    bool only_here = rg_platform_of(job)->here; /* --on local, with an image */

    /* One host that is this computer is used as without ssh; else a host without a number has one
     * slot, as with Open MPI: nobody has counted its cores. */
    if (!job->nhosts || only_here ||
        (job->nhosts == 1 && is_here(job->hosts[0].name, job->hosts[0].user)))
        return rg_driver_local.discover(held, job, err);
    for (size_t i = 0; i < job->nhosts; i++) {
        if (!job->hosts[i].nslots)
            job->hosts[i].nslots = 1;
    }
    return 0;
}

/* --- start ------------------------------------------------------------------------------------ */

static int make_host(struct ssh *ssh, int i)
{
    const struct rg_plan_host *host = &ssh->shared.o.plan->hosts[i];

    ssh->hosts[i] = ssh_host_create(ssh, i, is_here(host->name, host->user));
    return ssh->hosts[i] ? 0 : -ENOMEM;
}

static int prepare(struct ssh *ssh, const struct rg_driver_options *options, struct rg_error *err)
{
    const struct rg_plan *plan = options->plan;
    bool some_remote = false;

    ssh->hosts = calloc((size_t) plan->room_hosts, sizeof(struct ssh_host *));
    if (!ssh->hosts)
        return rg_error_set(err, ENOMEM, "no memory for %d hosts", plan->nhosts);
    for (int i = 0; i < plan->nhosts; i++) {
        if (make_host(ssh, i) < 0)
            return rg_error_set(err, ENOMEM, "no memory for %d hosts", plan->nhosts);
        some_remote |= !ssh_host_is_direct(ssh->hosts[i]);
    }
    some_remote |= plan->room_hosts > plan->nhosts; /* any may come */
    ssh->exec = rg_env_get(&options->job->settings, RG_JOB_EXEC);
    if (rg_leftover_init(&ssh->leftover, options->job, plan, &ssh->env) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    if (some_remote && !ssh_config_says(&options->job->ssh_options, "ConnectTimeout"))
        ssh->connect_s = RG_SSH_CONNECT_S;
    ssh->accepts_new = some_remote && options->job->hosts_come &&
                       !ssh_config_says(&options->job->ssh_options, "StrictHostKeyChecking");
    ssh->forgets = ssh->accepts_new && options->job->hosts_come == RG_HOSTS_RETURN &&
                   !ssh_config_says(&options->job->ssh_options, "UserKnownHostsFile");
    return rg_dialogue_shared_init(&ssh->shared, options, some_remote, err);
}

static void destroy(void *state)
{
    struct ssh *ssh = state;
    bool some = false;

    ssh->next = ssh->shared.o.plan->nhosts;
    for (int i = 0; ssh->hosts && i < ssh->shared.o.plan->nhosts; i++)
        some |= ssh_host_destroy(ssh->hosts[i]);
    if (some)
        rg_leftover_end(&ssh->leftover);
    rg_leftover_fini(&ssh->leftover);
    rg_dialogue_shared_fini(&ssh->shared);
    rg_strv_fini(&ssh->env);
    free(ssh->hosts);
    free(ssh);
}

static int start(const struct rg_driver_options *options, void **ret_state, struct rg_error *err)
{
    struct ssh *ssh = calloc(1, sizeof(*ssh));

    if (!ssh)
        return rg_error_set(err, ENOMEM, "out of memory");
    ssh->shared.o = *options;
    int r = prepare(ssh, options, err);
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

/* What is there is a queue already: the window goes on with the plan's next host. */
static int add(void *state, int host, struct rg_error *err)
{
    struct ssh *ssh = state;
    const struct rg_driver_options *options = &ssh->shared.o;

    if (make_host(ssh, host) < 0)
        return rg_error_memory(err);
    options->events->on_phase(options->arg, host, RG_PHASE_PENDING, "waiting for its turn");
    ssh_advance(ssh);
    return 0;
}

#ifndef RG_AGENT
/* Who has named hosts once may well mean them where a job says nothing. */
static bool remark(const struct rg_job *job, char *buf, size_t nbytes)
{
    const char *hosts = getenv("REIGEN_HOSTS");

    if (job->on || job->nhosts || job->elastic.discovery || !hosts || !*hosts ||
        getenv("REIGEN_RANK"))
        return false;
    snprintf(buf, nbytes, "REIGEN_HOSTS is set, and this job does not use it: --on ssh runs it on "
             "the hosts that it names, --on local here");
    return true;
}
#endif

const struct rg_driver_ops rg_driver_ssh = {
    .platform = {
        .name = "ssh", .title = "ssh", .about = ", hosts of -H, --hostfile or REIGEN_HOSTS",
        .launchers = "ssh rsh pdsh pdsh-ssh",
        .any_host = true, .contains = true, .elastic = true,
    },
    .discover = discover,
    .start = start,
    .add = add,
    .said = ssh_said,
    .stop = ssh_stop,
    .destroy = destroy,
    .remark = RG_LAUNCHER_ONLY(remark),
};
