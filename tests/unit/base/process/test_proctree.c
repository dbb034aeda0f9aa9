/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/process/proctree.h"
#include "base/process/spawn.h"
#include "base/time.h"
#include "unit.h"

static pid_t spawn_shell(const char *script, char *const *envp)
{
    char *argv[] = { (char *) "/bin/sh", (char *) "-c", (char *) script, NULL };
    struct rg_spawn spawn = { .argv = argv, .envp = envp, .fds = { -1, 1, 2 } };
    struct rg_error err = RG_ERROR_INIT;
    pid_t pid = 0;

    if (rg_spawn(&spawn, &pid, &err) < 0)
        fail_msg("%s", err.text);
    return pid;
}

static size_t count_descendants(void)
{
    rg_autofree struct rg_process *list = NULL;
    size_t count = 0;

    assert_int_equal(rg_proctree_descendants(getpid(), &list, &count), 0);
    assert_int_equal(list == NULL, count == 0);
    return count;
}

static size_t count_other_sessions(void)
{
    rg_autofree struct rg_process *list = NULL;
    size_t count = 0, others = 0;

    assert_int_equal(rg_proctree_descendants(getpid(), &list, &count), 0);
    for (size_t i = 0; i < count; i++)
        others += list[i].session != getsid(0);
    return others;
}

static bool descendants_become(size_t count)
{
    return unit_until(count_descendants() == count, "descendants");
}

static bool all_are_killed(void)
{
    rg_autofree struct rg_process *list = NULL;
    size_t count = 0;

    assert_int_equal(rg_proctree_descendants(getpid(), &list, &count), 0);
    for (size_t i = 0; i < count; i++)
        kill(list[i].pid, SIGKILL);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return !rg_process_has_children();
}

static void kill_all(void)
{
    assert_true(unit_until(all_are_killed(), "the end of all children"));
}

static void descendants_are_found_in_all_sessions(void **state)
{
    (void) state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    assert_false(rg_process_has_children());
    assert_int_equal(count_descendants(), 0);
    /* Itself, a child, one in a session of its own, and an orphan. */
    pid_t pid = spawn_shell("sleep 60 & setsid sleep 61 & (sleep 62 &) ; wait", NULL);
    assert_true(descendants_become(4));

    assert_true(unit_until(count_other_sessions() == 1, "setsid"));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_true(descendants_become(3)); /* all have come to us */
    kill_all();
    assert_int_equal(count_descendants(), 0);
}

static void zombie_is_no_descendant_but_a_child(void **state)
{
    (void) state;
    pid_t pid = spawn_shell("exit 0", NULL);
    siginfo_t info;
    waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT);
    assert_int_equal(count_descendants(), 0);
    assert_true(rg_process_has_children());
    waitpid(pid, NULL, 0);
    assert_false(rg_process_has_children());
}

static void environment_entry_is_found_only_whole(void **state)
{
    char *envp[] = { (char *) "PATH=/usr/bin:/bin", (char *) "JOB=j-12", NULL };

    (void) state;
    pid_t pid = spawn_shell("sleep 60; :", envp);
    /* rg_spawn returns while exec is under way, and /proc has no environment for a moment. */
    assert_true(unit_until(rg_process_has_env(pid, "JOB=j-12"), "the environment"));
    assert_false(rg_process_has_env(pid, "JOB=j-1"));
    assert_false(rg_process_has_env(pid, "OB=j-12"));
    assert_false(rg_process_has_env(pid, "JOB=j-123"));
    kill_all();
    assert_false(rg_process_has_env(pid, "JOB=j-12"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descendants_are_found_in_all_sessions),
        cmocka_unit_test(zombie_is_no_descendant_but_a_child),
        cmocka_unit_test(environment_entry_is_found_only_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
