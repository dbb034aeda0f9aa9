/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user asked of containers (struct rg_container), the same in the job (job/job.h), on
 * the way to a host, and in the agent's `contain`, which starts the container there. One file for
 * each container runtime makes its command line, see runtime.h.
 *
 * This layer stands on base only: spec, launch and agent use it.
 *
 * Ownership: a zeroed container asks for nothing. It owns all it points to; rg_container_fini frees
 * it. Thread rule: one thread at a time; nothing blocks.
 */
#ifndef RG_CONTAINER_CONTAINER_H
#define RG_CONTAINER_CONTAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

enum rg_pull { RG_PULL_MISSING, RG_PULL_ALWAYS, RG_PULL_NEVER };
/* auto: mount our runtime and Python packages where the image has none */
enum rg_inject { RG_INJECT_AUTO, RG_INJECT_YES, RG_INJECT_NO };

/* Where a container is to run, and for whom: the launcher fills it in, the user never does. */
struct rg_container_place {
    int host_index;      /* in the plan: part of the container's name */
    bool one_host;       /* the job has no other host: no network is needed */
    char *cwd;           /* the caller's directory: mounted where it exists; NULL: none */
    bool cwd_is_sent;    /* where it does not exist ranks get a copy of it (--sync) */
    char *term;          /* the caller's TERM, for a rank with a terminal; NULL: none */
    char *launcher;      /* HOST:PID:START, a label: whose container it is */
    char *bundle_digest;    /* the archive of our Python packages, see bundle.h; NULL: none */
    uint64_t bundle_nbytes; /* of that archive */
    char *bundle_error;     /* why there is none, though it was wanted; or NULL. Stays here */
};

struct rg_container {
    char *image;            /* NULL: no container, ranks run on the bare host */
    char *name;             /* NULL: one that no other container has */
    char *runtime;          /* docker, podman, ..., see runtime.c; NULL: what the host has */
    struct rg_strv mounts;  /* SOURCE[:TARGET[:ro]], absolute paths of the host */
    struct rg_strv options; /* handed to the runtime's command line as they are */
    uint64_t shm_nbytes;    /* size of /dev/shm; 0: our default */
    char *gpus;             /* "all", "2", "0,1", "1,", a device's UUID; NULL: none */
    char *network;          /* host, a name of the runtime's; NULL: host where there are several */
    char *user;             /* UID[:GID] or a name of the image; NULL: the caller */
    enum rg_pull pull;
    enum rg_inject inject;
    bool privileged;
    bool ibdevices;         /* InfiniBand devices, with the locked memory they need */
    struct rg_container_place place;
};

/* Slurm's plug-in pyxis makes it: for our agent it is as a host. */
bool rg_container_by_slurm(const struct rg_container *container);

void rg_container_fini(struct rg_container *container);

/* On the way to a host a container is lines "container FIELD VALUE", one per value that is not the
 * default; bytes of VALUE that are no plain ASCII stand as %XX. */
#define RG_CONTAINER_LINE "container "
#define RG_CONTAINER_TEXT_MAX (64u << 10) /* bytes of all lines */
#define RG_CONTAINER_LISTED_MAX 256       /* mounts, and options */

/* Append the lines. 0; -E2BIG beyond these limits; -ENOMEM. */
int rg_container_format(const struct rg_container *container, struct rg_buf *buf);

/* Put one line, from behind RG_CONTAINER_LINE to before its newline, into container. 0; -EINVAL
 * (no such field, a value that it cannot have), -E2BIG, -ENOMEM; err names the field. */
int rg_container_parse(struct rg_container *container, const char *line, struct rg_error *err);

/* "SOURCE[:TARGET[:ro|rw]]" taken apart, copies in ret_source and ret_target; a target that is not
 * given is the source. 0; -EINVAL (empty, not absolute, an unknown mode), -ENOMEM. */
int rg_container_split_mount(const char *mount, char **ret_source, char **ret_target,
                             bool *ret_read_only, struct rg_error *err);

#endif
