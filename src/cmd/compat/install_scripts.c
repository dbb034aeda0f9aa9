/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reigen install-scripts: the names that srun_docker.sh's users know, as links to this reigen, in a
 * directory of theirs. pip cannot ask whether they are wanted, and they are no names that everybody
 * should have in PATH.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cmd/common/args.h"
#include "cmd/common/exit.h"
#include "cmd/compat/compat.h"
#include "base/exitcode.h"

#define COMMAND "install-scripts"

static const struct rg_script *const scripts[] = {
    &rg_script_srun_docker, &rg_script_run_dock_asuser, &rg_script_sshconfig,
};

static int find_self(char path[PATH_MAX], struct rg_error *err)
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

    if (n < 0)
        return rg_error_set(err, errno, "/proc/self/exe: %s", strerror(errno));
    path[n] = '\0';
    return 0;
}

static bool is_reigen(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && strcmp(slash, "/reigen") == 0;
}

/* Whether the link is there already; -EEXIST where something else has its name. */
static int is_there(int dir, const char *dir_name, const char *name, const char *self,
                    struct rg_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    ssize_t n = readlinkat(dir, name, path, sizeof(path) - 1);

    if (n < 0 && errno == ENOENT)
        return 0;
    path[n < 0 ? 0 : n] = '\0';
    if (n > 0 && strcmp(path, self) == 0)
        return 1;
    /* A link of another reigen's that is gone is in nobody's way. */
    if (n > 0 && is_reigen(path) && fstatat(dir, name, &st, 0) < 0 &&
        errno == ENOENT)
        return unlinkat(dir, name, 0) < 0
                   ? rg_error_set(err, errno, "%s/%s: %s", dir_name, name, strerror(errno)) : 0;
    return rg_error_set_exit(err, EEXIST, RG_EXIT_USAGE,
                             "%s/%s is there already; remove it, or name another directory",
                             dir_name, name);
}

static int install(const char *dir_name, struct rg_buf *said, struct rg_error *err)
{
    char self[PATH_MAX];
    bool there[rg_array_len(scripts)] = { false };
    rg_autoclose int dir = open(dir_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0)
        return rg_error_set_exit(err, errno, RG_EXIT_USAGE, "%s: %s; %s", dir_name,
                                 strerror(errno), errno == ENOENT
                                 ? "make the directory first, or name another"
                                 : "name a directory, such as ~/.local/bin");
    int rc = find_self(self, err);

    for (size_t i = 0; rc >= 0 && i < rg_array_len(scripts); i++) {
        rc = is_there(dir, dir_name, scripts[i]->name, self, err);
        there[i] = rc > 0;
    }
    for (size_t i = 0; rc >= 0 && i < rg_array_len(scripts); i++) {
        if (!there[i] && symlinkat(self, dir, scripts[i]->name) < 0)
            return rg_error_set(err, errno, "%s/%s: %s; name a directory that you may write to, "
                                "such as ~/.local/bin", dir_name, scripts[i]->name,
                                strerror(errno));
        rg_buf_printf(said, "%s/%s -> %s\n", dir_name, scripts[i]->name, self);
    }
    return rc < 0 ? rc : 0;
}

int rg_cmd_install_scripts(int argc, char **argv)
{
    rg_autobuf struct rg_buf said = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;

    int n = rg_args_parse(argc, argv, &(struct rg_arg){ NULL }, 1);

    if (n < 0)
        return -1 - n;
    if (n == 0)
        return rg_fail_usage(COMMAND, "%s: name the directory for the scripts, such as "
                             "/usr/local/bin", COMMAND);
    if (install(argv[1], &said, &err) < 0)
        return rg_fail(&err, COMMAND);
    return rg_print(rg_buf_text(&said));
}
