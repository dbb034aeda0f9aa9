/* SPDX-License-Identifier: Apache-2.0 */
/* A place is seen as taken by who descends from its holder, and by nobody else. */
#include "unit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "coll/boot/place.h"

static const char *const variables[] = { "TEST_PLACE_JOB", "TEST_PLACE_RANK", NULL };

static int held = -1;

/* What a child sees, with this rank in its environment: the holder's rank, or 255. */
static int seen_by_child(const char *way, const char *rank, bool grandchild, pid_t holder)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct rg_place place = { .rank = 255 };

        close(held); /* as the runtime does after a fork */
        setenv("TEST_PLACE_RANK", rank, 1);
        if (grandchild && fork() > 0) {
            wait(&status);
            _exit(WEXITSTATUS(status));
        }
        bool taken = rg_place_is_taken(way, variables, &place);

        _exit(taken && (place.pid != holder || place.size != 70000) ? 254 : place.rank);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void descendants_see_a_place_until_it_is_left(void **state)
{
    struct rg_place place;

    (void) state;
    setenv("TEST_PLACE_JOB", "a job, and \"more\"", 1);
    setenv("TEST_PLACE_RANK", "7", 1);
    assert_int_equal(seen_by_child("way", "7", false, getpid()), 255);
    held = rg_place_take("way", variables, 7, 70000);

    assert_true(held >= 0);
    assert_false(rg_place_is_taken("way", variables, &place)); /* the holder itself may come back */
    assert_int_equal(seen_by_child("way", "7", false, getpid()), 7);
    assert_int_equal(seen_by_child("way", "7", true, getpid()), 7);
    assert_int_equal(seen_by_child("way", "6", false, getpid()), 255);
    assert_int_equal(seen_by_child("way", "", false, getpid()), 255);
    assert_int_equal(seen_by_child("another", "7", false, getpid()), 255);
    close(held);
    assert_int_equal(seen_by_child("way", "7", false, getpid()), 255);
}

static void values_are_told_apart(void **state)
{
    static const char *const three[] = { "TEST_PLACE_JOB", "TEST_PLACE_RANK", "TEST_PLACE_MORE",
                                         NULL };

    (void) state;
    setenv("TEST_PLACE_JOB", "ab", 1);
    setenv("TEST_PLACE_RANK", "c", 1);
    held = rg_place_take("way", three, 1, 70000);

    assert_true(held >= 0);
    setenv("TEST_PLACE_JOB", "a", 1);
    assert_int_equal(seen_by_child("way", "bc", false, getpid()), 255);
    close(held);
}

/* A launcher with three descriptors for each of a thousand ranks is an ancestor of them all. */
static void only_some_numbers_are_looked_at(void **state)
{
    (void) state;
    setenv("TEST_PLACE_RANK", "7", 1);
    held = rg_place_take("way", variables, 7, 70000);

    assert_in_range(held, 48, 63);
    int elsewhere = fcntl(held, F_DUPFD_CLOEXEC, 100);

    assert_true(elsewhere >= 100);
    close(held);
    held = elsewhere;
    assert_int_equal(seen_by_child("way", "7", false, getpid()), 255);
    close(held);
}

static void limit_descriptors(rlim_t to)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = to;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void a_place_is_seen_where_numbers_are_in_use(void **state)
{
    static const int firsts[] = { 48, 240, 1008 };
    int used[16 * rg_array_len(firsts)], nused = 0;
    struct rlimit before;

    (void) state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit_descriptors(1024);
    for (size_t i = 0; i < rg_array_len(firsts); i++) {
        held = rg_place_take("way", variables, 7, 70000);

        assert_in_range(held, firsts[i], firsts[i] + 15);
        assert_int_equal(seen_by_child("way", "7", true, getpid()), 7);
        close(held);
        for (int n = 0; n < 16; n++)
            assert_true((used[nused++] = fcntl(0, F_DUPFD_CLOEXEC, firsts[i])) >= 0);
    }
    assert_int_equal(rg_place_take("way", variables, 7, 70000), -EMFILE);
    while (nused > 0)
        close(used[--nused]);
    limit_descriptors(before.rlim_cur);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descendants_see_a_place_until_it_is_left),
        cmocka_unit_test(values_are_told_apart),
        cmocka_unit_test(only_some_numbers_are_looked_at),
        cmocka_unit_test(a_place_is_seen_where_numbers_are_in_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
