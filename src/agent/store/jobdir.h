/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job's directory on this host: what ranks, scripts and MPI engines need to find as files.
 *
 *     rsh, ssh        links to the agent: remote commands through Reigen, with ssh's arguments
 *     reigen-rsh      the same, by a name that is nobody else's: found in PATH on every host
 *     hosts           the job's hosts in Open MPI's form:  NAME slots=N
 *     hosts.mpich     the same in MPICH's form:            NAME:N
 *     sshd-failed     a script's word that it could not begin:  HOST PORT of its sshd
 *
 * It is fresh, 0700, in $XDG_RUNTIME_DIR/reigen-UID or else $TMPDIR, /tmp, /var/tmp or /dev/shm, or
 * the one that whoever made the container has mounted. It holds no secret. It is removed with all
 * that is in it when the agent ends; one that a killed agent left is removed by the next agent of
 * this user, and by `reigen-agent clean`: whose lock (flock on the directory) is free belongs to
 * nobody. On a network's disk, where locks may be known to one host only, it stays.
 *
 * Thread rule: the agent's thread. Blocks for file system calls.
 */
#ifndef RG_AGENT_STORE_JOBDIR_H
#define RG_AGENT_STORE_JOBDIR_H

#include <limits.h>
#include <stdbool.h>

#include "base/str.h"

#define RG_JOBDIR_PATH_MAX 256 /* a root with a longer name is not taken */

struct rg_jobdir {
    char path[RG_JOBDIR_PATH_MAX]; /* "": there is none */
    int fd;              /* holds the lock */
    bool keep;           /* the directory itself belongs to somebody else */
};

#define RG_JOBDIR_INIT { "", -1, false }

/* Make it, or use given (not NULL), which stays when the rest is removed. hosts: NAME:RANKS each.
 * 0 or -errno, then there is none and err says where it was tried. */
int rg_jobdir_make(const char *given, const struct rg_strv *hosts, struct rg_jobdir *ret_dir,
                   struct rg_error *err);

/* Remove it and all that is in it. Nothing happens when there is none. */
void rg_jobdir_remove(struct rg_jobdir *dir);

/* Remove those that killed agents of this user have left, whichever of the places above they are
 * in. Returns how many there were. */
int rg_jobdir_sweep(void);

/* What a script has left in sshd-failed: the port, and the host's name into ret_host; 0 when there
 * is no such word. */
#define RG_JOBDIR_HOST_MAX 253
unsigned rg_jobdir_sshd_failed(const struct rg_jobdir *dir, char ret_host[RG_JOBDIR_HOST_MAX + 1]);

/* REIGEN_JOB_DIR, REIGEN_RSH and REIGEN_HOSTFILE. 0 or -ENOMEM. */
int rg_jobdir_env(const struct rg_jobdir *dir, struct rg_strv *env);

#endif
