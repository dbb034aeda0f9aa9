/* SPDX-License-Identifier: Apache-2.0 */
/* A place is seen as taken by who descends from its holder, and by nobody else. */
#include "unit.h"

#include <sys/wait.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descendants_see_a_place_until_it_is_left),
        cmocka_unit_test(values_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
