/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that Slurm runs when it can, see rg_slurm_submit in launch/drivers/slurm.h. `reigen logs`
 * and `reigen status` are in submit.c, too.
 *
 * Thread rule: main thread. All of them block, on Slurm's programs and on files.
 */
#ifndef RG_CMD_SUBMIT_H
#define RG_CMD_SUBMIT_H

#include <stdbool.h>

#include "spec/options.h"

/* --submit: hand the job to sbatch and print its number. argv: of `reigen run`. The exit code. */
int rg_submit(const struct rg_request *request, char **argv);

/* Whether this is the number of a job that was submitted so. */
bool rg_submitted(const char *id);

/* End it, and wait until it has ended, for at most a minute. The exit code. */
int rg_submitted_stop(const char *id);

#endif
