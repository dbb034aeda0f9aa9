/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container runtime: command lines, and what its complaints mean. One file each (docker.c,
 * podman.c, apptainer.c, enroot.c), one line in the table of runtime.c. All functions are pure:
 * from what the user asked for (struct rg_container) and what was found on the host (struct
 * rg_container_host) to an argument list; the agent's `contain` runs it, and --dry-run prints it.
 * So a test compares whole argument lists, and no runtime is needed for it.
 *
 * In every container our agent is the first process. It is mounted read-only at RG_CONTAINER_BIN,
 * the directory of the job at RG_CONTAINER_RUN, so nothing is asked of the image: no shell (but
 * with enroot), no libc, no user, no writable root.
 *
 * Thread rule: constant tables and pure functions; nothing blocks.
 */
#ifndef RG_CONTAINER_RUNTIME_H
#define RG_CONTAINER_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"
#include "container/container.h"

#define RG_CONTAINER_BIN "/reigen/bin"
#define RG_CONTAINER_RUN "/reigen/run"
#define RG_CONTAINER_PYTHON "/reigen/python"
#define RG_CONTAINER_CID "cid"     /* beside bin_dir: the id of a container that the user named */
#define RG_CONTAINER_SCRIPT "start.sh" /* beside bin_dir: what `script` says */
#define RG_CONTAINER_SOCKET "boot" /* in RG_CONTAINER_RUN: where the agent gets its descriptors */

/* What the host's side found out. All strings are borrowed. */
struct rg_container_host {
    const char *program;   /* "docker", or its path */
    const char *name;      /* of the container without one of the user's: reigen-<job>-<place> */
    const char *job_id;
    uid_t uid;             /* the caller's */
    gid_t gid;
    const gid_t *groups;   /* supplementary, without gid */
    size_t ngroups;
    const char *user_name; /* the caller's, or NULL */
    const char *home;      /* the caller's HOME to mount at its own path, or NULL */
    const char *cwd;       /* to mount at its own path and to start in, or NULL */
    const char *bin_dir;   /* mounted at RG_CONTAINER_BIN */
    const char *run_dir;   /* mounted at RG_CONTAINER_RUN */
    const char *passwd;    /* files to mount as /etc/passwd and /etc/group; NULL: the image's own */
    const char *group;
    const char *bundle_dir;   /* mounted at RG_CONTAINER_PYTHON; NULL: none */
    const char *image_dir; /* where files of images are kept; NULL for Docker and Podman */
    const char *gpus;      /* container->gpus as this process's own control group numbers them;
                              NULL: as they are */
    uint64_t shm_nbytes;   /* when the user named none */
    const char *cpus;      /* those that are ours, "0-3,8", where that is not all; else NULL */
    bool no_gpus;          /* Slurm has given none: also what an image itself asks for is refused */
    bool infiniband;       /* there are devices in /dev/infiniband */
    bool selinux;          /* the host labels its files */
};

/* A text that a runtime says when it fails, and what that means. */
struct rg_container_symptom {
    const char *needle;
    int exit_code;    /* of the documented table */
    const char *text; /* cause and remedy */
};

struct rg_container_ops {
    const char *name;
    const char *programs; /* names in PATH, separated by blanks */
    bool nameless;        /* its containers have no names: nothing to find or remove them by */
    bool shares_pids;     /* no process ids of its own: nothing ends with the first process */
    const char *script;   /* what `run` wants to find as bin_dir/../RG_CONTAINER_SCRIPT; or NULL */
    const char *fetch;    /* how a user gets an image here: "fetch it with docker pull" */
    /* The container's command line, up to and with the agent's own arguments. -EINVAL with err when
     * this runtime cannot do what is asked. */
    int (*run)(const struct rg_container *container, const struct rg_container_host *host,
               struct rg_strv *argv, struct rg_error *err);
    /* Fetch the image; argv stays empty where there is nothing to fetch. NULL: `run` does it
     * itself. 0 or -ENOMEM. */
    int (*pull)(const struct rg_container *container, const struct rg_container_host *host,
                struct rg_strv *argv);
    /* End the container and remove it, hard. NULL: the end of the runtime's own process is enough.
     * 0 or -ENOMEM. */
    int (*remove)(const char *program, const char *name, struct rg_strv *argv);
    const char *missing; /* the image is not here, in this runtime's words; NULL: never says so */
    const struct rg_container_symptom *symptoms; /* ends with a NULL needle; the first one counts */
};

/* GPUs for runtimes that cannot count: "all", or names such as "0,1". A number in gpus is so many,
 * from 0 on; "1," is the device 1; NULL gives "". On the heap, or NULL without memory. */
char *rg_container_devices(const char *gpus);

/* All runtimes, in the order in which they are looked for; NULL-terminated. */
extern const struct rg_container_ops *const rg_container_runtimes[];
/* The one of this name, or of a program of this name; NULL. */
const struct rg_container_ops *rg_container_find(const char *name);

/* What a failure's text means. Always fills err: a known symptom's exit code and text, else 125 and
 * the last line of what the runtime said. Returns -errno as rg_error_set does. */
int rg_container_explain(const struct rg_container_ops *ops, const char *said,
                         struct rg_error *err);

/* --- for the runtimes' files ------------------------------------------------------------------ */

extern const struct rg_container_ops rg_container_docker;
extern const struct rg_container_ops rg_container_podman;
extern const struct rg_container_ops rg_container_apptainer; /* and singularity */
extern const struct rg_container_ops rg_container_enroot;

/* How a runtime says one mount: appended to argv. 0, -EINVAL with err, or -ENOMEM. */
typedef int rg_container_mount_fn(struct rg_strv *argv, const char *source, const char *target,
                                  bool read_only, struct rg_error *err);
/* Mount what we need, as far as host has it; and what the user asked for. As mount returns. */
int rg_container_mount_ours(const struct rg_container_host *host, rg_container_mount_fn *mount,
                            struct rg_strv *argv, struct rg_error *err);
int rg_container_mount_users(const struct rg_container *container, rg_container_mount_fn *mount,
                             struct rg_strv *argv, struct rg_error *err);

/* -EINVAL, exit code 2: this runtime, by its title, cannot do what was asked for. */
int rg_container_refuse(const char *title, const char *what, const char *remedy,
                        struct rg_error *err);
/* Refuse what no runtime can do whose containers are processes of the caller's: other rights, named
 * volumes, and users but 0. users: what to do about that. 0 or -EINVAL. */
int rg_container_check_own(const struct rg_container *container, const char *title,
                           const char *users, struct rg_error *err);

/* Docker's command line, as far as Podman understands the same. The rest is for add_groups, of a
 * container whose user is the caller, and add_gpus to append. As `run` returns. */
int rg_oci_run(const struct rg_container *container, const struct rg_container_host *host,
               void (*add_groups)(const struct rg_container_host *host, struct rg_strv *argv),
               void (*add_gpus)(const char *gpus, struct rg_strv *argv), struct rg_strv *argv,
               struct rg_error *err);
void rg_oci_add_groups(const struct rg_container_host *host, struct rg_strv *argv); /* each */
int rg_oci_pull(const struct rg_container *container, const struct rg_container_host *host,
                struct rg_strv *argv);
/* How much of an image a `docker pull` has fetched and unpacked, in percent, by the lines that it
 * has printed so far; -1: they do not say. */
int rg_oci_pull_percent(const char *said);
int rg_oci_remove(const char *program, const char *name, struct rg_strv *argv);

#endif
