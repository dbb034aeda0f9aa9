/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's enroot, from 3.1 on. As with Apptainer a container is a process tree of the caller's
 * own, without daemon, name, label or network of its own; unlike there, it has no process ids of
 * its own either. It is started from a squashfs file, never from a root file system that `enroot
 * create` has unpacked: so what the container writes lies in memory, and nothing is left behind.
 */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "container/runtime.h"

#define NAME_MAX_NBYTES 255 /* of a file */
#define TITLE "enroot" /* in sentences */
#define NOT_IN_MOUNTS " \t\n:"

static const struct rg_container_symptom symptoms[] = {
    { "Command not found: nvidia-container-cli", 125,
      "enroot cannot give GPUs here: libnvidia-container's tools are not installed; install them, "
      "or leave --gpus out" },
    { "Command not found:", 69,
      "enroot lacks a program here; to start an image it needs squashfuse and fuse-overlayfs, to "
      "fetch one curl, jq, parallel, zstd and squashfs-tools" },
    { "compression", 125,
      "squashfuse cannot read the image as it was packed: set ENROOT_SQUASH_OPTIONS='-comp lz4 "
      "-noD' in enroot.conf, and say --pull always once" },
    { "Failed to mount: ", 125,
      "enroot could not mount the image: see whether squashfuse (of fuse3) and fuse-overlayfs work "
      "on this host" },
    { "cannot create directory", 77,
      "enroot may not make its directories on this host: have ENROOT_RUNTIME_PATH, "
      "ENROOT_CACHE_PATH and ENROOT_DATA_PATH set in enroot.conf" },
    { "user namespace", 77,
      "user name spaces are forbidden on this host: an administrator allows them (sysctl "
      "user.max_user_namespaces)" },
    { "no space left on device", 125, "the disk that holds enroot's images is full: make room" },
    { "error code: 401", 125,
      "no registry has this image for you: check its name, or put your password for the registry "
      "into enroot's .credentials" },
    { "error code: 404", 125, "the registry has no such image or tag: check its name" },
    { "Could not resolve host", 125,
      "the image is not on this host, and its registry cannot be reached: check its name, or give "
      "the path of a .sqsh file" },
    { "Failed to connect", 125,
      "the image is not on this host, and its registry cannot be reached: check its name, or give "
      "the path of a .sqsh file" },
    { "Invalid image reference", 125, "--image: not an image's name" },
    { "Invalid argument: /", 125,
      "the image is not on this host, or is no squashfs file, or squashfs-tools are not installed: "
      "give the path of a .sqsh file, or the name of a registry's image" },
    { "failed to mount: ", 125,
      "enroot could not mount what it was asked to; is each directory on this host?" },
    { "failed to execute: ", 125, "enroot starts only images that have a shell, /bin/sh" },
    { "exec format error", 125, "the image is for another architecture than this host" },
    { NULL, 0, NULL },
};

/* enroot runs a script in the image's shell; the image's own would start its entry point. The first
 * argument is the directory to start in; where it is empty, the image's own script tells which. */
static const char start_script[] =
    "d=$1; shift\n"
    "if [ -z \"$d\" ] && [ -r /etc/rc ]; then\n"
    "while IFS= read -r l; do case $l in\n"
    "'cd \"'*'\" && '*) d=${l#cd \\\"}; d=${d%%\\\"*} ;;\n"
    "esac; done </etc/rc\n"
    "fi\n"
    "cd \"${d:-/}\" 2>/dev/null || cd /; unset OLDPWD\n"
    "exec \"$@\"\n";

/* Arguments: enroot, the image's address, the file, and "always" or nothing. Of several jobs at
 * once one fetches; the file has its name once it is whole. What a killed one has left is removed
 * by the next. */
static const char import_script[] =
    "umask 077; exec 9>\"$3.lock\" && flock 9 || exit\n"
    "[ \"$4\" != always ] && [ -e \"$3\" ] && exit 0\n"
    "rm -f \"$3\".part.sqsh\n"
    "\"$1\" import --output \"$3\".part.sqsh -- \"$2\" 9>&- && mv -f \"$3\".part.sqsh \"$3\"\n";

static int check(const struct rg_container *container, struct rg_error *err)
{
    if (container->network && strcmp(container->network, "host") != 0)
        return rg_container_refuse(TITLE, "--network", "its containers have the host's network",
                                   err);
    return rg_container_check_own(container, TITLE, "its containers run as the caller, or as 0",
                                  err);
}

/* --- images ---------------------------------------------------------------------------------- */

/* A file's path; all else is the name of a registry's image. */
static bool is_file(const char *image)
{
    size_t n = strlen(image);

    return *image == '/' || *image == '.' || (n > 5 && strcmp(image + n - 5, ".sqsh") == 0);
}

