/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apptainer, and Singularity, whose command line is the same. A container is a process tree of the
 * caller's own here: no daemon, no names, no labels, the host's network, user, /dev and /dev/shm.
 */
#include <string.h>

#include "container/runtime.h"

static const struct rg_container_symptom symptoms[] = {
    { "no such file or directory", 125,
      "the image is not on this host: give the path of a .sif file, or a name of a registry" },
    { "exec format error", 125, "the image is for another architecture than this host" },
    { "architecture", 125, "the image is for another architecture than this host" },
    { "no space left on device", 125,
      "the disk that holds Apptainer's cache is full: make room (apptainer cache clean)" },
    { "unauthorized", 125,
      "no registry has this image for you: check its name, or log in (apptainer registry login)" },
    { "manifest unknown", 125, "the registry has no such tag of the image: check its name" },
    { "user namespace", 77,
      "user name spaces are forbidden on this host: an administrator allows them (sysctl "
      "user.max_user_namespaces), or installs Apptainer with its setuid helper" },
    { NULL, 0, NULL },
};

static int add_bind(struct rg_strv *argv, const char *source, const char *target, bool read_only,
                    struct rg_error *err)
{
    (void) err;
    return rg_strv_addf(argv, "--bind=%s:%s%s", source, target, read_only ? ":ro" : "");
}

/* A name that is no file and has no scheme is one of a registry. */
static void add_image(const char *image, struct rg_strv *argv)
{
    size_t n = strlen(image);
    bool file = *image == '/' || *image == '.' || (n > 4 && strcmp(image + n - 4, ".sif") == 0);

    rg_strv_addf(argv, "%s%s", file || strstr(image, "://") ? "" : "docker://", image);
}

static void add_gpus(const char *gpus, struct rg_strv *argv)
{
    rg_autofree char *devices = rg_container_devices(gpus);

    rg_strv_add(argv, "--nv");
    if (!devices || strcmp(devices, "all") != 0)
        rg_strv_take(argv, devices ? rg_strf("--env=CUDA_VISIBLE_DEVICES=%s", devices) : NULL);
}

/* What stands for --ibdevices=DEVICE is Docker's; here all devices are there, and the caller's own
 * limits count. */
static void add_options(const struct rg_strv *options, struct rg_strv *argv)
{
    for (size_t i = 0; i < options->count; i++) {
        if (!rg_str_starts(options->v[i], "--device=") &&
            strcmp(options->v[i], "--cap-add=IPC_LOCK") != 0)
            rg_strv_add(argv, options->v[i]);
    }
}

static int run(const struct rg_container *container, const struct rg_container_host *host,
               struct rg_strv *argv, struct rg_error *err)
{
    const char *const first[] = { host->program, "exec", "--pid", "--cleanenv" };
    struct rg_container_host mounted = *host; /* it brings the home and the names by itself */
    int r = rg_container_check_own(container, "Apptainer",
                                   "its containers run as the caller, or as 0 with --fakeroot",
                                   err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < rg_array_len(first); i++)
        rg_strv_add(argv, first[i]);
    if (container->user)
        rg_strv_add(argv, "--fakeroot");
    if (container->network && strcmp(container->network, "host") != 0) {
        rg_strv_add(argv, "--net");
        rg_strv_addf(argv, "--network=%s", container->network);
    }
    if (container->gpus)
        add_gpus(host->gpus ? host->gpus : container->gpus, argv);
    if (container->place.term)
        rg_strv_addf(argv, "--env=TERM=%s", container->place.term);
    mounted.passwd = mounted.group = mounted.home = NULL;
    r = rg_container_mount_ours(&mounted, add_bind, argv, err);
    if (host->cwd)
        rg_strv_addf(argv, "--pwd=%s", host->cwd);
    r = r ? r : rg_container_mount_users(container, add_bind, argv, err);
    if (r < 0)
        return r;
    add_options(&container->options, argv);
    add_image(container->image, argv);
    rg_strv_add(argv, RG_CONTAINER_BIN "/reigen-agent");
    rg_strv_add(argv, "inside");
    rg_strv_add(argv, RG_CONTAINER_RUN "/" RG_CONTAINER_SOCKET);
    return rg_strv_status(argv);
}

/* `exec` fetches what it lacks, and its process is the container. */
const struct rg_container_ops rg_container_apptainer = {
    .name = "apptainer",
    .programs = "apptainer singularity",
    .nameless = true,
    .fetch = "give the path of a .sif file",
    .run = run,
    .symptoms = symptoms,
};
