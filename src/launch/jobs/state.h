/* SPDX-License-Identifier: Apache-2.0 */
/* Where the files about jobs are, and how they are named. Thread rule: main thread. */
#ifndef RG_LAUNCH_JOBS_STATE_H
#define RG_LAUNCH_JOBS_STATE_H

#include <stdbool.h>

#include "base/buf.h"
#include "job/job.h"

/* $XDG_STATE_HOME/reigen/NAME or ~/.local/state/reigen/NAME, for the caller to free. NULL: neither
 * variable is set, or memory is out. */
char *jobs_folder(const char *name);
/* A file in it. NULL as above. */
char *jobs_path(const char *name, const char *id);
/* Ids go into command lines: nothing but what one can be. */
bool jobs_is_id(const char *text);
/* Append the value; control characters stand as blanks. */
void jobs_put(struct rg_buf *text, const char *value);
/* Append what the job runs, likewise: its title, its command, or of a job with roles the file that
 * they are from, else their names. */
void jobs_put_command(struct rg_buf *text, const struct rg_job *job);

#endif