/* enroot writes nvcr.io#nvidia/x for what is nvcr.io/nvidia/x elsewhere, and docker.io is its
 * default, by another name. */
static char *make_address(const char *image)
{
    static const char *const defaults[] = { "docker.io/", "index.docker.io/" };
    size_t n = strcspn(image, "/");

    if (strstr(image, "://"))
        return strdup(image);
    for (size_t i = 0; i < rg_array_len(defaults); i++)
        if (rg_str_starts(image, defaults[i]))
            return rg_strf("docker://%s", image + strlen(defaults[i]));
    bool local = n == 9 && strncmp(image, "localhost", n) == 0;
    if (!strchr(image, '#') && image[n] && (local || strcspn(image, ".:") < n))
        return rg_strf("docker://%.*s#%s", (int) n, image, image + n + 1);
    return rg_strf("docker://%s", image);
}

/* An address as a file's name: no ':', at which overlays part their directories, nor a quote. */
static void put_name(struct rg_buf *path, const char *address)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789._-@";

    if (rg_str_starts(address, "docker://"))
        address += 9;
    for (; *address; address++) {
        if (strchr("/#", *address))
            rg_buf_printf(path, "+");
        else if (*address == ':')
            rg_buf_printf(path, "++");
        else
            rg_buf_printf(path, "%c", strchr(plain, *address) ? *address : '_');
    }
}

/* Where the image lies: the user's own file, or the one that is fetched. */
static int put_path(const struct rg_container *container, const struct rg_container_host *host,
                    struct rg_buf *path)
{
    const char *cwd = container->place.cwd;
    const char *image = container->image;

    if (is_file(image)) {
        if (*image != '/' && cwd)
            rg_buf_printf(path, "%s/", cwd);
        rg_buf_printf(path, "%s", image);
        return rg_buf_status(path);
    }
    rg_autofree char *address = make_address(image);
    if (!address)
        return -ENOMEM;
    rg_buf_printf(path, "%s/", host->image_dir);
    put_name(path, address);
    rg_buf_printf(path, ".sqsh");
    return rg_buf_status(path);
}

static int check_path(const char *image, const char *path, struct rg_error *err)
{
    const char *name = strrchr(path, '/');

    if (strlen(name ? name : path) > NAME_MAX_NBYTES - sizeof(".part.sqsh"))
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--image %.80s...: too long a name", image);
    return 0;
}

/* --- the command line ------------------------------------------------------------------------ */

static int add_mount(struct rg_strv *argv, const char *source, const char *target, bool read_only,
                     struct rg_error *err)
{
    if (source[strcspn(source, NOT_IN_MOUNTS)] || target[strcspn(target, NOT_IN_MOUNTS)])
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "%s: enroot mounts nothing with a blank or a "
                                 "colon in its name; rename it, or work elsewhere (--cwd)", source);
    return rg_strv_addf(argv, "--mount=%s:%s:none:x-create=auto,rbind,%s", source, target,
                        read_only ? "ro" : "rw");
}

static int add_mounts(const struct rg_container *container, const struct rg_container_host *host,
                      struct rg_strv *argv, struct rg_error *err)
{
    static const char ib[] = "/dev/infiniband";
    struct rg_container_host mounted = *host; /* it brings the user's names by itself */

    mounted.passwd = mounted.group = NULL;
    int r = rg_container_mount_ours(&mounted, add_mount, argv, err);
    if (r == 0 && container->ibdevices && host->infiniband)
        r = add_mount(argv, ib, ib, false, err);
    return r < 0 ? r : rg_container_mount_users(container, add_mount, argv, err);
}

/* How many words this option has; 0: enroot does not know it, and would print its help and end. */
static int count_words(const char *option)
{
    static const char *const with_value[] = { "-c", "--conf", "-e", "--env", "-m", "--mount" };

    for (size_t i = 0; i < rg_array_len(with_value); i++) {
        size_t n = strlen(with_value[i]);
        if (strncmp(option, with_value[i], n) != 0)
            continue;
        if (option[n] == '\0')
            return 2;
        if (n > 2 && option[n] == '=')
            return 1;
    }
    return rg_str_has_word("-r --root -w --rw", option) ? 1 : 0;
}

static int add_options(const struct rg_strv *options, struct rg_strv *argv, struct rg_error *err)
{
    for (size_t i = 0; i < options->count; i++) {
        const char *option = options->v[i];
        if (rg_str_starts(option, "--device=")) { /* of --ibdevices=DEVICE */
            rg_strv_addf(argv, "--mount=%s:%s:none:x-create=file,bind,rw", option + 9, option + 9);
            continue;
        }
        if (strcmp(option, "--cap-add=IPC_LOCK") == 0) /* the caller's own limits count */
            continue;
        int nwords = count_words(option);
        if (nwords == 0 || i + (size_t) nwords > options->count)
            return rg_container_refuse(TITLE, option, "it takes --env, --mount, --conf, --root and "
                                       "--rw, those with a value as --env=NAME=VALUE", err);
        rg_strv_add(argv, option);
        if (nwords == 2)
            rg_strv_add(argv, options->v[++i]);
    }
    return 0;
}

