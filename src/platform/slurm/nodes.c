/* SPDX-License-Identifier: Apache-2.0 */
/* Which step each node belongs to; and whether the nodes whose tasks have ended are still the
 * job's, which Slurm is asked at that moment, once for all of them. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "job/slurm.h"
#include "platform/slurm/internal.h"

int slurm_find_node(const struct rg_slurm_allocation *allocation, const char *name)
{
    for (size_t i = 0; i < allocation->nnodes; i++) {
        if (strcmp(allocation->nodes[i].name, name) == 0)
            return (int) i;
    }
    return -1;
}

/* --- steps ------------------------------------------------------------------------------------ */

/* A component of a heterogeneous job has nodes of its own, and gets its own srun; so do nodes with
 * a number of GPUs of their own, since srun takes one number for all nodes of a step. */
static void join_step(struct slurm_host *host, int group, int ngpus)
{
    struct slurm *slurm = host->slurm;
    int i = slurm->nstarted;

    while (i < slurm->nsteps && (slurm->steps[i].group != group || slurm->steps[i].ngpus != ngpus))
        i++;
    if (i == slurm->nsteps)
        slurm->steps[slurm->nsteps++] = (struct slurm_step){ .slurm = slurm, .group = group,
                                                             .ngpus = ngpus };
    host->step = &slurm->steps[i];
    host->step->nhosts++;
    host->task = -1;
    host->dialogue.state = RG_DIALOGUE_ASKING;
    slurm_phase(host, RG_PHASE_STARTING, "asking Slurm for a step");
}

int slurm_assign(struct slurm *slurm, int index, struct rg_error *err)
{
    const struct rg_slurm_allocation *allocation = &slurm->allocation;
    struct slurm_host *host = &slurm->hosts[index];
    const char *name = slurm->shared.o.plan->hosts[index].name;
    int node = slurm_find_node(allocation, name);

    host->slurm = slurm;
    host->index = index;
    host->name = name;
    if (node < 0)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_UNAVAILABLE,
                                 "it is not in the allocation (job %s)", allocation->job_id);
    host->dialogue.shared = &slurm->shared; /* the rest is large, and stays untouched memory */
    host->dialogue.ops = &slurm_dialogue_ops;
    host->dialogue.arg = host;
    host->dialogue.host = index;
    join_step(host, allocation->group_ids.count ? allocation->nodes[node].group : -1,
              allocation->gpus_by_node ? allocation->nodes[node].ngpus : -1);
    return 0;
}

void slurm_launch(void *arg)
{
    struct slurm *slurm = arg;

    while (slurm->nstarted < slurm->nsteps) {
        const struct slurm_step *step = &slurm->steps[slurm->nstarted];
        struct rg_error err = RG_ERROR_INIT;
        int r = slurm_step_start(&slurm->steps[slurm->nstarted++], &err);
        for (int i = 0; r < 0 && i < slurm->shared.o.plan->nhosts; i++) {
            if (slurm->hosts[i].step != step)
                continue;
            slurm->hosts[i].err = err;
            slurm_host_gone(&slurm->hosts[i]);
        }
    }
}

static void launch_soon(struct slurm *slurm)
{
    rg_timer_start(&slurm->launch, slurm->shared.o.loop, 0, 0, slurm_launch, slurm);
}

int slurm_add(void *state, int host, struct rg_error *err)
{
    struct slurm *slurm = state;
    int r = slurm_assign(slurm, host, err);

    if (r == 0)
        launch_soon(slurm);
    return r;
}

/* --- nodes that are missed -------------------------------------------------------------------- */

/* A node on which nothing can be started ends its step on the others as well. */
static bool some_never_came(const struct slurm_step *step)
{
    const struct slurm *slurm = step->slurm;
    bool some = false;

    for (int i = 0; i < slurm->shared.o.plan->nhosts; i++) {
        const struct slurm_host *host = &slurm->hosts[i];
        some |= host->step == step && host->gone && !host->linked && !host->stopped;
    }
    return some;
}

static void settle(struct slurm_host *host)
{
    struct slurm *slurm = host->slurm;
    bool room = slurm->nsteps < 2 * slurm->shared.o.plan->room_hosts;

    if (room && !host->linked && !host->stopped && !host->err.errnum &&
        some_never_came(host->step)) {
        slurm_step_leave(host);
        join_step(host, host->step->group, host->step->ngpus);
        launch_soon(slurm);
        return;
    }
    slurm_step_explain(host);
    slurm_step_lose(host);
}

static void take_away(struct slurm_host *host)
{
    const struct rg_driver_options *o = &host->slurm->shared.o;

    host->taken = true;
    rg_error_set(&host->err, ENODEV, "Slurm has taken this node out of the job");
    o->events->on_note(o->arg, host->index, host->err.text);
    slurm_step_lose(host);
}

/* A line for each component of a heterogeneous job. NULL: nobody knows. */
static void on_nodes(void *arg, char *text)
{
    struct slurm *slurm = arg;
    struct slurm_host *end = slurm->hosts + slurm->shared.o.plan->nhosts;
    rg_autostrv struct rg_strv names = RG_STRV_INIT;

    for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
        if (*line)
            rg_slurm_nodes("squeue", line, &names, NULL);
    }
    for (struct slurm_host *host = slurm->hosts; host < end; host++) {
        host->asked &= !host->gone;
        if (host->asked && names.count && !rg_strv_has(&names, host->name))
            take_away(host);
    }
    for (struct slurm_host *host = slurm->hosts; host < end; host++) {
        if (host->asked && !host->gone)
            settle(host);
        host->asked = false;
    }
}

void slurm_miss(void *arg)
{
    struct slurm_host *host = arg;
    struct slurm *slurm = host->slurm;
    char jobs[SLURM_ID_MAX];
    char *argv[] = { (char *) "squeue", (char *) "--noheader", jobs, (char *) "--format=%N", NULL };

    host->asked = true;
    if (slurm->question.pid)
        return;
    snprintf(jobs, sizeof(jobs), "--jobs=%s", slurm->allocation.job_id);
    if (slurm_question_start(&slurm->question, slurm->shared.o.loop, argv, on_nodes, slurm) < 0)
        on_nodes(slurm, NULL);
}
