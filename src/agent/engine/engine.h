/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's own MPI on this host. Two things make an unchanged mpirun work, typed, in a script or
 * put together here:
 *
 *   - the environment of every task and remote command (engine_env.c): it tells Open MPI 4 and 5,
 *     MPICH, Intel MPI and pdsh to start their daemons through rsh instead of ssh, which hosts
 *     there are, and which network joins them. Options on a command line win over it, and so
 *     does --env. What the user says elsewhere is heeded, too (engine_user.c);
 *   - the command of the job's only task (engine.c): with --engine openmpi or hydra it becomes that
 *     engine's mpirun, found in PATH and made sure of by what it says of itself.
 *
 * What each setting is for stands beside it in engine_env.c; docs/mpi.md has the list for users.
 *
 * This header is internal to src/agent. Thread rule: the agent's thread. rg_engine_prepare blocks
 * while mpirun --version runs (milliseconds, RG_ENGINE_PROBE_MS at most each).
 */
#ifndef RG_AGENT_ENGINE_ENGINE_H
#define RG_AGENT_ENGINE_ENGINE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "wire/msg.h"

#define RG_ENGINE_PROBE_MS 5000  /* for mpirun --version */
#define RG_ENGINE_PROBE_MAX 4096 /* bytes of what it says that are looked at */

/* An engine starts the ranks of this job, not our agents. */
bool rg_engine_used(const struct rg_msg_setup *setup);

/* The job's hosts as engines shall call them, NAME:RANKS, appended. Names that mean the engine's
 * own host to an engine there, though another is meant (localhost, 127.0.0.2, the first host's own
 * hostname), become RG_ENGINE_ALIAS with the host's number. 0 or -ENOMEM. */
int rg_engine_hosts(const struct rg_msg_setup *setup, struct rg_strv *hosts);
#define RG_ENGINE_ALIAS RG_MSG_HOST_ALIAS

/* The engines' variables, set in env, which holds everything else that a task gets. job_dir: the
 * job's directory (jobdir.h), "" when there is none; then nothing that needs it is set. users: the
 * matters of which the user speaks (engine_user.h). A variable of --env or --share-env is left
 * alone. 0 or -ENOMEM. */
int rg_engine_env(const struct rg_msg_setup *setup, const char *job_dir, unsigned users,
                  struct rg_strv *env);

/* Turn setup->command into what the job's only task runs. env: the task's, whose PATH it is found
 * in and may be changed. 0; -ENOENT with exit_code 127 and the remedy in err, -ENOMEM, others. */
int rg_engine_prepare(struct rg_msg_setup *setup, struct rg_strv *env, struct rg_error *err);

#endif
