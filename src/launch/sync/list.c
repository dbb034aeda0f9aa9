/* SPDX-License-Identifier: Apache-2.0 */
/* What a user takes for his project is what git lists; only git knows all rules of .gitignore. */
#include "launch/sync/list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "wire/sync.h"

#define GIT_MAX_NBYTES (64u << 20) /* of its list */
#define GIT_MS 120000
#define DEPTH_MAX 64
#define NAMES_MAX (RG_SYNC_ENTRIES_MAX + 1) /* with one more it is known that there are too many */

static int add(struct rg_sync_names *names, const char *path)
{
    return names->paths.count < NAMES_MAX ? rg_strv_add(&names->paths, path) : -EFBIG;
}

static char *join(const char *dir, const char *name)
{
    return *dir ? rg_strf("%s/%s", dir, name) : strdup(name);
}

static bool stays(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, ".git") == 0 ||
           rg_str_starts(name, RG_SYNC_MARKER);
}

/* --- all of it -------------------------------------------------------------------------------- */

/* only_dirs: files are known from elsewhere. */
static int walk(int top_fd, const char *below, bool only_dirs, int depth,
                struct rg_sync_names *names, struct rg_error *err)
{
    rg_autodir DIR *dir = NULL;
    int fd = openat(top_fd, *below ? below : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno : depth > DEPTH_MAX ? -ELOOP : 0;

    if (fd >= 0 && !(dir = fdopendir(fd)))
        close(fd);
    for (struct dirent *entry; r == 0 && dir && (entry = readdir(dir));) {
        struct stat st;
        if (stays(entry->d_name))
            continue;
        rg_autofree char *path = join(below, entry->d_name);
        if (!path)
            return -ENOMEM;
        if (fstatat(top_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* it has just gone */
        if (S_ISDIR(st.st_mode) || !only_dirs)
            r = add(names, path);
        if (r == 0 && S_ISDIR(st.st_mode))
            r = walk(top_fd, path, only_dirs, depth + 1, names, err);
    }
    if (r < 0 && err && !err->errnum && r != -EFBIG)
        rg_error_set(err, -r, "the directory %s: %s", *below ? below : ".", strerror(-r));
    return r;
}

/* --- git -------------------------------------------------------------------------------------- */

/* In it, or above. */
static bool is_in_repository(const char *dir)
{
    rg_autofree char *at = strdup(dir);

    for (char *slash = at; slash; slash = strrchr(at, '/')) {
        rg_autofree char *git = rg_strf("%s/.git", at);
        struct stat st;
        if (git && lstat(git, &st) == 0)
            return true;
        if (!(slash = strrchr(at, '/')))
            break;
        *slash = '\0';
    }
    return false;
}

/* Its list, each name ended by a NUL. *ret_text is the caller's. */
static int ask_git(const char *dir, const char *const *options, char **ret_text, size_t *ret_nbytes,
                   struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    int out[2], r = rg_pipe(out);
    char how[64];
    pid_t pid;

    if (r < 0)
        return rg_error_set(err, -r, "a pipe for git: %s", strerror(-r));
    rg_strv_add_all(&argv, (char *const[]){ (char *) "git", (char *) "-C", (char *) dir,
                                            (char *) "ls-files", (char *) "-z",
                                            (char *) "--exclude-standard", NULL });
    rg_strv_add_all(&argv, (char *const *) options);
    struct rg_spawn spec = { .argv = argv.v, .fds = { -1, out[1], 2 }, .new_group = true };
    struct rg_error cause = RG_ERROR_INIT;
    r = rg_strv_status(&argv) < 0 ? rg_error_memory(&cause) : rg_spawn(&spec, &pid, &cause);
    close(out[1]);
    if (r == 0) {
        r = rg_read_fd(out[0], GIT_MAX_NBYTES, ret_text, ret_nbytes);
        int status = rg_spawn_wait(pid, GIT_MS);
        if (r < 0 || rg_status_code(status) != 0)
            r = rg_error_set(&cause, ENOEXEC, "git ls-files: %s",
                             r < 0 ? strerror(-r) : rg_status_text(status, how, sizeof(how)));
    }
    close(out[0]);
    return r == 0 ? 0
                  : rg_error_set(err, ENOEXEC, "%s is in a git repository, and git cannot say what "
                                 "belongs to it: %.300s. Repair that (git -C %s status must work), "
                                 "or send a directory that is in none", dir, cause.text, dir);
}

static int list_repository(const char *top, const char *below, int depth,
                           struct rg_sync_names *names, struct rg_error *err);

/* An entry that is a directory is a repository in this one. */
static int add_listed(const char *top, const char *below, char *name, int depth,
                      struct rg_sync_names *names, struct rg_error *err)
{
    size_t length = strlen(name);

    if (length && name[length - 1] == '/')
        name[length - 1] = '\0';
    const char *slash = strrchr(name, '/');
    rg_autofree char *path = stays(slash ? slash + 1 : name) ? NULL : join(below, name);
    rg_autofree char *full = path ? join(top, path) : NULL;
    struct stat st;

    if (!full || lstat(full, &st) < 0) /* or it was removed, and git has not been told */
        return 0;
    int r = add(names, path);
    return r == 0 && S_ISDIR(st.st_mode) ? list_repository(top, path, depth + 1, names, err) : r;
}

/* git has no empty directories, and scripts have: those that only it leaves out. */
static int add_dirs(const char *top, const char *below, const char *dir,
                    struct rg_sync_names *names, struct rg_error *err)
{
    static const char *const options[] = { "-o", "--directory", NULL };
    rg_autofree char *text = NULL;
    size_t nbytes = 0;
    int r = ask_git(dir, options, &text, &nbytes, err);
    rg_autoclose int top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (char *name = text; r == 0 && name && name < text + nbytes; name += strlen(name) + 1) {
        size_t length = strlen(name);
        if (length < 2 || name[length - 1] != '/')
            continue;
        rg_autofree char *path = join(below, name);
        if (!path)
            return -ENOMEM;
        path[strlen(path) - 1] = '\0';
        r = add(names, path);
        if (r == 0)
            r = walk(top_fd, path, true, 0, names, NULL);
        r = r == -EFBIG ? r : 0; /* what may not be read has nothing to send */
    }
    return r;
}

static int list_repository(const char *top, const char *below, int depth,
                           struct rg_sync_names *names, struct rg_error *err)
{
    static const char *const options[] = { "-c", "-o", NULL };
    rg_autofree char *dir = *below ? join(top, below) : strdup(top), *text = NULL;
    size_t nbytes = 0;

    if (!dir || depth > DEPTH_MAX)
        return -ENOMEM;
    int r = ask_git(dir, options, &text, &nbytes, err);
    for (char *name = text, *after; r == 0 && name && name < text + nbytes; name = after) {
        after = name + strlen(name) + 1;
        r = *name ? add_listed(top, below, name, depth, names, err) : 0;
    }
    return r < 0 ? r : add_dirs(top, below, dir, names, err);
}

/* --- both ------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Conflicts of a merge are listed three times. */
static void sort(struct rg_strv *paths)
{
    size_t count = 0;

    if (!paths->count)
        return;
    qsort(paths->v, paths->count, sizeof(*paths->v), compare);
    for (size_t i = 0; i < paths->count; i++) {
        if (count && strcmp(paths->v[count - 1], paths->v[i]) == 0)
            free(paths->v[i]);
        else
            paths->v[count++] = paths->v[i];
    }
    paths->count = count;
    paths->v[count] = NULL;
}

int rg_sync_list_names(const char *dir, struct rg_sync_names *ret_names, struct rg_error *err)
{
    struct rg_sync_names *names = ret_names;
    int r;

    *names = (struct rg_sync_names){ RG_STRV_INIT, is_in_repository(dir) };
    if (names->by_git) {
        r = list_repository(dir, "", 0, names, err);
    } else {
        rg_autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? rg_error_set(err, errno, "%s: %s", dir, strerror(errno))
                   : walk(fd, "", false, 0, names, err);
    }
    sort(&names->paths);
    return r;
}
