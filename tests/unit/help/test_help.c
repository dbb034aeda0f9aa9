/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/time.h"
#include "help/clock.h"
#include "help/hang.h"

static char said[16384];

/* What a child that runs fn writes to stderr is in `said`; its status as waitpid() gives it. */
static int listen_to(void (*fn)(void))
{
    int ends[2], status = -1;
    size_t n = 0;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();

    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        fn();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t r = 1; r > 0 && n < sizeof(said) - 1; n += r > 0 ? (size_t) r : 0)
        r = read(ends[0], said + n, sizeof(said) - 1 - n);
    said[n] = '\0';
    close(ends[0]);
    waitpid(pid, &status, 0);
    return status;
}

static __attribute__((noinline)) void stand_still(void)
{
    pause();
    _exit(0); /* nobody ends it but by force */
}

static void *stand_in_a_thread(void *arg)
{
    (void) arg;
    stand_still();
    return NULL;
}

/* A thread that no signal reaches, as the runtime's. */
static void begin_deaf_thread(void)
{
    pthread_t thread;
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_create(&thread, NULL, stand_in_a_thread, NULL);
    pthread_setname_np(thread, "a deaf thread");
    sigemptyset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
}

static void one_of_three_hangs(void)
{
    int status[3], ready[2];
    pid_t pids[3];
    siginfo_t info;

    hang_listen();
    if (pipe(ready) != 0)
        _exit(3);
    for (int i = 0; i < 3; i++) {
        pids[i] = fork();
        if (pids[i] == 0 && i == 1) {
            begin_deaf_thread();
            if (write(ready[1], "r", 1) == 1)
                stand_still(); /* a signal would end that */
        }
        if (pids[i] == 0)
            _exit(5 * i);
    }
    waitid(P_PID, (id_t) pids[0], &info, WEXITED | WNOWAIT);
    waitid(P_PID, (id_t) pids[2], &info, WEXITED | WNOWAIT);
    if (read(ready[0], status, 1) != 1)
        _exit(4);
    if (hang_wait(pids, 3, 1, "rank", status))
        _exit(1);
    _exit(status[0] == 0 && WIFSIGNALED(status[1]) && WTERMSIG(status[1]) == SIGKILL &&
                  WEXITSTATUS(status[2]) == 10 ? 0 : 2);
}

static void a_child_that_hangs_is_killed_and_said_where(void **state)
{
    (void) state;
    assert_int_equal(listen_to(one_of_three_hangs), 0);
    assert_contains(said, "rank 1 (pid ");
    assert_contains(said, "has not ended within 1 s");
    assert_contains(said, "stand_still (test_help.c:");
    assert_contains(said, " < main (test_help.c:");
    assert_contains(said, " a deaf thread, S (sleeping), in the kernel at ");
    assert_contains(said, "does not say in which functions");
    assert_null(strstr(said, "rank 0 "));
    assert_null(strstr(said, "rank 2 "));
}

static void children_end(void)
{
    int status[2];
    pid_t pids[2];

    hang_listen();
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0 && i == 1)
            raise(SIGKILL);
        if (pids[i] == 0)
            _exit(7);
    }
    if (!hang_wait(pids, 2, unit_limit_s(20), "rank", status) || WEXITSTATUS(status[0]) != 7 ||
        !WIFSIGNALED(status[1]))
        _exit(1);
}

static void children_that_end_are_only_waited_for(void **state)
{
    (void) state;
    assert_int_equal(listen_to(children_end), 0);
    assert_string_equal(said, "");
}

static void hang_in_a_thread(void)
{
    pthread_t thread;

    hang_begin(1, "the second round");
    pthread_create(&thread, NULL, stand_in_a_thread, NULL);
    stand_still();
}

static void end_in_time(void)
{
    for (int i = 0; i < 3; i++) {
        hang_begin(unit_limit_s(20), "a round");
        hang_end();
    }
}

static void a_program_that_hangs_says_where_its_threads_are(void **state)
{
    (void) state;
    assert_int_equal(WEXITSTATUS(listen_to(hang_in_a_thread)), HANG_STATUS);
    assert_contains(said, "the second round: not over within 1 s");
    assert_contains(said, "stand_in_a_thread (test_help.c:");
    assert_contains(said, "hang_in_a_thread (test_help.c:");
    assert_int_equal(listen_to(end_in_time), 0);
    assert_string_equal(said, "");
}

static int nlooks;

static void wait_for_nothing(void)
{
    setenv("REIGEN_TEST_PATIENCE", "0.05", 1);
    if (unit_until(nlooks++ > 1000000, "a million looks") || nlooks < 2)
        _exit(1);
}

static void a_wait_ends_with_what_came_or_says_what_did_not(void **state)
{
    (void) state;
    assert_true(unit_until(++nlooks == 3, "the third look"));
    assert_int_equal(nlooks, 3);
    assert_int_equal(listen_to(wait_for_nothing), 0);
    assert_contains(said, "test_help.c:");
    assert_contains(said, ": a million looks: not within 1.");
    assert_contains(said, " s: nlooks++ > 1000000\n");
}

static void limits_grow_with_the_patience_that_is_asked_for(void **state)
{
    (void) state;
    assert_in_range(unit_limit_s(20), 60, 20 * 20 * 3);
    setenv("REIGEN_TEST_PATIENCE", "7", 1);
    assert_int_equal(unit_limit_s(20), 140);
    unsetenv("REIGEN_TEST_PATIENCE");
}

static void a_test_can_let_time_pass(void **state)
{
    uint64_t before_ns = rg_now_ns(), wall_ns = rg_wall_ns();

    (void) state;
    unit_clock_pass(3600 * 1000);
    assert_true(rg_now_ns() >= before_ns + 3600 * RG_NS_PER_S);
    assert_true(rg_now_ns() < before_ns + 7000 * RG_NS_PER_S);
    assert_true(rg_wall_ns() < wall_ns + 3500 * RG_NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_that_hangs_is_killed_and_said_where),
        cmocka_unit_test(children_that_end_are_only_waited_for),
        cmocka_unit_test(a_program_that_hangs_says_where_its_threads_are),
        cmocka_unit_test(a_wait_ends_with_what_came_or_says_what_did_not),
        cmocka_unit_test(limits_grow_with_the_patience_that_is_asked_for),
        cmocka_unit_test(a_test_can_let_time_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
