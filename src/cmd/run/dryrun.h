/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --dry-run, in one of two forms, which the first line names in a comment.
 *
 * A script, where the ranks run on this computer without a container, and reigen itself starts
 * them: sh runs them as reigen would, ends with the code of the rank that fails first, and ends the
 * others. There is no agent beside them, so what is the launcher's own (tags, --timeout,
 * --max-restarts, --pty, remote commands) is not there.
 *
 * A plan, for all other jobs: nothing but comments, as what agents do on hosts, in containers and
 * for engines is no matter of a few lines of sh.
 *
 * Values of --share-env are never printed: the script takes them from its own environment.
 *
 * Any thread; nothing blocks.
 */
#ifndef RG_CMD_RUN_DRYRUN_H
#define RG_CMD_RUN_DRYRUN_H

#include <stdbool.h>

#include "base/buf.h"
#include "launch/plan/plan.h"

/* Whether it is a script. here: as below. */
bool rg_dryrun_is_script(const struct rg_plan *plan, const struct rg_job *job, bool here);
/* Append it. here: the driver is the one for this computer alone. 0, -ENOMEM, or -EINVAL when the
 * container runtime cannot do what is asked. */
int rg_dryrun_print(const struct rg_plan *plan, const struct rg_job *job, bool here,
                    struct rg_buf *text, struct rg_error *err);

#endif
