/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver tells its session of hosts, and why Slurm ends a job. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/slurm/internal.h"

void slurm_phase(struct slurm_host *host, int phase, const char *reason)
{
    const struct rg_driver_options *o = &host->slurm->shared.o;

    if (!host->gone)
        o->events->on_phase(o->arg, host->index, phase, reason);
}

void slurm_tell_gone(void *arg)
{
    struct slurm_host *host = arg;
    const struct rg_driver_options *o = &host->slurm->shared.o;

    if (host->taken)
        o->events->on_taken(o->arg, host->index);
    o->events->on_gone(o->arg, host->index, &host->err);
}

void slurm_host_gone(struct slurm_host *host)
{
    if (host->gone)
        return;
    host->gone = true;
    rg_timer_start(&host->timer, host->slurm->shared.o.loop, 0, 0, slurm_tell_gone, host);
}

/* --- why Slurm ended the job: slurmstepd says it, or slurmctld has noted it ------------------- */

static const struct {
    const char *said;   /* by slurmstepd, behind "CANCELLED AT ..." */
    const char *noted;  /* by scontrol show job */
    const char *why;
    int exit_code;
} causes[] = {
    { "DUE TO TIME LIMIT", " JobState=TIMEOUT ",
      "the job's time limit is reached; ask for more time (--time), and go on from the last "
      "checkpoint", RG_EXIT_PREEMPTED },
    { "DUE TO TIME LIMIT", " Reason=TimeLimit ",
      "the job's time limit is reached; ask for more time (--time), and go on from the last "
      "checkpoint", RG_EXIT_PREEMPTED },
    { "DUE TO PREEMPTION", " JobState=PREEMPTED ",
      "the job is preempted by another one; run it again, from the last checkpoint",
      RG_EXIT_PREEMPTED },
    { "DUE TO NODE FAILURE", " JobState=NODE_FAIL ", "a node of the job has failed",
      RG_EXIT_HOST_LOST },
    { "DUE TO JOB REQUEUE", " JobState=REQUEUED ",
      "the job goes back into the queue, and starts again from there", RG_EXIT_PREEMPTED },
    { "CANCELLED AT", " JobState=CANCELLED ", "the job or its step was cancelled (scancel)",
      RG_EXIT_PREEMPTED },
    /* While its nodes are being cleared its state is hidden, but other reasons are not. */
    { "***", " JobState=COMPLETING ", "the job was cancelled (scancel), or a node was set down",
      RG_EXIT_PREEMPTED },
};

static void note(struct slurm *slurm, size_t cause)
{
    snprintf(slurm->ending, sizeof(slurm->ending), "Slurm ends it: %s", causes[cause].why);
    slurm->ending_code = causes[cause].exit_code;
}

/* "slurmstepd: error: *** STEP 3.0 ON node1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT
 * ***" */
void slurm_ending_said(struct slurm *slurm, const char *text)
{
    for (size_t i = 0; i < rg_array_len(causes) - 1 && !*slurm->ending; i++) {
        if (strstr(text, "***") && strstr(text, causes[i].said))
            note(slurm, i);
    }
}

void slurm_ending_noted(struct slurm *slurm, const char *shown)
{
    bool preempted = strstr(shown, " PreemptTime=") && !strstr(shown, " PreemptTime=None ");

    for (size_t i = 0; i < rg_array_len(causes) && !*slurm->ending; i++) {
        const char *noted = preempted && strstr(causes[i].said, "PREEMPTION")
                                ? " PreemptTime=" : causes[i].noted;

        if (strstr(shown, noted))
            note(slurm, i);
    }
}
