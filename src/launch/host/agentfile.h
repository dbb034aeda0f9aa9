/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agents that this installation has, one program for each kind of machine, and what their
 * environment may hold.
 *
 * That for machines like this one is the file REIGEN_AGENT names, else reigen-agent beside the
 * running program, else in ../libexec/reigen/ from there. Those for others lie beside it, named
 * reigen-agent-MACHINE (reigen-agent-aarch64), MACHINE being what uname -m says there.
 *
 * Thread rule: any thread. Both block on the file system.
 */
#ifndef RG_LAUNCH_HOST_AGENTFILE_H
#define RG_LAUNCH_HOST_AGENTFILE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "job/job.h"

#define RG_AGENT_FILE_MAX (64u << 20) /* bytes; a build with sanitizers is large */

struct rg_agent_file {
    char machine[16];  /* "x86_64" */
    uint8_t *data;     /* owned */
    size_t nbytes;
    char digest[65];   /* SHA-256, hexadecimal */
    /* "agent-" and the digest's first 16 digits: its directory in a cache, see
     * agent/start/install.h */
    char name[32];
};

/* The one for machines like this. 0, or -ENOENT with exit code 69. */
int rg_agent_file_find(char path[PATH_MAX], struct rg_error *err);

/* Read the one for this kind of machine. 0; -ENOENT when there is none (not an error to report
 * before a host needs it); another -errno. */
int rg_agent_file_load(const char *machine, struct rg_agent_file *ret_file, struct rg_error *err);
void rg_agent_file_fini(struct rg_agent_file *file); /* a zeroed one is fine */

/* Of what a driver starts: the caller's environment without the variables of the job's --share-env,
 * which travel over the link (job may be NULL), and without what drops says (NULL: nothing). Never
 * empty: NULL as envp means the caller's own. Appended to env. 0 or -ENOMEM. */
int rg_agent_env_make(const struct rg_job *job, bool (*drops)(const char *entry),
                      struct rg_strv *env);

#endif
