/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that Slurm runs when it can, see rg_slurm_submit in launch/drivers/slurm/slurm.h: what
 * `reigen jobs`, `status`, `logs` and `stop` do with them.
 *
 * Thread rule: main thread. All of them block, on Slurm's programs and on files.
 */
#ifndef RG_CMD_RUN_SUBMIT_H
#define RG_CMD_RUN_SUBMIT_H

#include <stdbool.h>

#include "launch/drivers/slurm/slurm.h"
#include "spec/options/options.h"

/* --submit: hand the job to sbatch and print its number. argv: of `reigen run`. The exit code. */
int rg_submit(const struct rg_request *request, char **argv);

/* Whether this is the number of a job that was submitted so. */
bool rg_submitted(const char *id);

/* Print what has become of it; its output so far, and with keep what follows until its end. The
 * exit code. */
int rg_submitted_status(const char *id);
int rg_submitted_logs(const char *id, bool keep);

enum rg_submitted_state {
    RG_SUBMITTED_UNKNOWN, /* Slurm does not answer */
    RG_SUBMITTED_WAITS,
    RG_SUBMITTED_RUNS,
    RG_SUBMITTED_ENDED,
};

/* Texts that Slurm has not told are "". */
struct rg_submitted_job {
    char id[RG_SLURM_ID_MAX];
    struct rg_slurm_record record;
    enum rg_submitted_state state;
    char *word;    /* Slurm's: "RUNNING" */
    char *reason;  /* why it waits */
    char *elapsed; /* "0:10" */
    char *nodes;   /* "node[1-2]" */
};

struct rg_submitted_list {
    struct rg_submitted_job *jobs;
    size_t count;
    bool untold; /* Slurm did not answer */
};

/* All that were submitted, with one question to each of Slurm's clusters that has some of them.
 * 0 or -ENOMEM. */
int rg_submitted_list(struct rg_submitted_list *ret_list);
void rg_submitted_list_fini(struct rg_submitted_list *list);

/* End it, and wait until it has ended, for at most a minute. The exit code. */
int rg_submitted_stop(const char *id);

#endif
