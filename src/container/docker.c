/* SPDX-License-Identifier: Apache-2.0 */
/* Docker, from 20.10 on (the first whose `run` has --pull). */
#include <string.h>

#include "container/runtime.h"

#define UNKNOWN "--dockopts or --container-option has an option that docker run does not know"

/* Texts that name both programs are alike in both files: the agent has them once. */
static const struct rg_container_symptom symptoms[] = {
    { "permission denied while trying to connect to the Docker daemon", 77,
      "you may not use Docker here: have the user added to the group docker and log in again, or "
      "take --container-runtime podman" },
    { "Cannot connect to the Docker daemon", 69,
      "the Docker daemon does not run here: start it (systemctl start docker), or take "
      "--container-runtime podman" },
    /* Only to the daemon are there posts; one that does not run at all is told otherwise. */
    { "error during connect: Post", 125,
      "the Docker daemon ended while it made the container: look at its log (journalctl -u "
      "docker), and run again. A process containerd-shim may stay here, which only root can end; "
      "plain docker run leaves it too" },
    { "is already in use by container", 125,
      "a container of this name is there already: give another --dockname, or remove it (docker rm "
      "--force, podman rm --force)" },
    { "no space left on device", 125,
      "the disk that holds Docker's images and containers is full: docker system prune" },
    { "could not select device driver", 125,
      "Docker has no driver for GPUs here: install the NVIDIA container toolkit, or leave --gpus "
      "out" },
    { "error setting rlimit", 125,
      "Docker may not raise a limit here: its daemon lacks CAP_SYS_RESOURCE, which --privileged, "
      "--ibdevices and unlimited --ulimit need" },
    { "calling the host's side", 125,
      "the agent in the container may not enter the job's directory on the host: with rootless "
      "Docker say --user 0:0, where users are remapped --container-option=--userns=host" },
    { "exec format error", 125, "the image is for another architecture than this host" },
    { "bind source path does not exist", 125,
      "a directory to mount is not on this host, or the Docker daemon cannot see it" },
    { "pull access denied", 125,
      "no registry has this image for you: check its name, log in (docker login, podman login), or "
      "load it on this host" },
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
    { "failed to resolve reference", 125,
      "the registry has no such tag of the image: check its name" },
    { "unable to find user", 125, "--user: the image has no such user; give UID:GID" },
    { "No such image", 125, "the image is not on this host: --pull missing fetches it" },
    { "unknown flag: --pull", 125, "this Docker is too old: 20.10 is the first that will do" },
    { "unknown flag: ", 125, UNKNOWN },
    { "unknown shorthand flag: ", 125, UNKNOWN },
    { "Requested CPUs are not available", 125,
      "the container is to have the CPUs that we may use, which Docker's daemon does not have: see "
      "what it is limited to, or name others with --container-option --cpuset-cpus=LIST" },
    { "invalid reference format", 125, "--image: not an image's name" },
    { "operation not permitted", 125,
      "the container was refused: Docker's daemon lacks a right that an option here asks for "
      "(--privileged, --ibdevices, --container-option)" },
    { NULL, 0, NULL },
};

/* --gpus reads its value as comma-separated values: a list of devices has to be quoted in it. */
static void add_gpus(const char *gpus, struct rg_strv *argv)
{
    bool count = strcmp(gpus, "all") == 0 || strspn(gpus, "0123456789") == strlen(gpus);
    size_t length = strlen(gpus); /* "1," is the device 1, "1" any one */

    if (count || strchr(gpus, '='))
        rg_strv_addf(argv, "--gpus=%s", gpus);
    else
        rg_strv_addf(argv, "--gpus=\"device=%.*s\"", (int) (length - (gpus[length - 1] == ',')),
                     gpus);
}

static int run(const struct rg_container *container, const struct rg_container_host *host,
               struct rg_strv *argv, struct rg_error *err)
{
    return rg_oci_run(container, host, rg_oci_add_groups, add_gpus, argv, err);
}

const struct rg_container_ops rg_container_docker = {
    .name = "docker",
    .programs = "docker",
    .fetch = "fetch it with docker pull",
    .run = run,
    .pull = rg_oci_pull,
    .remove = rg_oci_remove,
    .missing = "No such image",
    .symptoms = symptoms,
};
