/* SPDX-License-Identifier: Apache-2.0 */
/* What a user takes for his project is what git lists; only git knows all rules of .gitignore. */
#include "launch/sync/list.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/time.h"
#include "launch/sync/marker.h"

#define GIT_MAX_NBYTES (64u << 20) /* of its list */
#define READ_NBYTES 65536
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

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* A repository in another one lists itself. */
static bool is_other(int top_fd, const char *path, const struct rg_strv *ignored)
{
    rg_autofree char *git = rg_strf("%s/.git", path);
    struct stat st;

    return !git || fstatat(top_fd, git, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
           (ignored->count &&
            bsearch(&path, ignored->v, ignored->count, sizeof(*ignored->v), compare));
}

/* ignored: NULL for all of it; else files are known from elsewhere, and wanted are directories but
 * these, sorted, and other repositories. */
static int walk(int top_fd, const char *below, const struct rg_strv *ignored, int depth,
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
        if (ignored && (!S_ISDIR(st.st_mode) || is_other(top_fd, path, ignored)))
            continue;
        r = add(names, path);
        if (r == 0 && S_ISDIR(st.st_mode))
            r = walk(top_fd, path, ignored, depth + 1, names, err);
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

/* Of what we were started from, a hook of another repository perhaps, it is to know nothing; and
 * nobody is there whom it could ask for a password. */
static void set_environment(struct rg_strv *env)
{
    static const char *const local[] = {
        "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_NAMESPACE", "GIT_SHALLOW_FILE",
        "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE", "GIT_INTERNAL_SUPER_PREFIX",
    };

    rg_strv_add_all(env, environ);
    for (size_t i = 0; i < rg_array_len(local); i++)
        rg_env_unset(env, local[i]);
    rg_env_set(env, "GIT_TERMINAL_PROMPT", "0");
    rg_env_set(env, "GIT_OPTIONAL_LOCKS", "0");
}

/* -ETIMEDOUT: it has not come to its end. */
static int read_all(int fd, uint64_t deadline_ns, struct rg_buf *text)
{
    ssize_t n = 1;
    int r = 0;

    while (n > 0 && (r = rg_fd_wait(fd, POLLIN, deadline_ns)) == 0) {
        uint8_t *room = rg_buf_reserve(text, READ_NBYTES);
        n = room ? read(fd, room, READ_NBYTES) : 0;
        if (n > 0)
            rg_buf_commit(text, (size_t) n);
        if (rg_buf_nbytes(text) > GIT_MAX_NBYTES)
            return -EFBIG;
        if (n < 0 && errno == EINTR)
            n = 1;
    }
    return r < 0 ? r : n < 0 ? -errno : rg_buf_status(text);
}

/* "", or what is wrong. Its list, each name ended by a NUL, is appended. */
static const char *run_git(const struct rg_strv *argv, unsigned ms, struct rg_buf *text,
                           struct rg_error *cause)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    uint64_t deadline_ns = rg_now_ns() + ms * RG_NS_PER_MS;
    int out[2], r = rg_pipe(out);
    char how[64];
    pid_t pid;

    set_environment(&env);
    if (r < 0 || (r = rg_strv_status(argv)) < 0 || (r = rg_strv_status(&env)) < 0)
        return strerror(-r);
    struct rg_spawn spec = { .argv = argv->v, .envp = env.v, .fds = { -1, out[1], 2 },
                             .new_session = true, .death_signal = SIGTERM };
    r = rg_spawn(&spec, &pid, cause);
    close(out[1]);
    rg_autoclose int ours = out[0];
    if (r < 0)
        return cause->text;
    r = read_all(ours, deadline_ns, text);
    int status = rg_spawn_wait(pid, r < 0 ? 0 : ms);
    if (r == -ETIMEDOUT)
        rg_error_set(cause, -r, "git ls-files: no answer within %.6g s", (double) ms / 1000.0);
    else if (r < 0 || rg_status_code(status) != 0)
        rg_error_set(cause, ENOEXEC, "git ls-files: %s",
                     r < 0 ? strerror(-r) : rg_status_text(status, how, sizeof(how)));
    return cause->text;
}

static int ask_git(const char *dir, const char *const *options, unsigned ms, struct rg_buf *text,
                   struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    struct rg_error cause = RG_ERROR_INIT;

    rg_strv_add_all(&argv, (char *const[]){ (char *) "git", (char *) "-C", (char *) dir,
                                            (char *) "ls-files", (char *) "-z",
                                            (char *) "--exclude-standard", NULL });
    rg_strv_add_all(&argv, (char *const *) options);
    const char *wrong = run_git(&argv, ms, text, &cause);
    return !*wrong ? 0
                   : rg_error_set(err, ENOEXEC, "%s is in a git repository, and git cannot say "
                                  "what belongs to it: %.300s. Repair that (git -C %s status must "
                                  "work), or send a directory that is in none", dir, wrong, dir);
}

/* The next name of its list, from *at on; NULL: there is none. */
static char *next_name(const struct rg_buf *text, size_t *at)
{
    char *name = (char *) rg_buf_bytes(text) + *at;

    if (*at >= rg_buf_nbytes(text))
        return NULL;
    *at += strnlen(name, rg_buf_nbytes(text) - *at) + 1;
    return *at <= rg_buf_nbytes(text) ? name : NULL;
}

static int list_repository(const char *top, const char *below, int depth,
                           struct rg_sync_names *names, struct rg_error *err);

/* What git knows as a directory may be a link now, and what is behind that is not git's. */
static bool is_behind_link(const char *top, const char *path)
{
    rg_autofree char *full = join(top, path);
    struct stat st;
    bool found = !full;

    for (char *p = full ? full + strlen(top) + 1 : NULL; !found && p && (p = strchr(p, '/')); p++) {
        *p = '\0';
        found = lstat(full, &st) == 0 && S_ISLNK(st.st_mode);
        *p = '/';
    }
    return found;
}

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

    /* Or it was removed, and git has not been told. */
    if (!full || lstat(full, &st) < 0 || is_behind_link(top, path))
        return 0;
    int r = add(names, path);
    return r == 0 && S_ISDIR(st.st_mode) ? list_repository(top, path, depth + 1, names, err) : r;
}

