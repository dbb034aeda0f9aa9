/* SPDX-License-Identifier: Apache-2.0 */
/* What the runtimes' files use: devices, mounts, and refusals. */
#include <string.h>

#include "base/exitcode.h"
#include "container/runtime.h"

#define GPUS_MAX 1024

char *rg_container_devices(const char *gpus)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    size_t length = gpus ? strlen(gpus) : 0;
    int64_t count;

    if (length == 0 || rg_parse_int("--gpus", gpus, 1, GPUS_MAX, &count, NULL) < 0)
        return strndup(length ? gpus : "", length - (length && gpus[length - 1] == ','));
    for (int64_t i = 0; i < count; i++)
        rg_buf_printf(&text, "%s%d", i ? "," : "", (int) i);
    return rg_buf_status(&text) < 0 ? NULL : strdup(rg_buf_text(&text));
}

/* True when path lies in dir or is dir; nothing is resolved. */
static bool lies_in(const char *path, const char *dir)
{
    size_t n = dir ? strlen(dir) : 0;

    return n && strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

int rg_container_mount_ours(const struct rg_container_host *host, rg_container_mount_fn *mount,
                            struct rg_strv *argv, struct rg_error *err)
{
    const char *cwd = host->cwd && !lies_in(host->cwd, host->home) ? host->cwd : NULL;
    const struct {
        const char *source, *target;
        bool read_only;
    } ours[] = {
        { host->bin_dir, RG_CONTAINER_BIN, true },
        { host->run_dir, RG_CONTAINER_RUN, false },
        { host->bundle_dir, RG_CONTAINER_PYTHON, true },
        { host->passwd, "/etc/passwd", true },
        { host->group, "/etc/group", true },
        { host->home, host->home, false },
        { cwd, cwd, false },
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < rg_array_len(ours); i++) {
        if (ours[i].source)
            r = mount(argv, ours[i].source, ours[i].target, ours[i].read_only, err);
    }
    return r;
}

int rg_container_mount_users(const struct rg_container *container, rg_container_mount_fn *mount,
                             struct rg_strv *argv, struct rg_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < container->mounts.count; i++) {
        rg_autofree char *source = NULL, *target = NULL;
        bool read_only;
        r = rg_container_split_mount(container->mounts.v[i], &source, &target, &read_only, err);
        if (r == 0)
            r = mount(argv, source, target, read_only, err);
    }
    return r;
}

int rg_container_refuse(const char *title, const char *what, const char *remedy,
                        struct rg_error *err)
{
    return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "%s: %s cannot do that; %s", what, title,
                             remedy);
}

int rg_container_check_own(const struct rg_container *container, const char *title,
                           const char *users, struct rg_error *err)
{
    if (container->privileged)
        return rg_container_refuse(title, "--privileged", "leave it out, or take Docker", err);
    if (container->user && !rg_str_has_word("0 root", container->user))
        return rg_container_refuse(title, "--user", users, err);
    for (size_t i = 0; i < container->mounts.count; i++) {
        if (container->mounts.v[i][0] != '/')
            return rg_container_refuse(title, container->mounts.v[i], "it has no named volumes",
                                       err);
    }
    return 0;
}
