/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: which nodes are hosts, which srun each of them belongs to, and how hosts end. */
#include "platform/slurm/door.h"

#include <stdio.h>
#include <string.h>

#include "platform/slurm/internal.h"
#include "base/exitcode.h"
#include "base/time.h"
#include "job/slurm.h"

#define CONF_MAX (1u << 20)
#define PORTS "REIGEN_SLURM_PORTS"
#define ASK_MS 3000
#define CAUSE_MS 10000 /* from the job's end to slurmd's word for it */
#define SHOWN_MAX 8192

/* --- discovery -------------------------------------------------------------------------------- */

/* Hosts that the user named, by -H or --nodelist: they must be there. */
static int check_named(struct rg_job *job, const struct rg_slurm_allocation *allocation,
                       enum rg_slurm_scope scope, struct rg_error *err)
{
    for (size_t i = 0; i < job->nhosts; i++) {
        int node = slurm_find_node(allocation, job->hosts[i].name);
        if (node < 0)
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "host %s is not in the allocation (job %s: %s%s); name nodes "
                                     "of it, or leave the hosts out",
                                     job->hosts[i].name, allocation->job_id,
                                     allocation->nodes[0].name, allocation->nnodes > 1 ? ", ..."
                                                                                       : "");
        if (!job->hosts[i].nslots)
            job->hosts[i].nslots = rg_slurm_slots(allocation, scope, (size_t) node);
    }
    return 0;
}

/* The part of the allocation that --nodelist, --exclude and --nodes leave. */
static int add_nodes(struct rg_job *job, const struct rg_slurm_allocation *allocation,
                     enum rg_slurm_scope scope, struct rg_error *err)
{
    rg_autostrv struct rg_strv wanted = RG_STRV_INIT, excluded = RG_STRV_INIT;
    const char *nodelist = rg_env_get(&job->settings, "nodelist"),
               *exclude = rg_env_get(&job->settings, "exclude"),
               *nodes = rg_env_get(&job->settings, "nodes");
    size_t most = nodes ? strtoul(nodes, NULL, 10) : 0;
    int r = 0;

    if (nodelist)
        r = rg_slurm_nodes("--nodelist", nodelist, &wanted, err);
    if (r == 0 && exclude)
        r = rg_slurm_nodes("--exclude", exclude, &excluded, err);
    for (size_t i = 0; r == 0 && i < wanted.count; i++) {
        if (slurm_find_node(allocation, wanted.v[i]) < 0)
            r = rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                  "--nodelist %s: the allocation (job %s) has no node %s",
                                  nodelist, allocation->job_id, wanted.v[i]);
    }
    for (size_t i = 0; r == 0 && i < allocation->nnodes; i++) {
        const char *name = allocation->nodes[i].name;
        if (rg_strv_has(&excluded, name) || (nodelist && !rg_strv_has(&wanted, name)) ||
            (most && job->nhosts == most))
            continue;
        r = rg_job_add_host(job, name, rg_slurm_slots(allocation, scope, i), err);
    }
    if (r == 0 && (!job->nhosts || job->nhosts < most))
        r = rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                              "the allocation (job %s) has %zu nodes, of which %zu are left for "
                              "this; ask for fewer, or for another allocation",
                              allocation->job_id, allocation->nnodes, job->nhosts);
    return r;
}

static int discover(void *held, struct rg_job *job, struct rg_error *err)
{
    enum rg_slurm_scope scope;
    const struct rg_slurm_allocation *allocation = slurm_held_allocation(held, &scope);

#ifndef RG_AGENT /* its plan tells */
    job->notice_ms = slurm_held_notice_ms(held);
#endif
    return job->nhosts ? check_named(job, allocation, scope, err)
                       : add_nodes(job, allocation, scope, err);
}

/* --- events ----------------------------------------------------------------------------------- */

