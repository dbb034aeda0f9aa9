/* SPDX-License-Identifier: Apache-2.0 */
/* A name like ours proves nothing, so only what has the size, the owner and the kind of a marker is
 * removed. One that was made just now may not have its lock yet. */
#include "launch/sync/marker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define DIGITS 16
#define LEAST_AGE_S 60

static bool is_name(const char *name)
{
    const char *digits = name + strlen(RG_SYNC_MARKER);

    return rg_str_starts(name, RG_SYNC_MARKER) && strlen(digits) == DIGITS &&
           strspn(digits, "0123456789abcdef") == DIGITS;
}

static bool is_left(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           st.st_nlink == 1 && st.st_size <= RG_SYNC_TOKEN_NBYTES &&
           st.st_mtime + LEAST_AGE_S < time(NULL) && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static void sweep(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rg_autodir DIR *dir = fd < 0 || !rg_fd_is_local(fd) ? NULL : fdopendir(fd);

    if (!dir && fd >= 0)
        close(fd);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!is_name(entry->d_name))
            continue;
        rg_autoclose int left = openat(dir_fd, entry->d_name,
                                       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (is_left(left))
            unlinkat(dir_fd, entry->d_name, 0);
    }
}

int rg_sync_marker_make(const char *dir, struct rg_sync_marker *ret_marker)
{
    struct rg_sync_marker marker = RG_SYNC_MARKER_INIT;
    rg_autoclose int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint64_t number;
    int r;

    if (dir_fd < 0)
        return -errno;
    sweep(dir_fd);
    if (getrandom(&number, sizeof(number), 0) != sizeof(number) ||
        getrandom(marker.token, sizeof(marker.token), 0) != sizeof(marker.token))
        return -EIO;
    snprintf(marker.name, sizeof(marker.name), RG_SYNC_MARKER "%0*llx", DIGITS,
             (unsigned long long) number);
    marker.fd = openat(dir_fd, marker.name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (marker.fd < 0)
        return -errno;
    flock(marker.fd, LOCK_EX | LOCK_NB); /* what cannot lock is not swept */
    fchmod(marker.fd, 0644);             /* the user may have another number there */
    r = rg_write_all(marker.fd, marker.token, sizeof(marker.token));
    if (r < 0)
        rg_sync_marker_remove(dir, &marker);
    else
        *ret_marker = marker;
    return r;
}

void rg_sync_marker_remove(const char *dir, struct rg_sync_marker *marker)
{
    rg_autofree char *path = *marker->name ? rg_strf("%s/%s", dir, marker->name) : NULL;

    if (path)
        unlink(path);
    if (marker->fd >= 0)
        close(marker->fd);
    *marker = (struct rg_sync_marker) RG_SYNC_MARKER_INIT;
}
