/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "head/signals.h"
#include "unit.h"

/* What a process in the place of reigen is told to do: a letter for each, down a pipe. */
struct process {
    pid_t pid;
    int fd;      /* the parent's end */
    bool evicts; /* the platform ends jobs by SIGTERM */
};

static int told_fd;
static bool evicts;

static void tell(char what)
{
    rg_write_all(told_fd, &what, 1);
}

static void forward(void *arg, int signo)
{
    (void) arg;
    tell(signo == SIGTERM ? 't' : signo == SIGUSR1 ? 'u' : '?');
}

static bool evict(void *arg)
{
    (void) arg;
    tell('e');
    return evicts;
}

static void kill_now(void *arg, int signo)
{
    (void) signo;
    tell('k');
    rg_loop_stop(arg);
}

static void nothing(void *arg)
{
    (void) arg;
}

/* The child: it ends when it is to kill, and does not outlive a test that has failed for long. */
static void run_child(bool in_shell)
{
    static const struct rg_signals_ops ops = { .forward = forward, .evict = evict,
                                               .kill = kill_now, .resize = nothing,
                                               .stopping = nothing, .resumed = nothing };
    static struct rg_signals signals;
    struct rg_loop *loop;

    alarm(unit_limit_s(30));
    if (rg_loop_create(&loop) < 0)
        _exit(1);
    rg_signals_start(&signals, loop, &ops, loop, in_shell);
    tell('r');
    rg_loop_run(loop);
    _exit(0);
}

static void start(struct process *process, bool in_shell)
{
    int fds[2];

    assert_int_equal(rg_pipe(fds), 0);
    evicts = process->evicts;
    told_fd = fds[1];
    process->fd = fds[0];
    process->pid = fork();
    assert_true(process->pid >= 0);
    if (process->pid == 0)
        run_child(in_shell);
    close(fds[1]);
}

/* Wait until it was told this, letter by letter. */
static void expect(struct process *process, const char *letters)
{
    for (; *letters; letters++) {
        char c = '-';
        ssize_t n = read(process->fd, &c, 1);
        assert_int_equal(n, 1);
        assert_int_equal(c, *letters);
    }
}

/* All that was sent has been handled. */
static void settle(struct process *process)
{
    kill(process->pid, SIGUSR1);
    expect(process, "u");
}

static void end(struct process *process)
{
    int status = -1;

    assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
    assert_int_equal(status, 0);
    close(process->fd);
}

/* Of a batch script's processes Slurm signals some or all, and the shell among them hands it on. */
static void the_platform_s_word_is_one_word_however_often_it_comes(void **state)
{
    struct process process = { .evicts = true };

    (void) state;
    start(&process, true);
    expect(&process, "r");
    kill(process.pid, SIGTERM);
    expect(&process, "et");
    settle(&process);
    kill(process.pid, SIGTERM);
    expect(&process, "e");
    settle(&process);
    kill(process.pid, SIGINT);
    expect(&process, "k");
    end(&process);
}

static void a_person_s_second_word_ends_all_at_once(void **state)
{
    struct process process = { .evicts = false };

    (void) state;
    start(&process, true);
    expect(&process, "r");
    kill(process.pid, SIGTERM);
    expect(&process, "et");
    kill(process.pid, SIGTERM);
    expect(&process, "ek");
    end(&process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_platform_s_word_is_one_word_however_often_it_comes),
        cmocka_unit_test(a_person_s_second_word_ends_all_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
