/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for other ranks while the job starts asks here, a few times a second, whether it waits
 * in vain: the boot is asked (it sees connections close, or a launcher tells it), and the kernel
 * about the ranks of this host.
 *
 * Thread rule: the thread in reigen_init. Nothing blocks.
 */
#ifndef RG_COLL_TEAM_LIVENESS_H
#define RG_COLL_TEAM_LIVENESS_H

#include <stdbool.h>

#include "coll/team/team.h"

#define RG_LIVENESS_MS 200 /* between two looks */

/* Whether a process of our pid name space, which was there before, has ended; pid 0: not seen,
 * false. */
bool rg_process_ended(pid_t pid);
/* A descriptor for a process, close-on-exec and the caller's, or -1. */
int rg_pidfd_open(pid_t pid);
/* While team's ranks are all still being wired up: 0; -ECONNRESET with who died; -EHOSTDOWN: the
 * launcher is gone; of a process set, what has ended all ranks (-ECANCELED: a shutdown). */
int rg_liveness_check(const struct rg_team *team, struct rg_boot *boot, struct rg_error *err);

#endif
