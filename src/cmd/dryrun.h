/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --dry-run: the plan as comments, and for each rank the command with the variables that launching
 * adds, as a shell script that runs the ranks on this computer (`reigen run --dry-run ... | sh`).
 * Values of --share-env are never printed: the script takes them from its own environment.
 *
 * Any thread; nothing blocks.
 */
#ifndef RG_CMD_DRYRUN_H
#define RG_CMD_DRYRUN_H

#include "base/buf.h"
#include "launch/plan.h"

/* Append the script. 0, -ENOMEM, or -EINVAL when the container runtime cannot do what is asked. */
int rg_dryrun_print(const struct rg_plan *plan, const struct rg_job *job, struct rg_buf *text,
                    struct rg_error *err);

/* Append text as one word of a POSIX shell. */
void rg_shell_quote(struct rg_buf *text, const char *word);

#endif
