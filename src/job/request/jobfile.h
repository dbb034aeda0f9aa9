/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job file: YAML, one mapping whose keys are the options' names (job/options/options.h), plus
 * `command` and `version`. docs/jobfile.md describes it. Strict: unknown keys, repeated keys,
 * aliases and values of the wrong kind are errors, each with file, line, column, the value, and
 * what is allowed.
 *
 * Thread rule: any thread, one request at a time. rg_jobfile_read blocks on reading the file.
 */
#ifndef RG_JOB_REQUEST_JOBFILE_H
#define RG_JOB_REQUEST_JOBFILE_H

#include <stddef.h>

#include "base/error.h"
#include "job/options/options.h"

#define RG_JOBFILE_ITEMS_MAX 65536 /* of one list or mapping */

/* Keys that no option has: name and meaning, for the man page; NULL-named entry at the end. */
struct rg_jobfile_key {
    const char *name, *arg, *help;
};
extern const struct rg_jobfile_key rg_jobfile_keys[];

/* Put what the text says into the request. path names it in errors. 0, -EINVAL (exit_code 2),
 * -ENOMEM; after an error what came before it is in the request. */
int rg_jobfile_parse(struct rg_request *request, const char *path, const char *text, size_t nbytes,
                     struct rg_error *err);

/* Read the file first; the request's reader of other files may take it. Else it stands above the
 * user's configuration, which comes first. Also -ENOENT, -EACCES,
 * -EFBIG, ...: exit_code 2. A relative hostfile, cwd or output-dir in it is relative to the
 * caller's directory, as on a command line. */
int rg_jobfile_read(struct rg_request *request, const char *path, struct rg_error *err);

#endif
