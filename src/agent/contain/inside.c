/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's first steps within a container. Contract: contain.h. */
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

#include "agent/contain/contain.h"
#include "agent/store/store.h"
#include "base/fd.h"

#define NFDS 4 /* 0, 1, 2 and the lock */
#define STACK_NBYTES (64u << 20)

static int call(const char *path, struct rg_error *err)
{
    struct sockaddr_un address;
    socklen_t nbytes = rg_unix_address(path, &address);
    rg_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (!nbytes)
        return rg_error_set(err, ENAMETOOLONG, "%s: too long", path);
    if (fd < 0 || connect(fd, (struct sockaddr *) &address, nbytes) < 0)
        return rg_error_set(err, errno, "calling the host's side at %s: %s", path,
                            strerror(errno));
    return rg_steal_fd(&fd);
}

static int receive(int conn_fd, int fds[NFDS], struct rg_error *err)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(NFDS * sizeof(int))];
    } control;
    char byte;
    struct iovec iov = { &byte, 1 };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
                          .msg_controllen = sizeof(control.bytes) };
    ssize_t n = recvmsg(conn_fd, &msg, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = n == 1 ? CMSG_FIRSTHDR(&msg) : NULL;

    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
        header->cmsg_len != CMSG_LEN(NFDS * sizeof(int)))
        return rg_error_set(err, EPROTO, "the host's side gave no descriptors");
    memcpy(fds, CMSG_DATA(header), NFDS * sizeof(int));
    return 0;
}

/* --- our Python packages --------------------------------------------------------------------- */

static bool image_has_package(void)
{
    const char *path = getenv("PATH");

    for (const char *dir = path ? path : ""; *dir;) {
        size_t n = strcspn(dir, ":");
        if (n > 0 && rg_python_prefix_has(dir, n))
            return true;
        dir += n + (dir[n] == ':');
    }
    return false;
}

/* Ours stand behind what the image's own PYTHONPATH names, and before its site-packages. The mark
 * in the run directory says that they count whatever the image has (--inject-runtime). */
static void offer_packages(void)
{
    const char *old = getenv("PYTHONPATH");

    if (access(RG_CONTAINER_PYTHON "/reigen", F_OK) < 0)
        return;
    if (access(RG_CONTAINER_RUN "/inject", F_OK) < 0 && image_has_package())
        return;
    rg_autofree char *value = rg_strf("%s%s" RG_CONTAINER_PYTHON, old ? old : "",
                                      old && *old ? ":" : "");
    if (value)
        setenv("PYTHONPATH", value, 1);
}

/* Docker's containers have 8 MiB by default, of which recursive programs run out. What was set
 * higher stays, and what may not be had so high is what may be had. */
static void raise_stack_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_STACK, &limit) < 0 || limit.rlim_cur >= STACK_NBYTES)
        return;
    limit.rlim_cur = limit.rlim_max < STACK_NBYTES ? limit.rlim_max : STACK_NBYTES;
    setrlimit(RLIMIT_STACK, &limit);
}

int rg_inside_enter(const char *path, int first_fd, int *ret_fd, struct rg_error *err)
{
    int fds[NFDS];
    int conn_fd = call(path, err);

    if (conn_fd < 0)
        return conn_fd;
    int r = receive(conn_fd, fds, err);
    if (r < 0) {
        close(conn_fd);
        return r;
    }
    /* Out of the way first: the numbers they came with may be those that are wanted. */
    int high[NFDS + 1];
    for (int i = 0; i < NFDS; i++)
        high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, first_fd + NFDS + 1);
    high[NFDS] = fcntl(conn_fd, F_DUPFD_CLOEXEC, first_fd + NFDS + 1);
    for (int i = 0; i < 3; i++)
        dup2(high[i], i);
    if (dup3(high[3], first_fd, O_CLOEXEC) < 0 || dup3(high[NFDS], first_fd + 1, O_CLOEXEC) < 0)
        return rg_error_set(err, errno, "descriptors of the agent: %s", strerror(errno));
    offer_packages();
    raise_stack_limit();
    *ret_fd = first_fd + 1;
    return first_fd + 1;
}
