/* SPDX-License-Identifier: Apache-2.0 */
/* Podman, from 4.0 on; an ordinary user needs no daemon and no rights with it. */
#include <string.h>

#include "container/runtime.h"

#define UNKNOWN "--dockopts or --container-option has an option that podman run does not know"

/* Texts that name both programs are alike in both files: the agent has them once. */
static const struct rg_container_symptom symptoms[] = {
    { "cannot find UID/GID for user", 77,
      "Podman has no range of user ids for this user: an administrator adds one to /etc/subuid and "
      "/etc/subgid (usermod --add-subuids)" },
    { "newuidmap", 77,
      "Podman cannot make a user name space: the package uidmap and a range in /etc/subuid and "
      "/etc/subgid are needed" },
    { "cannot clone: Operation not permitted", 77,
      "user name spaces are forbidden on this host: an administrator allows them (sysctl "
      "user.max_user_namespaces), or takes Docker" },
    { "is already in use", 125,
      "a container of this name is there already: give another --dockname, or remove it (docker rm "
      "--force, podman rm --force)" },
    { "unknown flag: ", 125, UNKNOWN },
    { "unknown shorthand flag: ", 125, UNKNOWN },
    { "no space left on device", 125,
      "the disk that holds Podman's images and containers is full: make room (podman system "
      "prune)" },
    { "unresolvable CDI devices", 125,
      "Podman knows no GPUs here: make their description with nvidia-ctk cdi generate, or leave "
      "--gpus out" },
    { "setrlimit", 125,
      "Podman may not raise a limit here: that takes CAP_SYS_RESOURCE, which --privileged, "
      "--ibdevices and unlimited --ulimit need" },
    { "exec format error", 125, "the image is for another architecture than this host" },
    { "statfs", 125, "a directory to mount is not on this host" },
    { "image not known", 125, "the image is not on this host: --pull missing fetches it" },
    { "short-name", 125,
      "Podman does not know which registry is meant: write the image's whole name, such as "
      "docker.io/library/python:3.12" },
    { "dial tcp", 125,
      "the image is not on this host, and its registry cannot be reached: check its name, or load "
      "it on this host" },
    { "toomanyrequests", 125,
      "the registry lets this address fetch no more for now: log in (docker login, podman "
      "login), try again later, or load the image on this host" },
    { "unauthorized", 125,
      "no registry has this image for you: check its name, log in (docker login, podman login), or "
      "load it on this host" },
    { "x509: ", 125, "the certificate of the image's registry is not trusted on this host" },
    { "name unknown", 125, "the registry has no image of this name: check it" },
    { "manifest unknown", 125, "the registry has no such tag of the image: check its name" },
    { "requested access to the resource is denied", 125,
      "no registry has this image for you: check its name, log in (docker login, podman login), or "
      "load it on this host" },
    { "unable to find user", 125, "--user: the image has no such user; give UID:GID" },
    { "operation not permitted", 125,
      "the container was refused: an option here asks for a right that Podman does not have "
      "(--privileged, --ibdevices, --container-option)" },
    { NULL, 0, NULL },
};

/* Without root, the caller must be the same user inside; groups can only be kept, not named. */
static void add_groups(const struct rg_container_host *host, struct rg_strv *argv)
{
    if (host->uid == 0) {
        rg_oci_add_groups(host, argv);
        return;
    }
    rg_strv_add(argv, "--userns=keep-id");
    if (host->ngroups > 0)
        rg_strv_add(argv, "--group-add=keep-groups");
}

static void add_gpus(const char *gpus, struct rg_strv *argv)
{
    rg_autofree char *list = rg_container_devices(gpus);

    if (!list)
        rg_strv_take(argv, NULL);
    for (char *one, *rest = list; (one = strsep(&rest, ","));) {
        if (*one)
            rg_strv_addf(argv, "--device=nvidia.com/gpu=%s", one);
    }
}

static int run(const struct rg_container *container, const struct rg_container_host *host,
               struct rg_strv *argv, struct rg_error *err)
{
    /* Without root its containers inherit our cpus, and cpusets are seldom to be had. */
    struct rg_container_host seen = *host;

    if (host->uid != 0)
        seen.cpus = NULL;
    return rg_oci_run(container, &seen, add_groups, add_gpus, argv, err);
}

const struct rg_container_ops rg_container_podman = {
    .name = "podman",
    .programs = "podman",
    .fetch = "fetch it with podman pull",
    .run = run,
    .pull = rg_oci_pull,
    .remove = rg_oci_remove,
    .missing = "image not known",
    .symptoms = symptoms,
};
