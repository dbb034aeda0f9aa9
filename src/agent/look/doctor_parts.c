/* SPDX-License-Identifier: Apache-2.0 */
/* Some measurements need processes of their own, which are started here. */
#include "agent/look/doctor_parts.h"

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "agent/look/doctor.h"
#include "base/fd.h"
#include "base/spawn.h"
#include "base/time.h"

#define WAIT_STEP_MS 5
#define KILLED_MS 1000
#define PATTERN 0x72656967656e2121ull

bool rg_doctor_find(const char *name, char ret_path[PATH_MAX])
{
    return rg_path_find(getenv("PATH"), name, strlen(name), ret_path);
}

/* Until the end of the output, the room's end or the deadline. True at the end of the output. */
static bool read_until(int fd, uint64_t deadline_ns, char *text, size_t room, size_t *ret_n)
{
    char rest[512];

    for (size_t n = 0;;) {
        uint64_t now = rg_now_ns();
        struct pollfd p = { .fd = fd, .events = POLLIN };
        *ret_n = n;
        if (now >= deadline_ns ||
            poll(&p, 1, (int) ((deadline_ns - now) / RG_NS_PER_MS) + 1) <= 0)
            return false;
        bool full = n + 1 >= room; /* what it still writes is read, so that it can end */
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
        poll(NULL, 0, WAIT_STEP_MS);
    return ended == pid;
}

int rg_doctor_capture(const char *const *argv, char *ret_text, size_t room)
{
    struct rg_error err = RG_ERROR_INIT;
    int fds[2], status = -1;
    size_t n = 0;
    pid_t pid;

    if (rg_pipe(fds) < 0)
        return RG_DOCTOR_NONE;
    rg_autoclose int ours = fds[0];
    struct rg_spawn spawn = {
        .argv = (char *const *) (uintptr_t) argv,
        .fds = { -1, fds[1], -1 },
        .new_session = true,
        .death_signal = SIGKILL,
    };
    int r = rg_spawn(&spawn, &pid, &err);
    close(fds[1]);
    if (r < 0)
        return RG_DOCTOR_NONE;
    uint64_t deadline_ns = rg_now_ns() + RG_DOCTOR_PROGRAM_MS * RG_NS_PER_MS;
    bool late = false, whole = read_until(ours, deadline_ns, ret_text, room, &n);
    if (!whole || !wait_until(pid, deadline_ns, &status)) {
        whole = false;
        late = rg_now_ns() >= deadline_ns;
        kill(-pid, SIGKILL);
        /* One that hangs in a driver may outlive that, and is left to whoever takes in orphans. */
        wait_until(pid, rg_now_ns() + KILLED_MS * RG_NS_PER_MS, &status);
    }
    ret_text[n] = '\0';
    return late ? RG_DOCTOR_LATE : whole && status == 0 ? (int) n : 0;
}

/* A child that waits with the pattern in its memory until it is killed. */
static pid_t fork_target(const volatile uint64_t *pattern)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (*pattern == PATTERN)
            pause();
        _exit(1);
    }
    return pid;
}

int rg_doctor_try_cma(void)
{
    static volatile uint64_t pattern;
    int status = 0;

    prctl(PR_SET_DUMPABLE, 1);
    pattern = PATTERN;
    pid_t target = fork_target(&pattern);
    if (target < 0)
        return errno;
    pid_t reader = fork();
    if (reader == 0) {
        uint64_t seen = 0;
        struct iovec to = { &seen, sizeof(seen) };
        struct iovec from = { (void *) (uintptr_t) &pattern, sizeof(pattern) };
        ssize_t n = process_vm_readv(target, &to, 1, &from, 1, 0);
        _exit(n < 0 ? errno : seen == PATTERN ? 0 : EIO);
    }
    while (reader > 0 && waitpid(reader, &status, 0) < 0 && errno == EINTR)
        ;
    kill(target, SIGKILL);
    while (waitpid(target, NULL, 0) < 0 && errno == EINTR)
        ;
    return reader < 0 ? EAGAIN : WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}
