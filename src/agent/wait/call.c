/* SPDX-License-Identifier: Apache-2.0 */
/* Workers without ssh say themselves that they are ready, and want to know when all is over. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "agent/wait/internal.h"
#include "platform/common/callers.h"

#define LOOK_MS 500 /* at a parent that an old kernel has no descriptor for */

static void close_one(struct rg_wait_host *host)
{
    rg_io_stop(&host->io);
    if (host->fd >= 0)
        close(host->fd);
    host->fd = -1;
}

/* A worker says nothing more: this is its end. */
static void on_end(void *arg, int events)
{
    struct rg_wait_host *host = arg;

    (void) events;
    close_one(host);
    if (!host->wait->ssh)
        rg_wait_not_ready(host, "it was there, and is gone again");
}

/* "worker-0" is itself; "node1" is node1.example as well. */
static bool is_name(const char *place, const char *name)
{
    size_t n = strcspn(place, "."), m = strcspn(name, ".");

    return strcmp(place, name) == 0 ||
           (n == m && (!place[n] || !name[m]) && strncmp(place, name, n) == 0);
}

static bool say(int fd, const char *line)
{
    ssize_t n = (ssize_t) strlen(line);

    return send(fd, line, (size_t) n, MSG_NOSIGNAL) == n;
}

static void on_called(void *arg, const char *place, int take_fd)
{
    struct rg_wait *wait = arg;
    struct rg_wait_host *host = wait->hosts;

    while (host < wait->hosts + wait->nhosts && !is_name(place, host->name))
        host++;
    if (host == wait->hosts + wait->nhosts)
        snprintf(wait->stranger, sizeof(wait->stranger), "%s", place);
    if (host == wait->hosts + wait->nhosts || !say(take_fd, RG_POD_WAIT "\n")) {
        close(take_fd);
        return;
    }
    close_one(host); /* it was started anew */
    host->fd = take_fd;
    rg_io_start(&host->io, wait->loop, take_fd, RG_IO_READ, on_end, host);
    if (!wait->ssh)
        rg_wait_ready(host);
}

/* It may be somebody else: who is ready stays so. */
static void on_refused(void *arg, const char *place)
{
    struct rg_wait *wait = arg;

    for (size_t i = 0; i < wait->nhosts; i++) {
        struct rg_wait_host *host = &wait->hosts[i];
        if (!host->ready && !wait->ssh && is_name(place, host->name))
            rg_wait_not_ready(host, RG_POD_WRONG_KEY);
    }
}

int rg_wait_listen(struct rg_wait *wait, struct rg_error *err)
{
    const struct rg_listener_options options = {
        .loop = wait->loop, .key = wait->key, .ports = { wait->port, wait->port }, .only = true,
        .on_linked = on_called, .on_refused = on_refused, .arg = wait,
    };
    int r = rg_listener_open(&options, &wait->listener, NULL);

    explicit_bzero(wait->key, sizeof(wait->key));
    return r == 0 ? 0
                  : rg_error_set_exit(err, -r, RG_EXIT_UNAVAILABLE,
                                      "the workers cannot call this host: its port %d cannot be "
                                      "listened on: %s; --port (in OpenPAI " RG_TASKS_PORT "), on "
                                      "all hosts, names another one",
                                      wait->port, strerror(-r));
}

/* --- the keeper ------------------------------------------------------------------------------- */

/* A pipe that the script has given us would stay open for who reads it. */
static void close_others(const struct rg_wait *wait, int parent_fd)
{
    rg_autodir DIR *dir = opendir("/proc/self/fd");

    for (struct dirent *e; dir && (e = readdir(dir));) {
        int fd = atoi(e->d_name);
        bool own = fd < 3 || fd == parent_fd || fd == dirfd(dir);
        for (size_t i = 0; i < wait->nhosts; i++)
            own |= wait->hosts[i].fd == fd;
        if (!own)
            close(fd);
    }
}

/* Until the process that has started us ends. */
static _Noreturn void keep(const struct rg_wait *wait, int parent_fd)
{
    struct pollfd watched = { .fd = parent_fd, .events = POLLIN };
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    prctl(PR_SET_NAME, "rg-keeper", 0, 0, 0);
    setsid();
    signal(SIGHUP, SIG_IGN);
    for (int fd = 0; null_fd >= 0 && fd < 3; fd++)
        dup2(null_fd, fd);
    close_others(wait, parent_fd);
    if (chdir("/") < 0)
        _exit(RG_EXIT_INTERNAL);
    if (parent_fd >= 0) {
        while (poll(&watched, 1, -1) < 0 && errno == EINTR)
            ;
    } else {
        while (kill(wait->parent, 0) == 0 || errno == EPERM)
            poll(NULL, 0, LOOK_MS);
    }
    _exit(0);
}

void rg_wait_listen_end(struct rg_wait *wait, bool go)
{
    size_t nheld = 0;
    /* It is a process 1 that has no parent, and with it all ends. */
    int parent_fd = wait->parent > 0 ? (int) syscall(SYS_pidfd_open, wait->parent, 0) : -1;

    go = go && getppid() == wait->parent; /* so the descriptor is of no other process */
    rg_listener_close(rg_steal_ptr(&wait->listener));
    for (size_t i = 0; i < wait->nhosts; i++) {
        struct rg_wait_host *host = &wait->hosts[i];
        rg_io_stop(&host->io);
        if (host->fd >= 0 && (!say(host->fd, go ? RG_POD_GO "\n" : RG_POD_OVER "\n") || !go))
            close_one(host);
        nheld += host->fd >= 0;
    }
    if (nheld && wait->parent > 0 && fork() == 0)
        keep(wait, parent_fd);
    if (parent_fd >= 0)
        close(parent_fd);
    for (size_t i = 0; i < wait->nhosts; i++)
        close_one(&wait->hosts[i]);
}
