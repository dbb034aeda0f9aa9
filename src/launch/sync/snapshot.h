/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory as it was at one moment (--sync): its list (wire/filelist.h), and the contents of its
 * files in one nameless file on this computer. So each host gets the same, also one that joins
 * hours later, or a job that is started again.
 *
 * In a git work tree it is what git ls-files lists: what is tracked, and what is neither tracked
 * nor ignored. Elsewhere, and where git cannot tell, it is all that is there. Never what git keeps
 * for itself (.git), nor sockets and the like.
 *
 * A symbolic link that leads to another place in the directory stays a link. One that leads out of
 * it to a file has that file's contents; one that leads to a directory, or nowhere, is left out.
 *
 * Thread rule: one thread makes it; then it does not change. Making it, and reading, block for the
 * disk.
 */
#ifndef RG_LAUNCH_SYNC_SNAPSHOT_H
#define RG_LAUNCH_SYNC_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

#define RG_SNAPSHOT_NBYTES (256ull << 20) /* that a job may send where the user says no more */
#define RG_SNAPSHOT_FILES 20000           /* files, links and folders of it, likewise; */
#define RG_SNAPSHOT_FILES_EACH (16u << 10) /* beyond that, one for so many bytes that are allowed */

struct rg_snapshot;

/* Of dir. cwd: where ranks are to start, if that is in it, else they start at its top. max_nbytes:
 * of all contents; 0: RG_SNAPSHOT_NBYTES. remarks: what the user should know is appended. 0 or
 * -errno with err: it is too large (-EFBIG, -E2BIG: the largest files are named), a file cannot be
 * read, or changes all the time (-EBUSY), there is no room here. */
int rg_snapshot_make(const char *dir, const char *cwd, uint64_t max_nbytes,
                     struct rg_strv *remarks, struct rg_snapshot **ret_snapshot,
                     struct rg_error *err);
void rg_snapshot_free(struct rg_snapshot *snapshot); /* NULL is fine */

/* Where the directory is, absolute and without links; and where in it ranks start, or "". */
const char *rg_snapshot_dir(const struct rg_snapshot *snapshot);
const char *rg_snapshot_cwd(const struct rg_snapshot *snapshot);
/* The encoded list. Borrowed. */
const uint8_t *rg_snapshot_list(const struct rg_snapshot *snapshot, size_t *ret_nbytes);
/* How many files the list has, and how many bytes one of them. */
size_t rg_snapshot_count(const struct rg_snapshot *snapshot);
uint64_t rg_snapshot_nbytes(const struct rg_snapshot *snapshot, size_t file);
/* Some of a file's contents, which are there. 0 or -errno. */
int rg_snapshot_read(const struct rg_snapshot *snapshot, size_t file, uint64_t at, void *data,
                     size_t nbytes);

#endif
