/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apptainer, and Singularity, whose command line is the same. A container is a process tree of the
 * caller's own here: no daemon, no names, no labels, the host's network, user, /dev and /dev/shm.
 */
#include <string.h>

#include "base/exitcode.h"
#include "container/runtimes.h"

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

static int refuse(struct rg_error *err, const char *what, const char *remedy)
{
    return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                             "%s: Apptainer cannot do that; %s", what, remedy);
}

static int check(const struct rg_container *container, struct rg_error *err)
{
    if (container->privileged)
        return refuse(err, "--privileged", "leave it out, or take Docker");
    if (container->user && strcmp(container->user, "0") != 0 &&
        strcmp(container->user, "root") != 0)
        return refuse(err, "--user", "its containers run as the caller, or as 0 with --fakeroot");
    return 0;
}

static int add_bind(struct rg_strv *argv, const char *source, const char *target, bool read_only)
{
    return rg_strv_addf(argv, "--bind=%s:%s%s", source, target, read_only ? ":ro" : "");
}

static int add_mounts(const struct rg_container *container, const struct rg_container_host *host,
                      struct rg_strv *argv, struct rg_error *err)
{
    int r = add_bind(argv, host->bin_dir, RG_CONTAINER_BIN, true);

    r = r ? r : add_bind(argv, host->run_dir, RG_CONTAINER_RUN, false);
    if (r == 0 && host->bundle_dir)
        r = add_bind(argv, host->bundle_dir, RG_CONTAINER_PYTHON, true);
    if (r == 0 && host->cwd)
        r = add_bind(argv, host->cwd, host->cwd, false);
    if (r == 0 && host->cwd)
        r = rg_strv_addf(argv, "--pwd=%s", host->cwd);
    for (size_t i = 0; r == 0 && i < container->mounts.count; i++) {
        rg_autofree char *source = NULL, *target = NULL;
        bool read_only;
        r = rg_container_split_mount(container->mounts.v[i], &source, &target, &read_only, err);
        if (r == 0 && *source != '/')
            r = refuse(err, container->mounts.v[i], "it has no named volumes");
        if (r < 0)
            return r;
        r = add_bind(argv, source, target, read_only);
    }
    return r;
}

/* A name that is no file and has no scheme is one of a registry. */
static int add_image(const char *image, struct rg_strv *argv)
{
    size_t n = strlen(image);
    bool file = *image == '/' || *image == '.' || (n > 4 && strcmp(image + n - 4, ".sif") == 0);

    return rg_strv_addf(argv, "%s%s", file || strstr(image, "://") ? "" : "docker://", image);
}

static int add_gpus(const char *gpus, struct rg_strv *argv)
{
    rg_autofree char *devices = rg_container_devices(gpus);
    int r = devices ? rg_strv_add(argv, "--nv") : -ENOMEM;

    return r < 0 || strcmp(devices, "all") == 0
               ? r : rg_strv_addf(argv, "--env=CUDA_VISIBLE_DEVICES=%s", devices);
}

/* What stands for --ibdevices=DEVICE is Docker's; here all devices are there, and the caller's own
 * limits count. */
static int add_options(const struct rg_strv *options, struct rg_strv *argv)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < options->count; i++) {
        if (!rg_str_starts(options->v[i], "--device=") &&
            strcmp(options->v[i], "--cap-add=IPC_LOCK") != 0)
            r = rg_strv_add(argv, options->v[i]);
    }
    return r;
}

static int run(const struct rg_container *container, const struct rg_container_host *host,
               struct rg_strv *argv, struct rg_error *err)
{
    int r = check(container, err);

    if (r < 0)
        return r;
    r = rg_strv_add(argv, host->program);
    r = r ? r : rg_strv_add(argv, "exec");
    r = r ? r : rg_strv_add(argv, "--pid");
    r = r ? r : rg_strv_add(argv, "--cleanenv");
    if (r == 0 && container->user)
        r = rg_strv_add(argv, "--fakeroot");
    if (r == 0 && container->network && strcmp(container->network, "host") != 0)
        r = rg_strv_add(argv, "--net");
    if (r == 0 && container->network && strcmp(container->network, "host") != 0)
        r = rg_strv_addf(argv, "--network=%s", container->network);
    if (r == 0 && container->gpus)
        r = add_gpus(host->gpus ? host->gpus : container->gpus, argv);
    if (r == 0 && container->place.term)
        r = rg_strv_addf(argv, "--env=TERM=%s", container->place.term);
    if (r == 0)
        r = add_mounts(container, host, argv, err);
    r = r ? r : add_options(&container->options, argv);
    r = r ? r : add_image(container->image, argv);
    r = r ? r : rg_strv_add(argv, RG_CONTAINER_BIN "/reigen-agent");
    r = r ? r : rg_strv_add(argv, "inside");
    return r ? r : rg_strv_add(argv, RG_CONTAINER_RUN "/" RG_CONTAINER_SOCKET);
}

/* `exec` fetches what it lacks, and its process is the container. */
const struct rg_container_ops rg_container_apptainer = {
    .name = "apptainer",
    .programs = "apptainer singularity",
    .nameless = true,
    .fetch = "give the path of a .sif file",
    .run = run,
    .missing = NULL,
    .symptoms = symptoms,
};
