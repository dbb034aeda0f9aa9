/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives a job on a host lies in a few directories; the agent beside the ranks and the one
 * that starts containers trust, fill and clean them by the same rules. */
#include "agent/store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "container/bundle.h"

#define TREE_DEPTH_MAX 64
#define HALF_MADE_S 3600 /* what is that old and not complete will not be any more */
#define BUNDLE_UNUSED_S (30 * 24 * 3600) /* a job that lives longer than this may lose its bundle */

/* A directory that others could write to, or that is another's, is not for keys. */
bool rg_store_is_ours(const char *path)
{
    struct stat st;

    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return false;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 022) == 0 && access(path, W_OK) == 0;
}

bool rg_store_is_good(const char *path)
{
    struct statvfs fs;

    return rg_store_is_ours(path) && statvfs(path, &fs) == 0 && !(fs.f_flag & ST_NOEXEC);
}

static void remove_at(int dir_fd, const char *name, int depth)
{
    if (unlinkat(dir_fd, name, 0) == 0 || (errno != EISDIR && errno != EPERM) ||
        depth > TREE_DEPTH_MAX)
        return;
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_at(fd, entry->d_name, depth + 1);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    unlinkat(dir_fd, name, AT_REMOVEDIR);
}

void rg_store_remove_tree(const char *path)
{
    remove_at(AT_FDCWD, path, 0);
}

int rg_store_keep_bundle(const uint8_t *data, size_t nbytes, const char *fresh, const char *path,
                         struct rg_error *err)
{
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
    DIR *list = opendir(base);
    char dir[PATH_MAX];

    for (struct dirent *entry; list && (entry = readdir(list));) {
        if (snprintf(dir, sizeof(dir), "%s/%s", base, entry->d_name) < (int) sizeof(dir))
            sweep_old(dir, entry->d_name);
    }
    if (list)
        closedir(list);
}
