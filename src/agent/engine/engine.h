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

/* The job's hosts as engines shall call them, NAME:RANKS, appended: by its tasks, where it has
 * roles. Names that mean the engine's own host to an engine there, though another is meant
 * (localhost, 127.0.0.2, the first host's own hostname), become RG_ENGINE_ALIAS with the host's
 * number. 0 or -ENOMEM. */
int rg_engine_hosts(const struct rg_msg_setup *setup, struct rg_strv *hosts);
#define RG_ENGINE_ALIAS RG_MSG_HOST_ALIAS

/* The engines' variables, set in env, which holds everything else that a task gets. job_dir: the
 * job's directory (jobdir.h), "" when there is none; then nothing that needs it is set. users: the
 * matters of which the user speaks (below). A variable of --env or --share-env is left
 * alone. 0 or -ENOMEM. */
int rg_engine_env(const struct rg_msg_setup *setup, const char *job_dir, unsigned users,
                  struct rg_strv *env);

/* Turn setup->command into what the job's only task runs. env: the task's, whose PATH it is found
 * in and may be changed. 0; -ENOENT with exit_code 127 and the remedy in err, -ENOMEM, others. */
int rg_engine_prepare(struct rg_msg_setup *setup, struct rg_strv *env, struct rg_error *err);

/* --- engine_user.c ---------------------------------------------------------------------------- */

/*
 * What the user has told their MPI by themselves. Some of our settings must not stand beside the
 * user's: Open MPI refuses two lists of networks, one to use and one to leave out, wherever each
 * stands, and a variable of ours would win over a line of the user's in a parameter file. So the
 * places are read where users say such things, and where one speaks of a matter, whatever it says,
 * our setting for that matter is left out:
 *
 *   - the environment, names and values;
 *   - for lists of networks, the command's words, the scripts that they name, and those that these
 *     name: an mpirun in a script has a command line that nobody else sees before it runs;
 *   - parameter files: Open MPI's, PRRTE's and PMIx's of the home directory, of the system, of the
 *     MPIs in PATH and of those that the words name, and all that OMPI_MCA_mca_base_param_files
 *     and its like name; ucx.conf; nccl.conf.
 *
 * Lines that begin with '#' say nothing. Of scripts in other languages than a shell's only the text
 * counts, not what they name. Too much is found rather than too little: a list of ours that is
 * missing matters only on hosts with networks that are of no use.
 */
#define RG_USER_FILE_MAX (256 * 1024) /* bytes; a larger file is none that people write */
#define RG_USER_WORDS_MAX 512         /* that are looked up as files, of all scripts together */
#define RG_USER_DEPTH_MAX 3           /* a script, one that it names, one that that names */

/* Matters, as bits. */
#define RG_USER_BTL 1u     /* networks of Open MPI's ranks */
#define RG_USER_OOB 2u     /* networks of Open MPI's launchers and daemons */
#define RG_USER_BINDING 4u /* which cores Open MPI binds ranks to */
#define RG_USER_UCX 8u     /* UCX_NET_DEVICES */
#define RG_USER_NCCL 16u   /* NCCL_SOCKET_IFNAME */
#define RG_USER_ALL 31u

/* The matters of which the user speaks. command: the job's, or NULL for none; cwd: where its
 * relative paths count from, NULL or "" for the current directory; remote: a command as a shell
 * gets it, or NULL; env: the environment of all this. What cannot be read says nothing. */
unsigned rg_engine_user_sets(const struct rg_strv *command, const char *cwd, const char *remote,
                             const struct rg_strv *env);

/* A remote command that starts a daemon of Open MPI. Its mpirun has told it what to use. */
bool rg_engine_is_daemon(const char *remote);

#endif
