/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jobs that run, as files of the user's: what `reigen jobs` lists and `reigen stop` ends, also
 * when the launcher was killed and could not clean up. One file per job, named by its id, in
 * $XDG_STATE_HOME/reigen/jobs or ~/.local/state/reigen/jobs, there from the plan to the job's end.
 *
 *     launcher HOST:PID:START      whose job it is; START: in clock ticks since boot
 *     grace MS                     what its ranks are given to end
 *     image IMAGE                  with containers; not with Slurm, whose nodes clear up themselves
 *     ssh ARG                      how its hosts are reached, up to the host's name; any number;
 *                                  not with Slurm
 *     host NAME                    any number; USER@NAME with another user
 *     command TEXT
 *
 * Control characters in values stand as blanks. Lines that begin with another word are ignored.
 * Nothing secret is in it; it is readable by the user alone all the same.
 *
 * Thread rule: main thread; reads and writes small files.
 */
#ifndef RG_LAUNCH_REGISTRY_H
#define RG_LAUNCH_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "launch/plan.h"
#include "spec/job.h"

#define RG_REGISTRY_FILE_MAX (1u << 20) /* bytes */
#define RG_REGISTRY_JOBS_MAX 1024       /* what is listed */

struct rg_registry_job {
    char *id;
    char *launcher, *image, *command; /* NULL: not said */
    struct rg_strv ssh, hosts;
    uint64_t grace_ms;
    uint64_t since_s;                 /* when the job began: seconds since 1970 */
};

struct rg_registry {
    struct rg_registry_job *jobs; /* oldest first */
    size_t count;
};

/* Write the job's file. Jobs of this computer alone, without containers, leave nothing that would
 * have to be ended, and get none; nor do those that are launched on a node of Slurm's: scancel ends
 * them from everywhere. *ret_path is the caller's; NULL when there is no file. 0 or -errno: the job
 * can run without one. */
int rg_registry_add(const struct rg_plan *plan, const struct rg_job *job, char **ret_path);
/* Remove what rg_registry_add has made; take_path may be NULL. */
void rg_registry_remove(char *take_path);

/* All jobs of this user. 0 or -ENOMEM; no folder is an empty list. */
int rg_registry_list(struct rg_registry *ret_registry);
void rg_registry_fini(struct rg_registry *registry);
/* Remove the file of a job that is listed. */
void rg_registry_forget(const struct rg_registry_job *job);

/* A file's text. 0; -EINVAL (it names no launcher), -ENOMEM. */
int rg_registry_parse(const char *text, struct rg_registry_job *ret_job);
void rg_registry_job_fini(struct rg_registry_job *job);

/* The launcher's process when it runs on this computer; 0: it is gone; -1: it is on another one. */
int rg_registry_launcher(const struct rg_registry_job *job);

#endif
