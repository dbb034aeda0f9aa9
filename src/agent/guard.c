/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proctree.h"
#include "base/spawn.h"
#include "base/time.h"

#define SWEEP_MS 10
#define SWEEP_LIMIT_MS 3000

static pid_t guard_pid; /* in the agent: its guard; 0: none */

bool rg_guard_is_gone(void)
{
    return guard_pid && getppid() != guard_pid;
}

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
        if (sigwait(signals, &signo) == 0 && signo != SIGCHLD)
            kill(agent, signo);
    }
}

static _Noreturn void guard(pid_t agent, const sigset_t *signals)
{
    char how[64], line[128];
    /* Its ends of the link must not keep the link open. */
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd >= 0) {
        dup2(null_fd, 0);
        dup2(null_fd, 1);
    }
    int status = wait_for(agent, signals);
    end_leftovers();
    if (WIFSIGNALED(status)) {
        int n = snprintf(line, sizeof(line), "reigen-guard: its agent (process %d) ended: %s\n",
                         (int) agent, rg_status_text(status, how, sizeof(how)));
        if (write(2, line, (size_t) n) < 0)
            status = 1 << 8; /* nobody listens any more */
    }
    _exit(rg_status_code(status));
}

/* Who kills the guard's process group, as Slurm's proctrack/pgid does, then leaves one of us to
 * clear up: the agent, to which the guard's death is a request to stop. */
static void leave_group(pid_t parent)
{
    guard_pid = parent;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent)
        raise(SIGTERM);
}

int rg_guard_enter(void *boot_secret, unsigned long nbytes)
{
    sigset_t signals, before;
    pid_t parent = getpid();

    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return -errno;
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
        guard(agent, &signals);
    }
    int r = agent < 0 ? -errno : 0;
    if (agent == 0)
        leave_group(parent);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return r;
}
