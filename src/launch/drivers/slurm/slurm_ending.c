/* SPDX-License-Identifier: Apache-2.0 */
/* Why Slurm ended the job: as slurmstepd said it, else as slurmctld has noted it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "launch/drivers/slurm/slurm.h"
#include "launch/drivers/slurm/slurm_internal.h"
#include "base/exitcode.h"

#define ASK_MS 3000
#define SHOWN_MAX 8192

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

static void ask(struct slurm *slurm)
{
    char *argv[] = { (char *) "scontrol", (char *) "show", (char *) "job", (char *) "--oneliner",
                     slurm->nsteps ? slurm->steps[0].job_id : NULL, NULL };
    char shown[SHOWN_MAX];

    if (slurm->nsteps && *slurm->steps[0].job_id &&
        slurm_ask_within(argv, shown, sizeof(shown), ASK_MS) == 0)
        slurm_ending_noted(slurm, shown);
}

const char *slurm_ending(void *state, int *ret_exit_code)
{
    struct slurm *slurm = state;

    if (!*slurm->ending)
        ask(slurm);
    if (!*slurm->ending)
        return NULL;
    *ret_exit_code = slurm->ending_code;
    return slurm->ending;
}
