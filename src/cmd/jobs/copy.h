/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder into which the files of a record are copied. This header is internal to src/cmd/jobs.
 *
 * Thread rule: one thread; all of it waits for the file system.
 */
#ifndef RG_CMD_JOBS_COPY_H
#define RG_CMD_JOBS_COPY_H

#include <stddef.h>

#include "base/error.h"

/* Make the folder, or take one that has nothing or an older copy of the same record, and put there
 * what a text has that is NUL-terminated and begins behind RG_HEAD_RECORD: files replace their
 * older ones, and what did not come goes. The events get RG_RECORD_COPIED at their end. 0; -errno
 * with err and its exit code: 69 where it is no record, or is cut; 2 where the folder has something
 * else, such as another job's record, and stays as it is; 74 and 77 as for a record. */
int rg_jobs_copy(const char *path, const char *text, struct rg_error *err);

/* A file of a record, as the head's side gave it. */
struct rg_jobs_record_file {
    const char *name;  /* one of record/files.h; static */
    const char *bytes; /* of the text; borrowed */
    size_t nbytes;
};

/* The next of such a text; *text goes on behind it. 1; 0: there are no more; -EPROTO: it is cut,
 * or is none. */
int rg_jobs_record_next(const char **text, struct rg_jobs_record_file *ret_file);

#endif
