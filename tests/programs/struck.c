/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To be preloaded (LD_PRELOAD): a process that gets a signal at a certain place of its life.
 * TEST_STRUCK_AT is "FUNCTION COUNT SIGNAL": when the library calls FUNCTION, one of those below,
 * for the COUNT-th time, the process says "struck PID" and sends itself SIGNAL first.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void strike(const char *function)
{
    static atomic_int ncalls;
    const char *where = getenv("TEST_STRUCK_AT");
    char name[32];
    int count, number;

    if (!where || sscanf(where, "%31s %d %d", name, &count, &number) != 3 ||
        strcmp(name, function) != 0 || atomic_fetch_add(&ncalls, 1) + 1 != count)
        return;
    dprintf(1, "struck %d\n", (int) getpid());
    kill(getpid(), number);
}

#define STRIKING_AS(as, type, name, parameters, arguments)                          \
    type name parameters;                                                    \
    __attribute__((visibility("default"))) type name parameters              \
    {                                                                        \
        type(*real) parameters;                                              \
                                                                             \
        *(void **) &real = dlsym(RTLD_NEXT, #name);                          \
        strike(as);                                                          \
        return real arguments;                                               \
    }
#define STRIKING(type, name, parameters, arguments) \
    STRIKING_AS(#name, type, name, parameters, arguments)

STRIKING(int, listen, (int fd, int backlog), (fd, backlog))
STRIKING(int, eventfd, (unsigned value, int flags), (value, flags))
/* That of a rank's place is not counted: older kernels are asked for it twice. */
STRIKING_AS(strncmp(name, "reigen-place-", strlen("reigen-place-")) == 0 ? "place" : "memfd_create",
            int, memfd_create, (const char *name, unsigned flags), (name, flags))
STRIKING(int, epoll_create1, (int flags), (flags))
STRIKING(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
