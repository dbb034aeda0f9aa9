/* SPDX-License-Identifier: Apache-2.0 */
/* The head cannot become another process once it has children: agents and ssh are its own. So it
 * is one from the beginning, and this one stays in front of the terminal. */
#include "cmd/run/detach.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/say.h"
#include "head/console/exit.h"

#define ID_MAX 128

static const int ending[] = { SIGINT, SIGTERM, SIGHUP };

/* A handler gets no argument of ours. */
static volatile sig_atomic_t head_pid, handed_on, hung_up;

/* The head ignores SIGHUP: it is not to be told that the terminal is gone. A closing terminal may
 * send it by two ways, its own and the shell's, but a second SIGTERM would mean to kill. */
static void hand_on(int signo)
{
    if (signo != SIGHUP || !hung_up)
        kill((pid_t) head_pid, signo == SIGHUP ? SIGTERM : signo);
    hung_up |= signo == SIGHUP;
    handed_on = 1;
}

static void block_signals(sigset_t *ret_before)
{
    sigset_t blocked;

    sigemptyset(&blocked);
    for (size_t i = 0; i < rg_array_len(ending); i++)
        sigaddset(&blocked, ending[i]);
    sigprocmask(SIG_BLOCK, &blocked, ret_before);
}

static void watch_signals(pid_t head)
{
    struct sigaction old, action = { .sa_handler = hand_on, .sa_flags = SA_RESTART };

    head_pid = head;
    for (size_t i = 0; i < rg_array_len(ending); i++) {
        if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(ending[i], &action, NULL);
    }
}

/* The job has started: what comes now is for this process alone. False: something came before, and
 * the job ends; what comes then is handed on as well. */
static bool let_go_of_signals(void)
{
    struct sigaction old;
    sigset_t before;

    block_signals(&before);
    for (size_t i = 0; i < rg_array_len(ending) && !handed_on; i++) {
        if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler == hand_on)
            signal(ending[i], SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return !handed_on;
}

/* What the caller has left open for us is a lock, or a pipe whose end somebody waits for. */
static int close_others(int pipe_fd)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd >= 0)
        dup2(null_fd, 0);
    if (pipe_fd != 3 && dup3(pipe_fd, 3, O_CLOEXEC) < 0)
        return pipe_fd;
    rg_fd_close_above(3);
    return 3;
}

static int run_head(struct rg_planned *take_planned, struct rg_head_as *as, int pipe_fd,
                    const sigset_t *before)
{
    setsid();
    signal(SIGHUP, SIG_IGN);
    pipe_fd = close_others(pipe_fd);
    sigprocmask(SIG_SETMASK, before, NULL);
    as->stdin_open = false;
    as->detach_fd = &pipe_fd;
    return rg_head_run(take_planned, as);
}

/* Up to the pipe's end: the job's id, or nothing. */
static void read_id(int fd, char id[ID_MAX])
{
    size_t used = 0;
    ssize_t n;

    while (used < ID_MAX - 1 && ((n = read(fd, id + used, ID_MAX - 1 - used)) > 0 ||
                                 (n < 0 && errno == EINTR)))
        used += n > 0 ? (size_t) n : 0;
    id[used] = '\0';
}

static int tell(const char *id, bool quiet)
{
    rg_autofree char *line = rg_strf("%s\n", id);

    if (!quiet)
        rg_say("job %s has started, and goes on without this terminal: reigen attach %s, "
               "reigen logs -f %s, reigen stop %s", id, id, id, id);
    return rg_print(line ? line : "");
}

static int wait_for(pid_t head)
{
    char how[64];
    int status = 0;

    while (waitpid(head, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        rg_say("--detach: the launcher was ended before all ranks had started: %s",
               rg_status_text(status, how, sizeof(how)));
    return rg_status_code(status);
}

/* It was told to end when this process did not know yet that all ranks had started. */
static int tell_ending(const char *id, pid_t head)
{
    int code = wait_for(head);

    rg_say("job %s had started, and was told to end; reigen logs %s shows how it did", id, id);
    return code;
}

int rg_detach_run(struct rg_planned *take_planned, struct rg_head_as *as)
{
    struct rg_error err = RG_ERROR_INIT;
    char id[ID_MAX];
    sigset_t before;
    int fds[2];
    int r = rg_pipe(fds);

    if (r < 0) {
        rg_error_set(&err, -r, "--detach: no pipe: %s", strerror(-r));
        return rg_fail(&err, as->command);
    }
    block_signals(&before);
    pid_t head = fork();
    if (head < 0) {
        rg_error_set(&err, errno, "--detach: no process for the launcher: %s", strerror(errno));
        return rg_fail(&err, as->command);
    }
    if (head == 0) {
        close(fds[0]);
        return run_head(take_planned, as, fds[1], &before);
    }
    close(fds[1]);
    watch_signals(head);
    sigprocmask(SIG_SETMASK, &before, NULL);
    read_id(fds[0], id);
    if (!*id)
        return wait_for(head);
    return let_go_of_signals() ? tell(id, take_planned->quiet) : tell_ending(id, head);
}
