/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody must outlive an agent that is killed, and clear up after it. */
#include "agent/start/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/process/proctree.h"
#include "base/process/spawn.h"
#include "base/time.h"

#define RELAY_MS 50
#define SWEEP_MS 2
#define SWEEP_LIMIT_MS 3000
#define REPORT_FD 3

/* Everything that is left is the agent's, and now ours. */
static void end_leftovers(void)
{
    uint64_t deadline_ns = rg_now_ns() + SWEEP_LIMIT_MS * RG_NS_PER_MS;

    while (rg_process_has_children() && rg_now_ns() < deadline_ns) {
        rg_autofree struct rg_process *list = NULL;
        size_t count = 0;
        if (rg_proctree_descendants(getpid(), &list, &count) < 0)
            return;
        for (size_t i = 0; i < count; i++)
            kill(list[i].pid, SIGKILL);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (count)
            rg_sleep_ms(SWEEP_MS);
    }
}

/* Wait for the agent's end, and hand signals on until then. Returns its status. */
static int wait_for(pid_t agent, const sigset_t *signals)
{
    int status, signo;

    for (;;) {
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == agent || (pid < 0 && errno == ECHILD))
            return pid == agent ? status : 0;
        if (pid > 0)
            continue;
        if (sigwait(signals, &signo) != 0 || signo == SIGCHLD)
            continue;
        /* One that the agent gets from the same sender must not merge with this one, as it would
         * not see who has sent it (ranks/once.h). */
        rg_sleep_ms(RELAY_MS);
        kill(agent, signo);
    }
}

/* Our ends of the link must not keep the link open, nor our ends of the user's pipes those. Returns
 * where to say how the agent ended. */
static int let_go(enum rg_guard how)
{
    int last = how == RG_GUARD_REPORT ? 2 : 1;

    if (how == RG_GUARD_REPORT) {
        dup3(0, REPORT_FD, O_CLOEXEC);
        rg_fd_close_above(REPORT_FD);
    }
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null_fd >= 0 && fd <= last; fd++)
        dup2(null_fd, fd);
    return how == RG_GUARD_REPORT ? REPORT_FD : 2;
}

/* The kernel shows the arguments as they lie there, one behind the other, each with its NUL. */
static void take_name(char **argv)
{
    const size_t n = sizeof(RG_GUARD_NAME);
    char *start = argv[0], *end = start;

    prctl(PR_SET_NAME, RG_GUARD_NAME, 0, 0, 0);
    for (; *argv && *argv == end; argv++)
        end += strlen(end) + 1;
    size_t room = (size_t) (end - start);

    if (room < n)
        return;
    memset(start, 0, room);
    memcpy(start, RG_GUARD_NAME, n);
}

static _Noreturn void guard(enum rg_guard how, char **argv, pid_t agent, const sigset_t *signals)
{
    char end[64], line[128];

    take_name(argv);
    signal(SIGPIPE, SIG_IGN);
    int fd = let_go(how);
    int status = wait_for(agent, signals);
    end_leftovers();
    if (WIFSIGNALED(status)) {
        int n = snprintf(line, sizeof(line), "reigen-guard: its agent (process %d) ended: %s\n",
                         (int) agent, rg_status_text(status, end, sizeof(end)));
        if (write(fd, line, (size_t) n) < 0)
            status = 1 << 8; /* nobody listens any more */
    }
    _exit(rg_status_code(status));
}

/* Who kills the guard's process group, as Slurm's proctrack/pgid does, then leaves one of us to
 * clear up: the agent, to which the guard's death is a request to stop. */
static void leave_group(pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent)
        raise(SIGTERM);
}

int rg_guard_enter(enum rg_guard how, char **argv, void *boot_secret, size_t nbytes,
                   pid_t *ret_guard)
{
    sigset_t signals, before;
    pid_t parent = getpid();

    /* An emulator of another processor may not know it. Then what the agent leaves goes to the next
     * subreaper, the launcher on its own computer, as without a guard. */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t agent = fork();
    if (agent > 0) {
        explicit_bzero(boot_secret, nbytes);
        guard(how, argv, agent, &signals);
    }
    int r = agent < 0 ? -errno : 0;
    if (agent == 0) {
        leave_group(parent);
        *ret_guard = parent;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return r;
}
