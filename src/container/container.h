/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user asked of containers (struct rg_container), the same in the job (spec/job.h), on the
 * way to a host, and in the agent's `contain`, which starts the container there. The command line of
 * each container runtime is made from it by one file each, see runtime.h.
 *
 * This layer stands on base only: spec, launch and agent use it.
 *
 * Ownership: a container owns all it points to; rg_container_fini frees it. Thread rule: one thread
 * at a time; nothing blocks.
 */
#ifndef RG_CONTAINER_CONTAINER_H
#define RG_CONTAINER_CONTAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum rg_pull { RG_PULL_MISSING, RG_PULL_ALWAYS, RG_PULL_NEVER };
/* auto: mount our runtime and Python packages where the image has none */
enum rg_inject { RG_INJECT_AUTO, RG_INJECT_YES, RG_INJECT_NO };

struct rg_container {
    char *image;            /* NULL: no container, ranks run on the bare host */
    char *runtime;          /* docker, podman, apptainer, singularity; NULL: what the host has */
    struct rg_strv mounts;  /* SOURCE[:TARGET[:ro]], absolute paths of the host */
    struct rg_strv options; /* handed to the runtime's command line as they are */
    uint64_t shm_nbytes;    /* size of /dev/shm; 0: our default */
    char *gpus;             /* "all", "2", "0,1", a device's UUID; NULL: none */
    char *network;          /* host, the runtime's own names, or NULL: host for jobs on several hosts */
    char *user;             /* UID[:GID] or a name of the image; NULL: the caller */
    enum rg_pull pull;
    enum rg_inject inject;
    bool privileged;
    bool ibdevices;         /* InfiniBand devices, with the locked memory they need */
};

void rg_container_init(struct rg_container *container);
void rg_container_fini(struct rg_container *container);

#endif
