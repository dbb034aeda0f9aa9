/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives a job on a host lies in a few directories; the agent beside the ranks and the one
 * that starts containers trust, fill and clean them by the same rules. */
#include "agent/store/store.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/fd.h"
#include "base/str.h"
#include "container/bundle.h"

#define TREE_DEPTH_MAX 64
#define HALF_MADE_S 3600 /* what is that old and not complete will not be any more */
#define LIBC_MAX (64u << 20)
#define BUNDLE_UNUSED_S (30 * 24 * 3600) /* a job that lives longer than this may lose its bundle */

bool rg_store_place(enum rg_store_place place, char *path, size_t room)
{
    const char *root = place == RG_STORE_RUNTIME ? getenv("XDG_RUNTIME_DIR")
                       : place == RG_STORE_HOME  ? getenv("HOME")
                                                 : place == RG_STORE_TMP ? "/tmp" : "/var/tmp";
    int n;

    if (!root || *root != '/')
        return false;
    if (place == RG_STORE_HOME) {
        n = snprintf(path, room, "%s/.cache", root);
        if (n < (int) room)
            mkdir(path, 0700);
        n = snprintf(path, room, "%s/.cache/reigen", root);
    } else if (place == RG_STORE_RUNTIME) {
        n = snprintf(path, room, "%s/reigen", root);
    } else {
        n = snprintf(path, room, "%s/reigen-%u", root, (unsigned) geteuid());
    }
    return n < (int) room;
}

bool rg_store_is_private(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 022) == 0;
}

/* A directory that others could write to, or that is another's, is not for keys. */
bool rg_store_is_ours(const char *path)
{
    return (mkdir(path, 0700) == 0 || errno == EEXIST) && rg_store_is_private(path) &&
           access(path, W_OK) == 0;
}

bool rg_store_is_good(const char *path)
{
    struct statvfs fs;

    return rg_store_is_ours(path) && statvfs(path, &fs) == 0 && !(fs.f_flag & ST_NOEXEC);
}

/* As linux/openat2.h has it, which is newer than some systems that this is built on. */
#define OPENAT2 437
#define RESOLVE_BENEATH_HERE (0x01 | 0x04 | 0x08) /* NO_XDEV, NO_SYMLINKS, BENEATH */
struct how {
    uint64_t flags, mode, resolve;
};

/* Kernels before 5.6 see other file systems by their number alone. */
static int open_older(int dir_fd, const char *name)
{
    rg_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat above, st;

    if (fd < 0 || fstat(dir_fd, &above) < 0 || fstat(fd, &st) < 0)
        return -errno;
    return above.st_dev != st.st_dev ? -EXDEV : rg_steal_fd(&fd);
}

int rg_store_open_below(int dir_fd, const char *name)
{
    struct how how = { O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, RESOLVE_BENEATH_HERE };
    long fd = syscall(OPENAT2, dir_fd, name, &how, sizeof(how));

    if (fd >= 0)
        return (int) fd;
    return errno == ENOSYS || errno == EPERM ? open_older(dir_fd, name) : -errno;
}

static void empty(int take_fd, int depth);

static void remove_at(int dir_fd, const char *name, int depth)
{
    if (unlinkat(dir_fd, name, 0) == 0 || (errno != EISDIR && errno != EPERM) ||
        depth > TREE_DEPTH_MAX)
        return;
    /* A mount is busy, also where openat2 is missing; of others the empty ones go. */
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == EBUSY)
        return;
    /* What is named by a path may be reached by links, and what is in it may not. */
    int fd = dir_fd == AT_FDCWD ? openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
                                                           O_CLOEXEC)
                                : rg_store_open_below(dir_fd, name);
    if (fd >= 0)
        empty(fd, depth + 1);
    unlinkat(dir_fd, name, AT_REMOVEDIR);
}

static void empty(int take_fd, int depth)
{
    rg_autodir DIR *dir = fdopendir(take_fd);

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_at(take_fd, entry->d_name, depth);
    }
    if (!dir)
        close(take_fd);
}

void rg_store_remove_tree(const char *path)
{
    remove_at(AT_FDCWD, path, 0);
}

void rg_store_empty(int take_fd)
{
    empty(take_fd, 0);
}

int rg_store_write(int dir_fd, const char *name, const void *data, size_t nbytes, mode_t mode)
{
    unlinkat(dir_fd, name, 0);
    rg_autoclose int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

    return fd < 0 || fchmod(fd, mode) < 0 ? -errno : rg_write_all(fd, data, nbytes);
}