/* In the environment of enroot itself, where its hooks look first, whatever the image says. Without
 * a login shell, whose profile would replace the image's PATH. */
static void add_environment(const struct rg_container *container,
                            const struct rg_container_host *host, const char *devices,
                            struct rg_strv *argv)
{
    bool some = container->gpus && strcmp(devices, "all") != 0;

    rg_strv_add(argv, "env");
    rg_strv_add(argv, "ENROOT_LOGIN_SHELL=no");
    rg_strv_addf(argv, "NVIDIA_VISIBLE_DEVICES=%s", devices);
    if (container->gpus)
        rg_strv_add(argv, "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video");
    /* Else the host's whole /dev is there, with all GPUs. */
    if (some || host->no_gpus)
        rg_strv_add(argv, "ENROOT_RESTRICT_DEV=yes");
}

static void add_variables(const struct rg_container *container,
                          const struct rg_container_host *host, const char *devices,
                          struct rg_strv *argv)
{
    bool mapped = container->user != NULL;
    const char *user = mapped ? "root" : host->user_name;
    const char *home = host->home ? host->home : RG_CONTAINER_RUN;

    rg_strv_addf(argv, "--env=NVIDIA_VISIBLE_DEVICES=%s", devices);
    if (container->place.term)
        rg_strv_addf(argv, "--env=TERM=%s", container->place.term);
    rg_strv_addf(argv, "--env=HOME=%s", host->uid == 0 || mapped ? "/root" : home);
    if (user) {
        rg_strv_addf(argv, "--env=USER=%s", user);
        rg_strv_addf(argv, "--env=LOGNAME=%s", user);
    }
}

static int run(const struct rg_container *container, const struct rg_container_host *host,
               struct rg_strv *argv, struct rg_error *err)
{
    rg_autobuf struct rg_buf path = RG_BUF_INIT;
    rg_autofree char *list = rg_container_devices(host->gpus ? host->gpus : container->gpus);
    const char *devices = list && *list ? list : "void";
    int r = check(container, err);

    if (r < 0 || !list || put_path(container, host, &path) < 0)
        return r < 0 ? r : -ENOMEM;
    r = check_path(container->image, rg_buf_text(&path), err);
    add_environment(container, host, devices, argv);
    rg_strv_add(argv, host->program);
    rg_strv_add(argv, "start");
    rg_strv_add(argv, "--rw"); /* in memory, as the image is a file */
    if (container->user)
        rg_strv_add(argv, "--root");
    rg_strv_add(argv, "--rc");
    rg_strv_addf(argv, "%s/../" RG_CONTAINER_SCRIPT, host->bin_dir);
    add_variables(container, host, devices, argv);
    r = r ? r : add_mounts(container, host, argv, err);
    r = r ? r : add_options(&container->options, argv, err);
    rg_strv_add(argv, "--");
    rg_strv_add(argv, rg_buf_text(&path));
    rg_strv_add(argv, host->cwd ? host->cwd : "");
    rg_strv_add(argv, RG_CONTAINER_BIN "/reigen-agent");
    rg_strv_add(argv, "inside");
    rg_strv_add(argv, RG_CONTAINER_RUN "/" RG_CONTAINER_SOCKET);
    return r < 0 ? r : rg_strv_status(argv);
}

static int pull(const struct rg_container *container, const struct rg_container_host *host,
                struct rg_strv *argv)
{
    const char *const first[] = { "sh", "-c", import_script, "reigen-import", host->program };
    rg_autobuf struct rg_buf path = RG_BUF_INIT;

    if (is_file(container->image))
        return 0;
    if (put_path(container, host, &path) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < rg_array_len(first); i++)
        rg_strv_add(argv, first[i]);
    rg_strv_take(argv, make_address(container->image));
    rg_strv_add(argv, rg_buf_text(&path));
    return rg_strv_add(argv, container->pull == RG_PULL_ALWAYS ? "always" : "");
}

const struct rg_container_ops rg_container_enroot = {
    .name = "enroot",
    .programs = "enroot",
    .nameless = true,
    .shares_pids = true,
    .script = start_script,
    .fetch = "give the path of a .sqsh file",
    .run = run,
    .pull = pull,
    .missing = "Invalid argument: /",
    .symptoms = symptoms,
};
