/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that were handed to a platform, which runs them when it can (--submit). Of each the user has
 * a file, $XDG_STATE_HOME/reigen/PLATFORM/ID or ~/.local/state/reigen/PLATFORM/ID, by which it is
 * found again; everything else the platform knows (struct rg_driver_ops).
 *
 *     log PATH          where its output goes
 *     cluster NAME      among several of the platform's; not where there is but one
 *     command TEXT
 *     begin [SECONDS]   the job itself adds it when it begins, with the wall clock's seconds where
 *                       it counts its runs: it may run again after an end
 *     exit CODE         and this when it ends
 *
 * Beside these files lie the plans of the jobs (plan.XXXXXX), which their heads read.
 *
 * Thread rule: main thread; reads and writes small files.
 */
#ifndef RG_LAUNCH_JOBS_SUBMITTED_H
#define RG_LAUNCH_JOBS_SUBMITTED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "job/job.h"
#include "job/platform.h"

#define RG_SUBMITTED_ID_MAX 64
#define RG_SUBMITTED_NAME_MAX 52 /* with a number behind it, it fits into 63 */

enum rg_submitted_state {
    RG_SUBMITTED_UNKNOWN, /* the platform was not asked, or does not answer */
    RG_SUBMITTED_WAITS,
    RG_SUBMITTED_RUNS,
    RG_SUBMITTED_ENDED,
};

struct rg_submitted_job {
    const struct rg_platform *platform;
    char id[RG_SUBMITTED_ID_MAX]; /* the platform's: see rg_submitted_is_id */
    char *log, *command;          /* what its file says */
    char *cluster;                /* or NULL; only the driver knows what it says */
    int exit_code;                /* -1: it has not ended, or could not say so */
    enum rg_submitted_state state; /* what the platform says; its texts are NULL or "" where it has
                                      said nothing */
    char *word;                   /* "RUNNING"; of one that has ended "CANCELLED" */
    char *reason;                 /* why it waits, or why the platform could not start it */
    char *hint;                   /* the end of a sentence: what that means, and what helps */
    char *since;                  /* when it was handed over, "2026-11-30T14:05:09"; or NULL */
    char *elapsed;                /* "0:10" */
    char *nodes;                  /* "node[1-2]" */
    struct rg_strv remarks;       /* what the driver has to say of its submission */
};

struct rg_submitted_list {
    struct rg_submitted_job *jobs;
    size_t count;
    struct rg_strv remarks; /* about files that are passed over: which, and why */
};

/* Whether its exit code is the last that its file will have. One that the platform's own doing may
 * have caused is not: it may have put the job back into its queue. */
bool rg_submitted_is_over(const struct rg_submitted_job *job);

/* The folder with their files, made if need be; err has exit code 2. NULL with err. */
char *rg_submitted_folder(const struct rg_platform *platform, struct rg_error *err);
/* Whether a text is an id: less than RG_SUBMITTED_ID_MAX letters, digits, '-' and '_', no '-'
 * first. */
bool rg_submitted_is_id(const char *text);
/* What a job's name is, which its platform is to bear: at most RG_SUBMITTED_NAME_MAX lower-case
 * letters, digits and '-', a letter first. 0, or -EINVAL with err; what names the option. */
int rg_submitted_name_check(const char *what, const char *name, struct rg_error *err);
/* "reigen-" and some letters, for a job without a name: into text. 0 or -EIO with err. */
int rg_submitted_name_make(char text[RG_SUBMITTED_ID_MAX], struct rg_error *err);

/* A new file there, for the plan of a job that is to be submitted. NULL with err. */
char *rg_submitted_plan(const struct rg_platform *platform, struct rg_error *err);
/* Write the file of one that has just been submitted; platform, id, log and cluster are set. Files
 * of long ago go. 0 or -errno. */
int rg_submitted_add(const struct rg_submitted_job *submitted, const struct rg_job *job);

/* Set one of the platform's texts; NULL is "". */
void rg_submitted_set(char **text, const char *value);
/* And elapsed: since that time, in seconds as time(2) counts them. */
void rg_submitted_set_elapsed(struct rg_submitted_job *job, int64_t since_s);
/* Its platform has said with which code it ended: note that, for when it is forgotten there. */
void rg_submitted_end(const struct rg_submitted_job *submitted);

/* What its file says. 0 and the caller's job; -EINVAL: that is no id; -ENOENT and others: there is
 * no such file. */
int rg_submitted_read(const struct rg_platform *platform, const char *id,
                      struct rg_submitted_job *ret_job);
/* Append all of this platform, lowest id first. 0 or -ENOMEM. */
int rg_submitted_list(const struct rg_platform *platform, struct rg_submitted_list *list);
void rg_submitted_fini(struct rg_submitted_job *job);
void rg_submitted_list_fini(struct rg_submitted_list *list);

#endif