/* Which it leaves out, as a whole. */
static int find_ignored(const char *below, const char *dir, unsigned ms, struct rg_strv *ignored,
                        struct rg_error *err)
{
    static const char *const options[] = { "-o", "-i", "--directory", NULL };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int r = ask_git(dir, options, ms, &text, err);
    size_t at = 0;

    for (char *name; r == 0 && (name = next_name(&text, &at));) {
        size_t length = strlen(name);
        if (length < 2 || name[length - 1] != '/')
            continue;
        name[length - 1] = '\0';
        rg_autofree char *path = join(below, name);
        r = path ? rg_strv_add(ignored, path) : -ENOMEM;
    }
    if (ignored->count)
        qsort(ignored->v, ignored->count, sizeof(*ignored->v), compare);
    return r;
}

/* git has no empty directories, and scripts have: those that only it leaves out. */
static int add_dirs(const char *top, const char *below, const char *dir,
                    struct rg_sync_names *names, struct rg_error *err)
{
    static const char *const options[] = { "-o", "--directory", NULL };
    rg_autostrv struct rg_strv ignored = RG_STRV_INIT;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int r = ask_git(dir, options, names->git_ms, &text, err);
    rg_autoclose int top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool known = false;
    size_t at = 0;

    for (char *name; r == 0 && (name = next_name(&text, &at));) {
        size_t length = strlen(name);
        if (length < 2 || name[length - 1] != '/' || strcmp(name, "./") == 0)
            continue;
        if (!known && (r = find_ignored(below, dir, names->git_ms, &ignored, err)) < 0)
            break;
        known = true;
        name[length - 1] = '\0';
        rg_autofree char *path = join(below, name);
        if (!path)
            return -ENOMEM;
        if (is_other(top_fd, path, &ignored))
            continue;
        r = add(names, path);
        if (r == 0)
            r = walk(top_fd, path, &ignored, 0, names, NULL);
        r = r == -EFBIG ? r : 0; /* what may not be read has nothing to send */
    }
    return r;
}

static int list_repository(const char *top, const char *below, int depth,
                           struct rg_sync_names *names, struct rg_error *err)
{
    static const char *const options[] = { "-c", "-o", NULL };
    rg_autofree char *dir = *below ? join(top, below) : strdup(top);
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    size_t at = 0;

    if (!dir || depth > DEPTH_MAX)
        return -ENOMEM;
    int r = ask_git(dir, options, names->git_ms, &text, err);
    for (char *name; r == 0 && (name = next_name(&text, &at));)
        r = *name ? add_listed(top, below, name, depth, names, err) : 0;
    return r < 0 ? r : add_dirs(top, below, dir, names, err);
}

/* --- both ------------------------------------------------------------------------------------- */

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

int rg_sync_list_names(const char *dir, unsigned git_ms, struct rg_sync_names *ret_names,
                       struct rg_error *err)
{
    struct rg_sync_names *names = ret_names;
    int r;

    *names = (struct rg_sync_names){ RG_STRV_INIT, is_in_repository(dir), git_ms };
    if (names->by_git) {
        r = list_repository(dir, "", 0, names, err);
    } else {
        rg_autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? rg_error_set(err, errno, "%s: %s", dir, strerror(errno))
                   : walk(fd, "", NULL, 0, names, err);
    }
    sort(&names->paths);
    return r;
}
