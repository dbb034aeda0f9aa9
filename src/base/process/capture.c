/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that are asked something may write without end, hang, or leave a child that holds their
 * pipe: none of that may hold up who asks. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/time.h"

#define STEP_MS 5 /* between two looks whether it has ended */
#define KILLED_MS 1000

/* Take what there is to read now; what finds no room is let go, so that the program can end. False
 * at the end of the output. */
static bool take(int fd, uint64_t deadline_ns, char *text, size_t room, size_t *n)
{
    char rest[4096];
    ssize_t got = 1;

    while (got > 0 && rg_now_ns() < deadline_ns) {
        bool full = *n + 1 >= room;
        got = read(fd, full ? rest : text + *n, full ? sizeof(rest) : room - 1 - *n);
        *n += got > 0 && !full ? (size_t) got : 0;
        text[*n] = '\0';
    }
    return got != 0;
}

/* Until it ends, or the deadline: what waitpid returned last. Its output may end before it does, or
 * be held open behind it. */
static pid_t read_until(pid_t pid, int fd, uint64_t deadline_ns, char *text, size_t room,
                        int *ret_status)
{
    pid_t ended = 0;
    size_t n = 0;

    while (ended == 0 && rg_now_ns() < deadline_ns) {
        ended = waitpid(pid, ret_status, WNOHANG); /* then all that it wrote is in the pipe */
        if (!take(fd, deadline_ns, text, room, &n) && ended == 0)
            rg_sleep_ms(STEP_MS);
        else if (ended == 0)
            rg_fd_wait(fd, POLLIN, rg_now_ns() + STEP_MS * RG_NS_PER_MS);
    }
    return ended;
}

int rg_capture(const char *const *argv, char *const *envp, bool all, unsigned timeout_ms,
               char *ret_text, size_t room)
{
    uint64_t deadline_ns = rg_now_ns() + timeout_ms * RG_NS_PER_MS;
    int fds[2], status = 0;
    pid_t pid, ended;
    int r = rg_pipe(fds);

    *ret_text = '\0';
    if (r < 0)
        return r;
    rg_autoclose int ours = fds[0];
    rg_fd_set_nonblock(ours, true);
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
    ended = read_until(pid, ours, deadline_ns, ret_text, room, &status);
    if (ended != 0)
        return ended == pid ? rg_status_code(status) : -ECHILD;
    kill(-pid, SIGKILL);
    /* One that hangs in a driver may outlive that, and is left to whoever takes in orphans. */
    for (int i = 0; i < KILLED_MS / STEP_MS && waitpid(pid, &status, WNOHANG) == 0; i++)
        rg_sleep_ms(STEP_MS);
    return -ETIMEDOUT;
}

int rg_spawn_ask(char *const *argv, unsigned timeout_ms, size_t max_nbytes, char **ret_text)
{
    rg_autofree char *text = malloc(max_nbytes + 2);
    int r = text ? rg_capture((const char *const *) argv, NULL, false, timeout_ms, text,
                              max_nbytes + 2) : -ENOMEM;

    if (r < 0 || strlen(text) > max_nbytes)
        return r < 0 ? r : -EFBIG;
    *ret_text = rg_steal_ptr(&text);
    return r;
}
