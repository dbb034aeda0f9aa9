/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are asked something may write much, hang, or leave a child that holds their pipe:
 * none of that may hold up who asks. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/spawn.h"
#include "base/time.h"

#define WAIT_STEP_MS 5
#define KILLED_MS 1000

/* Until the end of the output, or the deadline. True at the end of the output. */
static bool read_until(int fd, uint64_t deadline_ns, char *text, size_t room)
{
    char rest[512];

    for (size_t n = 0;;) {
        bool full = n + 1 >= room; /* what it still writes is read, so that it can end */

        text[n] = '\0';
        if (rg_fd_wait(fd, POLLIN, deadline_ns) < 0)
            return false;
        ssize_t got = read(fd, full ? rest : text + n, full ? sizeof(rest) : room - 1 - n);
        if (got <= 0)
            return got == 0;
        n += full ? 0 : (size_t) got;
    }
}

/* Its end, or the deadline's: it may have closed its output and go on. */
static bool wait_until(pid_t pid, uint64_t deadline_ns, int *ret_status)
{
    pid_t ended;

    while ((ended = waitpid(pid, ret_status, WNOHANG)) == 0 && rg_now_ns() < deadline_ns)
        rg_sleep_ms(WAIT_STEP_MS);
    return ended == pid;
}

int rg_capture(const char *const *argv, char *const *envp, bool all, unsigned timeout_ms,
               char *ret_text, size_t room)
{
    uint64_t deadline_ns = rg_now_ns() + timeout_ms * RG_NS_PER_MS;
    int fds[2], status = 0;
    pid_t pid;
    int r = rg_pipe(fds);

    *ret_text = '\0';
    if (r < 0)
        return r;
    rg_autoclose int ours = fds[0];
    struct rg_spawn spawn = {
        .argv = (char *const *) (uintptr_t) argv,
        .envp = envp,
        .fds = { -1, fds[1], all ? fds[1] : -1 },
        .new_session = true,
        .death_signal = SIGKILL,
    };
    r = rg_spawn(&spawn, &pid, NULL);
    close(fds[1]);
    if (r < 0)
        return r;
    if (read_until(ours, deadline_ns, ret_text, room) && wait_until(pid, deadline_ns, &status))
        return rg_status_code(status);
    kill(-pid, SIGKILL);
    /* One that hangs in a driver may outlive that, and is left to whoever takes in orphans. */
    wait_until(pid, rg_now_ns() + KILLED_MS * RG_NS_PER_MS, &status);
    return rg_now_ns() < deadline_ns ? -EIO : -ETIMEDOUT;
}