void slurm_linked(void *arg, const char *place, int take_fd)
{
    struct slurm *slurm = arg;
    rg_autoclose int fd = take_fd;

    for (int i = 0; i < slurm->shared.o.plan->nhosts; i++) {
        struct slurm_host *host = &slurm->hosts[i];
        if (strcmp(host->name, place) != 0 || host->linked || host->gone || host->stopped)
            continue;
        host->linked = true;
        int link_fd = rg_steal_fd(&fd);
        slurm->shared.o.events->on_connected(slurm->shared.o.arg, i, link_fd, link_fd);
        return;
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Its link is closed, so it ends; that it does not say so is no reason to end the others. */
static void give_up(void *arg)
{
    struct slurm_host *host = arg;

    if (!host->err.errnum)
        rg_error_set(&host->err, ETIMEDOUT, "its agent was given up by reigen");
    host->gone = true;
    slurm_tell_gone(host);
}

#define GIVE_UP_MS 3000

static const char *said(void *state, int index, char *buf, size_t nbytes)
{
    struct slurm *slurm = state;

    return rg_preamble_quote(&slurm->hosts[index].dialogue.said, buf, nbytes);
}

static void stop(void *state, int index)
{
    struct slurm *slurm = state;
    struct slurm_host *host = &slurm->hosts[index];
    bool all = true;

    if (host->gone)
        return;
    host->stopped = true;
    if (!host->err.errnum)
        rg_error_set(&host->err, ECANCELED, "it was not waited for any more");
    for (int i = 0; i < slurm->shared.o.plan->nhosts; i++) {
        const struct slurm_host *other = &slurm->hosts[i];
        all &= other->step != host->step || other->gone || other->stopped;
    }
    if ((!all || !slurm_step_end(host->step)) && !rg_timer_active(&host->timer))
        rg_timer_start(&host->timer, slurm->shared.o.loop, GIVE_UP_MS, 0, give_up, host);
}

/* Its own word for it often comes later than the signal. What Slurm starts on a node has its name
 * there; elsewhere a signal of root's is no doing of Slurm's. */
static const char *stopping(void *state, bool by_root)
{
    const struct slurm *slurm = state;

    if (by_root && !getenv("SLURMD_NODENAME"))
        return NULL;
    if (*slurm->ending)
        return slurm->ending;
    return slurm_contains(slurm->shared.o.job) && !by_root
               ? "Slurm ends it (scancel, the job's time limit, preemption, a node set down), or "
                 "somebody has stopped its container"
               : "Slurm ends it: scancel, the job's time limit, preemption, or a node set down";
}

/* --- why Slurm ended the job ------------------------------------------------------------------ */

static void ask_why(struct slurm *slurm)
{
    char *argv[] = { (char *) "scontrol", (char *) "show", (char *) "job", (char *) "--oneliner",
                     slurm->allocation.job_id, NULL };
    char shown[SHOWN_MAX];

    if (slurm->allocation.job_id &&
        slurm_ask_within(argv, shown, sizeof(shown), ASK_MS) == 0)
        slurm_ending_noted(slurm, shown);
}

/* A step's tasks may be killed, and heard of, long before slurmd's word for it comes by srun. */
static void await_cause(struct slurm *slurm)
{
    uint64_t until_ns = rg_now_ns() + CAUSE_MS * RG_NS_PER_MS;

    for (int i = 0; i < slurm->nsteps; i++)
        slurm_step_await_cause(&slurm->steps[i], until_ns);
}

static const char *ending(void *state, int *ret_exit_code)
{
    struct slurm *slurm = state;

    if (!*slurm->ending)
        await_cause(slurm);
    if (!*slurm->ending)
        ask_why(slurm);
    if (!*slurm->ending)
        return NULL;
    *ret_exit_code = slurm->ending_code;
    return slurm->ending;
}

/* --- start ------------------------------------------------------------------------------------ */

static void destroy(void *state)
{
    struct slurm *slurm = state;

    rg_listener_close(slurm->listener);
    rg_timer_stop(&slurm->launch);
    slurm_question_stop(&slurm->question);
    for (int i = 0; slurm->steps && i < slurm->nsteps; i++)
        slurm_step_fini(&slurm->steps[i]);
    for (int i = 0; slurm->hosts && i < slurm->shared.o.plan->nhosts; i++)
        rg_timer_stop(&slurm->hosts[i].timer);
    rg_dialogue_shared_fini(&slurm->shared);
    rg_strv_fini(&slurm->env);
    rg_slurm_allocation_fini(&slurm->allocation);
    free(slurm->steps);
    free(slurm->hosts);
    free(slurm);
}

/* A firewall between the nodes and us lets through what srun needs: its range is ours, too. */
static void find_ports(struct rg_listener_options *options)
{
    const char *const files[] = { getenv("SLURM_CONF"), "/etc/slurm/slurm.conf",
                                  "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf" };
    const char *said = getenv(PORTS);

    if (said && *said) {
        rg_parse_ports(PORTS, said, &options->ports, NULL);
        return;
    }
    for (size_t i = 0; i < rg_array_len(files); i++) {
        rg_autofree char *text = NULL;
        if (files[i] && rg_read_file(files[i], CONF_MAX, &text, NULL) == 0) {
            rg_slurm_conf_ports(text, &options->ports);
            return;
        }
    }
}

int slurm_listen(struct slurm *slurm, struct rg_error *err)
{
    const struct rg_ports *ports = &slurm->shared.o.job->ports;
    struct rg_listener_options options = { .loop = slurm->shared.o.loop, .key = slurm->shared.o.key,
                                           .ports = *ports, .only = ports->first,
                                           .on_linked = slurm_linked, .arg = slurm };

    if (!ports->first)
        find_ports(&options);
    return rg_listener_open(&options, &slurm->listener, err);
}

static int prepare(struct slurm *slurm, const struct rg_driver_options *options,
                   struct rg_error *err)
{
    int r = slurm_held_read_whole(options->held, &slurm->allocation, err);

    for (int i = 0; r == 0 && i < options->plan->nhosts; i++)
        r = slurm_assign(slurm, i, err);
    if (r == 0)
        r = rg_dialogue_shared_init(&slurm->shared, options, true, err);
    if (r == 0 && slurm_command_env(slurm->shared.o.job, &slurm->env) < 0)
        r = rg_error_set(err, ENOMEM, "out of memory");
    return r == 0 ? slurm_listen(slurm, err) : r;
}

static int start(const struct rg_driver_options *options, void **ret_state, struct rg_error *err)
{
    struct slurm *slurm = calloc(1, sizeof(*slurm));

    if (!slurm)
        return rg_error_set(err, ENOMEM, "out of memory");
    slurm->shared.o = *options;
    slurm->on_missed = options->job->elastic.on ? slurm_miss : NULL;
    slurm->hosts = calloc((size_t) options->plan->room_hosts, sizeof(*slurm->hosts));
    /* Each one that another host's node made fail has lost a host. */
    slurm->steps = calloc(2 * (size_t) options->plan->room_hosts, sizeof(*slurm->steps));
    int r = slurm->hosts && slurm->steps ? prepare(slurm, options, err)
                                         : rg_error_set(err, ENOMEM, "out of memory");
    if (r < 0) {
        destroy(slurm);
        return r;
    }
    slurm_launch(slurm);
    *ret_state = slurm;
    return 0;
}

#ifndef RG_AGENT
static const struct rg_queue_ops queue_ops = {
    .submit = slurm_submit,
    .notice_ms = slurm_notice_ms,
    .status = slurm_status,
    .beside = slurm_beside,
    .cancel = slurm_cancel,
};
#endif

const struct rg_driver_ops rg_driver_slurm = {
    .platform = {
        .name = "slurm",
        .title = "Slurm",
        .about = ", the nodes of an allocation, which is asked for where there is none",
        .launchers = "slurm",
        .options = RG_LAUNCHER_ONLY(slurm_options),
        .runtime = "pyxis",
        .variable = "SLURM_JOB_ID",
        .canceller = "scancel",
        .finds_hosts = true,
        .contains = true,
        .own_cpus = true,
        .clears_up = true,
        .elastic = true,
        .stops_all = true,
        .queues = true,
        .leads = true,
    },
    .acquire = slurm_acquire,
    .release = slurm_release,
    .discover = discover,
    .start = start,
    .add = slurm_add,
    .stopping = stopping,
    .ending = ending,
    .said = said,
    .stop = stop,
    .destroy = destroy,
    .remark = RG_LAUNCHER_ONLY(slurm_remark),
    .queue = RG_LAUNCHER_ONLY(&queue_ops),
};
