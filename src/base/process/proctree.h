/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that descend from this one, as /proc shows them: for ending all of them.
 *
 * A process that is a subreaper (PR_SET_CHILD_SUBREAPER) or PID 1 keeps its orphaned descendants in
 * this tree, whatever sessions or process groups they have made. The picture is stale as soon as it
 * is taken: kill, wait, and look again until it is empty.
 *
 * Thread rule: any thread. Blocks for a walk over /proc (some 10 us per process of the host).
 */
#ifndef RG_BASE_PROCESS_PROCTREE_H
#define RG_BASE_PROCESS_PROCTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/str.h"

struct rg_process {
    pid_t pid, parent, group, session;
    char state; /* as in /proc/PID/stat: R S D Z T ... */
};

/* All descendants of root, zombies excluded, nearest first; *ret_list is the caller's to free, NULL
 * when there are none. 0; -ENOENT: no /proc here, or that of another pid name space; -ENOMEM. */
int rg_proctree_descendants(pid_t root, struct rg_process **ret_list, size_t *ret_count);

/* The parent of pid; 0: none that is seen here, or no /proc, or that of another pid name space. */
pid_t rg_process_parent(pid_t pid);

/* Add the environment that pid was started with. 0, -ENOMEM, or -errno where it may not be read. */
int rg_process_env(pid_t pid, struct rg_strv *env);
/* True when the environment that pid was started with holds exactly this NAME=VALUE. False also
 * when it may not be read. */
bool rg_process_has_env(pid_t pid, const char *entry);

/* True while this process has a child, zombies included. No look at /proc. */
bool rg_process_has_children(void);

#endif
