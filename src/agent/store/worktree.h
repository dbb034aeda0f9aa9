/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory that goes with a job (--sync), on one host. It is the launcher's directory itself
 * where that is here with the same contents; else a folder of the job, which is built by a list
 * (wire/filelist.h): of files that are here already, by their hash, and of what comes by the link.
 *
 *     LISTING --all of the list has come--> LOOKING --is it here?--> READY
 *                                              |                       ^
 *                                              '--not the same--> FILLING (missing files come)
 *
 * No name leads out of the folder: paths are judged, and each component is opened without following
 * links. Nothing else on the host is written or removed. The folder is a job's directory by name
 * and lock (jobdir.h), so the next agent removes what a killed one has left.
 *
 * What came by the link stays in `files` beside that folder, by its hash, for the next job: a
 * second link to the file. Ranks may have written to it since, so it is compared when it is used,
 * and it is removed when that was long ago.
 *
 * Thread rule: one thread. Each call blocks for at most some milliseconds of a disk's work.
 */
#ifndef RG_AGENT_STORE_WORKTREE_H
#define RG_AGENT_STORE_WORKTREE_H

#include "agent/store/jobdir.h"
#include "wire/filelist.h"

struct rg_worktree;

enum rg_worktree_state { RG_WORKTREE_LISTING, RG_WORKTREE_LOOKING, RG_WORKTREE_FILLING,
                         RG_WORKTREE_READY };

/* source: where the directory is at the launcher's. list_nbytes: of its list, which comes. last: a
 * root for the folder where no other one will do, or NULL. Both are copied. 0; -EBADMSG: the list
 * is too long, or empty; -ENOMEM. */
int rg_worktree_create(const char *source, uint64_t list_nbytes, const char *last,
                       struct rg_worktree **ret_tree);
/* Remove the folder and all that is in it, if there is one. NULL is fine. Blocks
 * until it is done. */
void rg_worktree_destroy(struct rg_worktree *tree);

enum rg_worktree_state rg_worktree_state(const struct rg_worktree *tree);
/* How many bytes are still to come in this state, LISTING or FILLING. */
uint64_t rg_worktree_lacks(const struct rg_worktree *tree);
/* LISTING, FILLING: the next bytes, not more than it lacks. 0 or -errno with err: then it can only
 * be destroyed. */
int rg_worktree_feed(struct rg_worktree *tree, const uint8_t *data, size_t nbytes,
                     struct rg_error *err);
/* LOOKING: a bit of that work. 0 or -errno as above; then look at the state again. */
int rg_worktree_step(struct rg_worktree *tree, struct rg_error *err);
/* FILLING: a bit for each file of the list that is missing, lowest first. Borrowed. */
const uint8_t *rg_worktree_missing(const struct rg_worktree *tree, size_t *ret_nbytes);
/* READY: where it is. Borrowed. */
const char *rg_worktree_path(const struct rg_worktree *tree);

#endif
