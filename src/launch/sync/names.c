/* SPDX-License-Identifier: Apache-2.0 */
/* What of a directory goes with a job. Only git knows how .gitignore is meant. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "launch/sync/internal.h"
#include "wire/filelist.h"

#define GIT_MS 60000
#define GIT_MAX (64u << 20) /* bytes that it writes */
#define NESTED_MAX 8        /* repositories in one another */

struct walk {
    const char *dir;
    size_t max;
    struct rg_strv *names;
    struct rg_strv *remarks;
};

static int too_many(const struct walk *walk, struct rg_error *err)
{
    return rg_error_set(err, E2BIG, "--sync: %s has more than %zu files; let .gitignore name what "
                        "no rank needs, name a smaller directory (--sync=DIR), or raise "
                        "--sync-limit", walk->dir, walk->max);
}

static int add(const struct walk *walk, const char *name, struct rg_error *err)
{
    if (walk->names->count >= walk->max)
        return too_many(walk, err);
    if (!rg_filelist_is_path(name))
        return rg_error_set(err, ENAMETOOLONG, "--sync: %s/%.200s: the name is too long, or lies "
                            "too deep", walk->dir, name);
    return rg_strv_add(walk->names, name) < 0 ? rg_error_memory(err) : 0;
}

/* --- all that is there ------------------------------------------------------------------------ */

static int walk_all(const struct walk *walk, const char *below, struct rg_error *err)
{
    rg_autofree char *path = rg_strf("%s/%s", walk->dir, below);
    rg_autodir DIR *list = path ? opendir(path) : NULL;
    int r = 0;

    if (!list)
        return rg_error_set(err, path ? errno : ENOMEM, "--sync: %s: %s", path ? path : below,
                            strerror(errno));
    for (struct dirent *entry; r == 0 && (entry = readdir(list));) {
        const char *name = entry->d_name;
        struct stat st;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, ".git") == 0)
            continue;
        rg_autofree char *child = rg_strf("%s%s%s", below, *below ? "/" : "", name);
        if (!child)
            return rg_error_memory(err);
        r = add(walk, child, err);
        if (r == 0 && fstatat(dirfd(list), name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(st.st_mode))
            r = walk_all(walk, child, err);
    }
    return r;
}

/* --- what git lists --------------------------------------------------------------------------- */

static int run_git(const char *path, char **ret_list, size_t *ret_nbytes)
{
    char *argv[] = { "git", "-C", (char *) path, "ls-files", "-co", "--exclude-standard", "-z",
                     NULL };
    struct rg_spawn spawn = { .argv = argv, .fds = { -1, -1, -1 } };
    int fds[2];
    pid_t pid;
    int r = rg_pipe(fds);

    if (r < 0)
        return r;
    spawn.fds[1] = fds[1];
    r = rg_spawn(&spawn, &pid, NULL);
    close(fds[1]);
    rg_autoclose int fd = fds[0];
    if (r < 0)
        return r;
    r = rg_read_fd(fd, GIT_MAX, ret_list, ret_nbytes);
    int status = rg_spawn_wait(pid, r < 0 ? 0 : GIT_MS);
    if (r == 0 && status != 0) {
        free(rg_steal_ptr(ret_list));
        return -ENOTSUP;
    }
    return r;
}

static int add_listed(const struct walk *walk, const char *below, int depth, struct rg_error *err);

/* Of git a repository in the directory is one entry, however it has come there. */
static int add_one(const struct walk *walk, const char *below, const char *name, int depth,
                   struct rg_error *err)
{
    size_t n = strlen(name);
    rg_autofree char *child = rg_strf("%s%s%.*s", below, *below ? "/" : "",
                                      (int) (n && name[n - 1] == '/' ? n - 1 : n), name);
    rg_autofree char *path = child ? rg_strf("%s/%s", walk->dir, child) : NULL;
    struct stat st;

    if (!path)
        return rg_error_memory(err);
    if (lstat(path, &st) < 0)
        return 0; /* tracked, and removed */
    if (!S_ISDIR(st.st_mode))
        return add(walk, child, err);
    return depth < NESTED_MAX ? add_listed(walk, child, depth + 1, err) : 0;
}

static int add_listed(const struct walk *walk, const char *below, int depth, struct rg_error *err)
{
    rg_autofree char *path = rg_strf("%s/%s", walk->dir, below), *list = NULL;
    size_t nbytes = 0;
    int r = path ? run_git(path, &list, &nbytes) : rg_error_memory(err);

    if (r < 0)
        return r;
    for (const char *p = list; r == 0 && p < list + nbytes; p += strlen(p) + 1)
        r = add_one(walk, below, p, depth, err);
    return r;
}

/* --- both ------------------------------------------------------------------------------------- */

static bool is_work_tree(const char *dir)
{
    char path[PATH_MAX], git[PATH_MAX + 8];

    if (strlen(dir) >= sizeof(path))
        return false;
    for (strcpy(path, dir);;) {
        snprintf(git, sizeof(git), "%s/.git", path);
        if (access(git, F_OK) == 0)
            return true;
        char *slash = strrchr(path, '/');
        if (!slash || !path[1])
            return false;
        slash[slash == path] = '\0';
    }
}

/* In the order of their bytes. */
static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* What is in conflict git lists more than once. */
static void sort(struct rg_strv *names)
{
    size_t kept = 0;

    if (!names->count)
        return;
    qsort(names->v, names->count, sizeof(*names->v), compare);
    for (size_t i = 0; i < names->count; i++) {
        if (kept && strcmp(names->v[kept - 1], names->v[i]) == 0)
            free(names->v[i]);
        else
            names->v[kept++] = names->v[i];
    }
    names->v[names->count = kept] = NULL;
}

int rg_sync_names(const char *dir, size_t max, struct rg_strv *names, struct rg_strv *remarks,
                  struct rg_error *err)
{
    const struct walk walk = { dir, max, names, remarks };
    bool in_git = is_work_tree(dir);
    struct rg_error cause = RG_ERROR_INIT;
    int r = in_git ? add_listed(&walk, "", 0, &cause) : -ENOENT;

    if (r < 0 && *cause.text) {
        *err = cause;
        return r;
    }
    if (r < 0) {
        rg_strv_fini(names);
        r = walk_all(&walk, "", err);
        rg_strv_addf(remarks, in_git ? "--sync: git cannot list %s, so all that is in it is sent, "
                                       "whatever .gitignore says; does git status work there?"
                                     : "--sync: %s is in no git work tree, so all that is in it is "
                                       "sent", dir);
    }
    sort(names);
    return r;
}
