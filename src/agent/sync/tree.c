/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a copy are made one component of their path at a time, so that no link leads out. */
#include "agent/sync/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/cleanup.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define NS 1000000000ull

/* The directory that path's last component is in, made with all above it. A descriptor of the
 * caller's, or -errno; *ret_name is within path. */
static int open_parent(int tree_fd, const char *path, const char **ret_name)
{
    char name[RG_SYNC_NAME_MAX + 1];
    int dir_fd = dup(tree_fd);

    for (const char *slash; dir_fd >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        size_t n = (size_t) (slash - path);
        memcpy(name, path, n);
        name[n] = '\0';
        int fd = openat(dir_fd, name, DIR_FLAGS);
        if (fd < 0 && errno == ENOENT && (mkdirat(dir_fd, name, 0755) == 0 || errno == EEXIST))
            fd = openat(dir_fd, name, DIR_FLAGS);
        int saved = errno;
        close(dir_fd);
        errno = saved;
        dir_fd = fd;
    }
    *ret_name = path;
    return dir_fd < 0 ? -errno : dir_fd;
}

int rg_sync_tree_create(int tree_fd, const char *path, bool is_there)
{
    int flags = is_there ? O_TRUNC : O_CREAT | O_EXCL;
    const char *name;
    rg_autoclose int dir_fd = open_parent(tree_fd, path, &name);

    if (dir_fd < 0)
        return dir_fd;
    int fd = openat(dir_fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
    return fd < 0 ? -errno : fd;
}

int rg_sync_tree_settle(int fd, const struct rg_sync_entry *entry)
{
    struct timespec times[2] = {
        { 0, UTIME_OMIT },
        { (time_t) (entry->mtime_ns / NS), (long) (entry->mtime_ns % NS) },
    };

    return fchmod(fd, entry->mode) < 0 || futimens(fd, times) < 0 ? -errno : 0;
}

int rg_sync_tree_mkdir(int tree_fd, const char *path)
{
    const char *name;
    rg_autoclose int dir_fd = open_parent(tree_fd, path, &name);

    if (dir_fd < 0)
        return dir_fd;
    if (mkdirat(dir_fd, name, 0755) == 0)
        return 0;
    rg_autoclose int fd = errno == EEXIST ? openat(dir_fd, name, DIR_FLAGS) : -1;
    return fd < 0 ? -errno : 0;
}

int rg_sync_tree_link(int tree_fd, const char *path, const char *target)
{
    const char *name;
    rg_autoclose int dir_fd = open_parent(tree_fd, path, &name);

    if (dir_fd < 0)
        return dir_fd;
    return symlinkat(target, dir_fd, name) < 0 ? -errno : 0;
}