bool rg_store_bundle_fits(const char *name)
{
    struct utsname machine;

    return !strchr(name, '/') && uname(&machine) == 0 && rg_str_starts(name, machine.machine);
}

const char *rg_store_bundle_misfit(const char *root)
{
    static const char *const folders[] = { "lib64", "lib", "usr/lib64", "usr/lib" };
    static const char version[] = "\0GLIBC_2.28"; /* of a function that came with it */
    struct utsname machine;
    char path[PATH_MAX];

    if (uname(&machine) < 0)
        return NULL;
    for (size_t i = 0; i < 2 * rg_array_len(folders); i++) {
        rg_autofree char *libc = NULL;
        size_t nbytes;
        snprintf(path, sizeof(path), "%s/%s/%s%slibc.so.6", root, folders[i / 2],
                 i % 2 ? machine.machine : "", i % 2 ? "-linux-gnu/" : "");
        if (rg_read_file(path, LIBC_MAX, &libc, &nbytes) == 0)
            return memmem(libc, nbytes, version, sizeof(version)) ? NULL : "an older glibc";
    }
    snprintf(path, sizeof(path), "%s/lib/ld-musl-%s.so.1", root, machine.machine);
    return access(path, F_OK) == 0 ? "musl" : NULL;
}

int rg_store_keep_bundle(const uint8_t *data, size_t nbytes, const char *path,
                         struct rg_error *err)
{
    uint64_t random = 0;

    if (getrandom(&random, sizeof(random), 0) < 0)
        return rg_error_set(err, errno, "no random bytes from the kernel");
    rg_autofree char *fresh = rg_strf("%s.%016llx", path, (unsigned long long) random);
    if (!fresh)
        return rg_error_set(err, ENOMEM, "out of memory");
    int r = rg_bundle_unpack(data, nbytes, fresh, err);

    if (r == 0 && rename(fresh, path) < 0 && errno != EEXIST && errno != ENOTEMPTY)
        r = rg_error_set(err, errno, "%s: %s", path, strerror(errno));
    rg_store_remove_tree(fresh);
    return r;
}

/* Bundles that nobody has started with for long, and what was being made when its maker died. */
static void sweep_old(const char *path, const char *name)
{
    struct stat st;
    bool bundle = rg_str_starts(name, "bundle-");
    bool half = rg_str_starts(name, ".reigen-") || (bundle && strchr(name, '.'));

    if ((bundle || half) && lstat(path, &st) == 0 &&
        time(NULL) - st.st_mtime > (half ? HALF_MADE_S : BUNDLE_UNUSED_S))
        rg_store_remove_tree(path);
}

void rg_store_sweep_bundles(const char *base)
{
    rg_autodir DIR *list = opendir(base);
    char dir[PATH_MAX];

    for (struct dirent *entry; list && (entry = readdir(list));) {
        if (snprintf(dir, sizeof(dir), "%s/%s", base, entry->d_name) < (int) sizeof(dir))
            sweep_old(dir, entry->d_name);
    }
}

/* --- packages that a Python has itself, which win over ours ----------------------------------- */

bool rg_python_site_has(const char *site, size_t length)
{
    static const char *const names[] = { "horovod", "reigen" };
    char path[PATH_MAX];

    for (size_t i = 0; i < rg_array_len(names); i++) {
        if (snprintf(path, sizeof(path), "%.*s/%s", (int) length, site, names[i]) <
                (int) sizeof(path) && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

bool rg_python_prefix_has(const char *bin, size_t length)
{
    static const char *const folders[] = { "site-packages", "dist-packages" };
    char lib[PATH_MAX], site[PATH_MAX + 300];
    bool found = false;

    if (snprintf(lib, sizeof(lib), "%.*s/../lib", (int) length, bin) >= (int) sizeof(lib))
        return false;
    rg_autodir DIR *dir = opendir(lib);
    for (struct dirent *entry; !found && dir && (entry = readdir(dir));) {
        bool python = rg_str_starts(entry->d_name, "python");
        for (size_t i = 0; python && i < rg_array_len(folders); i++) {
            snprintf(site, sizeof(site), "%s/%s/%s", lib, entry->d_name, folders[i]);
            found = found || rg_python_site_has(site, strlen(site));
        }
    }
    return found;
}
