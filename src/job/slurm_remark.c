/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be said of a job that does not use the nodes that Slurm gave, as it could. */
#include <stdio.h>
#include <string.h>

#include "job/hostlist.h"
#include "job/platform.h"
#include "job/slurm.h"

/* Each of srun's tasks starts a job. Not so those of `srun --pty sh`: there only one has a user. */
static bool remark_tasks(const struct rg_strv *env, const struct rg_job *job,
                         const struct rg_slurm_allocation *step, char *buf, size_t nbytes)
{
    if (step->ntasks < 2 || rg_env_get(env, "SLURM_PTY_PORT") ||
        rg_platform_of(job)->here)
        return false;
    *buf = '\0';
    if (step->procid == 0)
        snprintf(buf, nbytes, "srun starts this %d times, and each is a job of its own; call "
                 "reigen without srun, and it starts the ranks on all nodes%s", step->ntasks,
                 job->on ? "" : " (with --on slurm)");
    return true;
}

static void remark_nodes(const struct rg_slurm_allocation *a, char *buf, size_t nbytes)
{
    snprintf(buf, nbytes, "this is Slurm job %s with %zu node%s, and the job runs on this computer "
             "only; --on slurm uses %s", a->job_id, a->nnodes, a->nnodes == 1 ? "" : "s",
             a->nnodes == 1 ? "it" : "them");
}

bool rg_slurm_remark(const struct rg_strv *env, const struct rg_job *job, char *buf, size_t nbytes)
{
    RG_AUTO_SLURM_ALLOCATION struct rg_slurm_allocation a = { 0 };
    bool in_step = rg_slurm_in_step(env);

    *buf = '\0';
    /* In a job of ours its variables are those of our agents' step. */
    if (rg_env_get(env, "REIGEN_RANK") || rg_env_get(env, "REIGEN_JOB_DIR") ||
        rg_slurm_allocation_read(env, in_step ? RG_SLURM_STEP : RG_SLURM_JOB, &a, NULL) < 0)
        return false;
    if (in_step && remark_tasks(env, job, &a, buf, nbytes))
        return *buf;
    if (job->on || job->nhosts)
        return false;
    /* salloc's shell is as a rule on none of its nodes. */
    bool elsewhere = !a.node && !rg_host_is_local(a.nodes[0].name);
    if (a.nnodes > 1 || (a.nnodes == 1 && !in_step && elsewhere))
        remark_nodes(&a, buf, nbytes);
    return *buf;
}
