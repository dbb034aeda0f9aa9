/* SPDX-License-Identifier: Apache-2.0 */
/* This has the table of runtimes, and knows what their complaints mean. */
#include "container/runtime.h"

#include <string.h>

#include "base/exitcode.h"

#define SAID_MAX 400
#define GPUS_MAX 1024

const struct rg_container_ops *const rg_container_runtimes[] = {
    &rg_container_docker,
    &rg_container_podman,
    &rg_container_apptainer,
    &rg_container_enroot,
    NULL,
};

const struct rg_container_ops *rg_container_find(const char *name)
{
    for (size_t i = 0; rg_container_runtimes[i]; i++) {
        if (rg_str_has_word(rg_container_runtimes[i]->programs, name))
            return rg_container_runtimes[i];
    }
    return NULL;
}

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

/* --- mounts ----------------------------------------------------------------------------------- */

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

/* --- what a runtime cannot do ----------------------------------------------------------------- */

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

/* --- what its complaints mean ----------------------------------------------------------------- */

/* A pointer to the help, or what the runtime's own log says of the failure's consequences; both may
 * stand behind the cause. */
static bool is_aside(const char *line)
{
    static const char *const asides[] = { "See 'docker", "Run 'docker", "See 'podman", "Usage:",
                                          "time=\"", "WARNING:" };

    for (size_t i = 0; i < rg_array_len(asides); i++) {
        if (rg_str_starts(line, asides[i]))
            return true;
    }
    return false;
}

/* The last line that is not empty, and rather none of these. */
static const char *last_line(const char *said, size_t *ret_length)
{
    const char *line = said;
    size_t length = 0;

    while (*said) {
        size_t n = strcspn(said, "\n");
        if (n > 0 && (!is_aside(said) || length == 0 || is_aside(line))) {
            line = said;
            length = n;
        }
        said += n + (said[n] == '\n');
    }
    *ret_length = length < SAID_MAX ? length : SAID_MAX;
    return line;
}

int rg_container_explain(const struct rg_container_ops *ops, const char *said,
                         struct rg_error *err)
{
    size_t length;
    const char *line = last_line(said, &length);

    for (const struct rg_container_symptom *s = ops->symptoms; s->needle; s++) {
        if (strcasestr(said, s->needle))
            return rg_error_set_exit(err, EIO, s->exit_code, "%s (%s: %.*s)", s->text, ops->name,
                                     (int) length, line);
    }
    if (length == 0 || is_aside(line))
        return rg_error_set_exit(err, EIO, RG_EXIT_CONTAINER,
                                 "%s ended before the agent in the container called, and said "
                                 "%s%.*s; does a --container-option replace the first process?",
                                 ops->name, length ? "no more than: " : "nothing", (int) length,
                                 line);
    return rg_error_set_exit(err, EIO, RG_EXIT_CONTAINER, "%s could not start the container: %.*s",
                             ops->name, (int) length, line);
}
