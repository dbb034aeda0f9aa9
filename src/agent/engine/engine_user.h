/* SPDX-License-Identifier: Apache-2.0 */
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
 *
 * This header is internal to src/agent. Thread rule: any thread. Blocks for file system calls.
 */
#ifndef RG_AGENT_ENGINE_ENGINE_USER_H
#define RG_AGENT_ENGINE_ENGINE_USER_H

#include <stdbool.h>

#include "base/str.h"

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
