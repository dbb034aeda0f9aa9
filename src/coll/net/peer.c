/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of a unix socket, as the kernel sees it. */
#include "coll/net/peer.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "coll/net/sock.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5; the same on all architectures that we know */
#endif

/* 1 the same, 0 another, -errno. A kernel that has no such name spaces has one for all. */
static int same_namespace(pid_t pid, const char *kind)
{
    char path[64];
    struct stat ours, theirs;

    snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
    if (stat(path, &ours) < 0)
        return errno == ENOENT && access("/proc/self/ns/net", F_OK) == 0 ? 1 : -errno;
    snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int) pid, kind);
    if (stat(path, &theirs) < 0)
        return -errno;
    return ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* Its number may have gone to another process since it connected. Kernels before 6.5 cannot say. */
static bool has_ended(int fd)
{
    rg_autoclose int pidfd = -1;
    socklen_t nbytes = sizeof(pidfd);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &nbytes) < 0) {
        pidfd = -1;
        return errno == ESRCH || errno == EINVAL || errno == ENODATA;
    }
    return poll(&(struct pollfd){ pidfd, POLLIN, 0 }, 1, 0) != 0;
}

int rg_peer_check(int fd, struct rg_error *err)
{
    static const char *const kinds[] = { "mnt", "pid" };
    uid_t uid;
    pid_t pid;
    int r = rg_sock_peer(fd, &uid, &pid);

    if (r < 0)
        return rg_error_set(err, -r, "%s", strerror(-r));
    if (uid != geteuid())
        return rg_error_set(err, EPERM, "a process of another user (uid %u)", (unsigned) uid);
    if (pid <= 0) /* not visible from our pid name space */
        return rg_error_set(err, EXDEV, "a process in another container (pid name space)");
    for (size_t i = 0; i < rg_array_len(kinds); i++) {
        r = same_namespace(pid, kinds[i]);
        if (r == 0)
            return rg_error_set(err, EXDEV, "process %d in another container (%s name space)",
                                (int) pid, i == 0 ? "mount" : "pid");
        if (r < 0)
            return rg_error_set(err, EACCES, "process %d, of which /proc does not tell whether it "
                                "is in a container (%s)", (int) pid, strerror(-r));
    }
    return has_ended(fd) ? rg_error_set(err, ESRCH, "a process that has ended") : 0;
}
