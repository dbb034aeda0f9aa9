/* SPDX-License-Identifier: Apache-2.0 */
/* Container runtimes say why they failed on standard error only, so each is run with its words
 * kept. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/contain/contain.h"
#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/time.h"

int rg_contain_spawn(struct rg_contain_child *child, const struct rg_strv *argv, bool all,
                     struct rg_error *err)
{
    rg_autoclose int read_fd = -1, write_fd = -1;
    int fds[2];
    int r = rg_pipe(fds);

    memset(child, 0, sizeof(*child));
    child->fd = -1;
    if (r < 0)
        return rg_error_set(err, -r, "no pipe for %s: %s", argv->v[0], strerror(-r));
    read_fd = fds[0];
    write_fd = fds[1];
    rg_fd_set_nonblock(read_fd, true);
    struct rg_spawn spawn = {
        .argv = argv->v,
        .fds = { -1, all ? write_fd : -1, write_fd },
        .new_session = true,
        .death_signal = SIGTERM,
    };
    r = rg_spawn(&spawn, &child->pid, err);
    if (r == 0)
        child->fd = rg_steal_fd(&read_fd);
    return r;
}

/* Only the end is kept: that is where the cause stands. */
static void keep(struct rg_contain_child *child, const char *text, size_t nbytes)
{
    size_t drop = child->nsaid + nbytes > RG_CONTAIN_SAID_MAX
                      ? child->nsaid + nbytes - RG_CONTAIN_SAID_MAX : 0;

    memmove(child->said, child->said + drop, child->nsaid - drop);
    child->nsaid -= drop;
    memcpy(child->said + child->nsaid, text, nbytes);
    child->nsaid += nbytes;
    child->said[child->nsaid] = '\0';
}

bool rg_contain_listen(struct rg_contain_child *child)
{
    char text[1024];

    while (child->fd >= 0) {
        ssize_t n = read(child->fd, text, sizeof(text));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n <= 0) {
            close(child->fd);
            child->fd = -1;
            break;
        }
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] == '\0' || text[i] == '\r')
                text[i] = '\n';
        }
        keep(child, text, (size_t) n);
    }
    return false;
}

int rg_contain_wait(struct rg_contain_child *child, unsigned timeout_ms)
{
    uint64_t deadline_ns = rg_now_ns() + timeout_ms * RG_NS_PER_MS;
    int status = 0;

    while (child->pid > 0) {
        pid_t pid = waitpid(child->pid, &status, WNOHANG);
        if (pid == child->pid || (pid < 0 && errno != EINTR))
            break;
        if (rg_now_ns() >= deadline_ns)
            kill(-child->pid, SIGKILL);
        struct pollfd pfd = { .fd = child->fd, .events = POLLIN };
        poll(&pfd, 1, child->fd >= 0 ? 20 : 2);
        rg_contain_listen(child);
    }
    rg_contain_listen(child);
    child->pid = 0;
    if (child->fd >= 0)
        close(child->fd);
    child->fd = -1;
    return status;
}

int rg_contain_do(const struct rg_strv *argv, unsigned timeout_ms)
{
    struct rg_contain_child child;

    if (argv->count == 0)
        return 0;
    int r = rg_contain_spawn(&child, argv, false, NULL);

    return r < 0 ? r : rg_status_code(rg_contain_wait(&child, timeout_ms));
}
