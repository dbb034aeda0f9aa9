/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --sync on the user's computer: which files of a directory are sent to hosts that lack it, with
 * which hash, and how a host can tell that it has the directory itself. One object serves all hosts
 * and all starts of a job, so that these see one state of the files: whoever changes one that was
 * not sent yet, gets an error, and no mixture.
 *
 * What is sent: where the directory is in a git repository, what git ls-files lists, with other
 * files that .gitignore does not name; else all but .git. Links that lead out of it, and what is
 * neither a file, a link nor a directory, stay and are counted.
 *
 * Thread rule: one thread at a time. rg_sync_create blocks while it reads all files once;
 * rg_sync_read blocks for a chunk.
 */
#ifndef RG_LAUNCH_SYNC_SYNC_H
#define RG_LAUNCH_SYNC_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "wire/sync.h"

struct rg_sync;

/* Look at dir, and read all that is to be sent. cwd: where the ranks would run without it: in dir
 * or below, they do so in the copy, else in dir's. without: what the job itself writes, files or
 * directories, none of which is sent; our standard output and error are not, either. say: called
 * with a line before what may take long; or NULL. 0; -ENOENT, -ENOTDIR, -EPERM (the home), -EFBIG
 * (more than RG_SYNC_NBYTES_MAX or RG_SYNC_ENTRIES_MAX), -EBUSY (a file changes while it is read),
 * another -errno. */
int rg_sync_create(const char *dir, const char *cwd, const struct rg_strv *without,
                   void (*say)(void *arg, const char *text), void *arg, struct rg_sync **ret_sync,
                   struct rg_error *err);
/* Remove the marker, if there is one. NULL is fine. */
void rg_sync_destroy(struct rg_sync *sync);
void rg_sync_cleanup(struct rg_sync **sync); /* for rg_cleanup */

/* Whether path is dir, or below it; both are real. */
bool rg_sync_is_in(const char *path, const char *dir);
/* The directory; and where in it the ranks run, "" for itself. Borrowed. */
const char *rg_sync_dir(const struct rg_sync *sync);
const char *rg_sync_sub(const struct rg_sync *sync);
/* The bytes of all contents. */
uint64_t rg_sync_nbytes(const struct rg_sync *sync);
/* "14 files, 1.2 MiB, as git lists them", for people; with what stays. Into buf, which is
 * returned. */
const char *rg_sync_text(const struct rg_sync *sync, char *buf, size_t room);

/* --- to a host -------------------------------------------------------------------------------- */

/* HEAD for a host of this name: what it was told before counts, else a marker is made, until
 * rg_sync_unmark has been called as often. Where none can be made, hosts get copies. Appended. 0 or
 * -errno; *ret_marked: call that once. */
int rg_sync_put_head(struct rg_sync *sync, const char *host, bool contained, struct rg_buf *buf,
                     bool *ret_marked);
void rg_sync_unmark(struct rg_sync *sync);
/* What the host has found, for all its agents of this job. 0 or -ENOMEM. */
int rg_sync_decide(struct rg_sync *sync, const char *host, bool in_place);

/* LISTs and LISTED: the same bytes for each host. Borrowed. */
const struct rg_buf *rg_sync_list(const struct rg_sync *sync);
uint32_t rg_sync_count(const struct rg_sync *sync);
/* The bytes of entry number i; 0 where it is no file. */
uint64_t rg_sync_entry_nbytes(const struct rg_sync *sync, uint32_t i);
/* Append a DATA frame with the bytes of entry i from offset on, RG_SYNC_CHUNK_MAX at most. How many
 * those were; -EBUSY: the file is not the one any more that was looked at; -errno. */
int rg_sync_put_data(const struct rg_sync *sync, uint32_t i, uint64_t offset, struct rg_buf *buf,
                     struct rg_error *err);

#endif
