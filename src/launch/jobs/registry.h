/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's jobs, as files: what `reigen jobs` and `status` list and `reigen stop` ends, also when
 * the launcher was killed and could not clean up. One file per job, named by its id, there from the
 * plan to the job's end in $XDG_STATE_HOME/reigen/jobs or ~/.local/state/reigen/jobs. The files of
 * the RG_REGISTRY_ENDED_MAX jobs that ended last are in the folder `ended` beside it, and the logs
 * of those that have detached, as long as one of these files is there, in `logs`.
 *
 *     launcher HOST:PID:START      whose job it is; START: in clock ticks since boot
 *     kernel BOOT PIDNS MACHINE    the boot's id, the launcher's pid name space, /etc/machine-id or
 *                                  "-": with these a launcher can be proved dead
 *     locked                       the launcher holds a lock on the file (flock) while it lives
 *     grace MS                     what its ranks are given to end
 *     ranks N
 *     began SECONDS                since 1970
 *     PLATFORM NUMBER              of the platform's job that it runs in: "slurm 12"
 *     output KIND [PATH]           where its ranks' output goes: dir, file, terminal, pipe, none;
 *                                  log: it has detached, and keeps it itself
 *     tags yes                     in that log lines begin with their rank's number
 *     record PATH                  the folder of its record (--record)
 *     skip NBYTES                  what was in that file before
 *     image IMAGE                  with containers; not where the platform clears up by itself
 *     ssh ARG                      how its hosts are reached, up to the host's name; any number;
 *                                  not where it clears up by itself
 *     host NAME                    any number; USER@NAME with another user
 *     command TEXT
 *     starts yes                   it will say when its ranks run, by
 *     running yes                  which is added then; a restart adds `starts` again
 *     restart ID                   its id since it was started again; any number, the last counts
 *     exit CODE                    only of a job that has ended; not of one that was killed
 *
 * Control characters in values stand as blanks. Lines that begin with another word are ignored.
 * Nothing secret is in it; it is readable by the user alone all the same.
 *
 * A job is dead when that is proved: the process is gone, as its own pid name space shows; the lock
 * is free, as the kernel shows that it runs on; or its computer, outside containers, has booted
 * again. Whatever else is missing, another computer's or container's say, is "elsewhere", and
 * stays.
 *
 * Thread rule: main thread; reads and writes small files.
 */
#ifndef RG_LAUNCH_JOBS_REGISTRY_H
#define RG_LAUNCH_JOBS_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "launch/plan/plan.h"
#include "job/job.h"
#include "job/platform.h"

#define RG_REGISTRY_FILE_MAX (1u << 20) /* bytes */
#define RG_REGISTRY_JOBS_MAX 1024       /* what is listed */

#define RG_REGISTRY_ENDED_MAX 32        /* jobs that have ended and are remembered */
#define RG_REGISTRY_LOGS_NBYTES (1ull << 30) /* of those; the newest one's log is kept anyway */
#define RG_REGISTRY_SWEEP_MS 50

enum rg_registry_state {
    RG_JOB_RUNS,
    RG_JOB_DEAD,      /* its launcher is gone, and could not clean up */
    RG_JOB_ELSEWHERE, /* it is not known here */
    RG_JOB_ENDED,
};

struct rg_registry_job {
    char *id;
    char *launcher, *image, *command; /* NULL: not said, as below */
    char *kernel;
    const struct rg_platform *within; /* it is part of a job of this platform's; NULL: of none */
    char *within_id;                  /* whose number this is */
    char *output;                     /* "dir /path", as above */
    char *record;
    struct rg_strv ssh, hosts;
    struct rg_strv restarts;          /* the ids of its later starts */
    uint64_t grace_ms;
    uint64_t skip_nbytes;
    int nranks;                       /* 0: not said */
    int exit_code;                    /* -1: it has not ended, or could not say so */
    bool locked;
    bool tags;
    bool starts;                      /* its ranks do not run yet: hosts are on their way */
    bool ended;                       /* it is among those that have */
    uint64_t began_s;                 /* seconds since 1970 */
    uint64_t touched_ns;              /* of one that has ended: when it did */
};

struct rg_registry {
    struct rg_registry_job *jobs; /* what began, or ended, first comes first */
    size_t count;
    struct rg_strv remarks; /* about files that are passed over: which, and why */
};

/* A job's own file. */
struct rg_registration {
    char *path; /* NULL: there is none */
    int fd;     /* holds the lock */
};

#define RG_REGISTRATION_INIT { NULL, -1 }

/* Write the job's file. 0 or -errno: the job can run without one. */
int rg_registry_add(const struct rg_plan *plan, const struct rg_job *job,
                    struct rg_registration *ret_own);
/* Make the log of a job that detaches. 0 and a descriptor for the caller, which appends and is
 * closed on exec; or -errno with err, which names the file. It goes when the job's file does. */
int rg_registry_make_log(const char *id, int *ret_fd, struct rg_error *err);
/* The job has got no file: its log would stay for ever. */
void rg_registry_remove_log(const char *id);
/* The job is started again, and has this id now; it stays one job, known by all its ids. */
void rg_registry_restart(const struct rg_registration *own, const char *id);
/* Its ranks run. */
void rg_registry_running(const struct rg_registration *own);
/* The job has ended with this exit code; -1: it never began, and is forgotten. */
void rg_registry_end(struct rg_registration *own, int exit_code);

/* All jobs of this user, or those that ended last. 0 or -ENOMEM; no folder is an empty list. */
int rg_registry_list(struct rg_registry *ret_registry);
int rg_registry_list_ended(struct rg_registry *ret_registry);
void rg_registry_fini(struct rg_registry *registry);
/* A job that is listed has ended: move its file to those. */
void rg_registry_forget(const struct rg_registry_job *job);
/* Do so with the dead ones that can have left nothing but their file (those with containers may
 * have left these), and remove logs of a day ago that belong to no job. Takes
 * RG_REGISTRY_SWEEP_MS at most. Returns how many dead ones there were. */
size_t rg_registry_sweep(void);

/* Whether its computer was started again since, as far as that can be told here. */
bool rg_registry_rebooted(const struct rg_registry_job *job);
/* What has become of it. RG_JOB_DEAD is proved, but of files without `kernel`. */
enum rg_registry_state rg_registry_state(const struct rg_registry_job *job);

/* A file's text. 0; -EINVAL (it names no launcher), -ENOMEM. */
int rg_registry_parse(const char *text, struct rg_registry_job *ret_job);
void rg_registry_job_fini(struct rg_registry_job *job);

/* The id of its last start, which its launcher is asked under; the job's. */
const char *rg_registry_id_now(const struct rg_registry_job *job);
/* Of one that was listed as running: whether it has ended, or died, meanwhile. */
bool rg_registry_is_over(const struct rg_registry_job *job);

/* Whether its ranks do not run yet, as of now. */
bool rg_registry_starts(const struct rg_registry_job *job);

/* The launcher's process when it can be signalled from here; 0: it is gone; -1: neither. */
int rg_registry_launcher(const struct rg_registry_job *job);

#endif
