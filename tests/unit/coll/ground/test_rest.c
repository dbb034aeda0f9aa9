/* SPDX-License-Identifier: Apache-2.0 */
/* The test's own thread stands for the one that waits in an operation. */
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/time.h"
#include "coll/ground/rest.h"
#include "unit.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static int pipe_fds[2];
static _Atomic bool over;
static _Atomic int shared_word;

static void *wait_for_lock(void *arg)
{
    (void) arg;
    pthread_mutex_lock(&lock);
    while (!atomic_load(&over))
        pthread_cond_wait(&news, &lock);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* How long each wait takes, in ms. */
static void *wait_for_time(void *arg)
{
    pthread_mutex_lock(&lock);
    while (!atomic_load(&over)) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += *(int *) arg / 1000;
        until.tv_nsec = (until.tv_nsec + *(int *) arg % 1000 * 1000000) % 1000000000;
        pthread_cond_timedwait(&news, &lock, &until);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *wait_for_input(void *arg)
{
    char c;

    (void) arg;
    (void) !read(pipe_fds[0], &c, 1);
    return NULL;
}

static void *wait_for_another_process(void *arg)
{
    (void) arg;
    while (!atomic_load(&over))
        syscall(SYS_futex, &shared_word, FUTEX_WAIT, 0, NULL, NULL, 0);
    return NULL;
}

static void *compute(void *arg)
{
    (void) arg;
    while (!atomic_load(&over))
        ;
    return NULL;
}

/* A thread that has called an operation, and then does this. */
struct caller {
    void *(*fn)(void *);
    void *arg;
};

static void *call_once(void *arg)
{
    const struct caller *caller = arg;

    rg_rest_submit();
    return caller->fn(caller->arg);
}

/* What there was to see at last. */
static struct rg_rest rest;

/* Since when the process is at rest, as seen often enough beside a thread that does this; 0: it is
 * not. */
static uint64_t rest_beside(void *(*fn)(void *), void *arg, bool waits)
{
    pthread_t thread;
    uint64_t now = RG_NS_PER_S, since = 0;

    rest = (struct rg_rest){ 0 };
    atomic_store(&over, false);
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(pthread_create(&thread, NULL, fn, arg), 0);
    assert_int_equal(rg_rest_look(&rest, now, waits, 0, true), 0); /* nothing to compare with */
    /* It comes to its wait, and wakes some times if it does so at all. */
    for (int i = 0; i < 200 && !since; i++) {
        rg_sleep_ms(2); /* patient: what is to be seen is that nothing happens */
        since = rg_rest_look(&rest, now += RG_NS_PER_S, waits, 0, true);
    }
    pthread_mutex_lock(&lock);
    atomic_store(&over, true);
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&lock);
    atomic_store(&shared_word, 1);
    syscall(SYS_futex, &shared_word, FUTEX_WAKE, 1, NULL, NULL, 0);
    close(pipe_fds[1]);
    pthread_join(thread, NULL);
    atomic_store(&shared_word, 0);
    close(pipe_fds[0]);
    return since;
}

static bool rests_beside_caller(void *(*fn)(void *), void *arg)
{
    struct caller caller = { fn, arg };

    return rest_beside(call_once, &caller, true) != 0;
}

static void threads_that_never_call_may_sleep_as_they_like(void **state)
{
    int often = 1, long_ms = 100000;

    (void) state;
    assert_int_not_equal(rest_beside(wait_for_lock, NULL, true), 0);
    assert_int_equal(rest_beside(wait_for_lock, NULL, false), 0);
    assert_int_equal(rest.why, RG_UNREST_NONE);
    assert_int_not_equal(rest_beside(wait_for_time, &often, true), 0);
    assert_int_not_equal(rest_beside(wait_for_time, &long_ms, true), 0);
    assert_int_not_equal(rest_beside(wait_for_input, NULL, true), 0);
    assert_int_not_equal(rest_beside(wait_for_another_process, NULL, true), 0);
    assert_int_equal(rest_beside(compute, NULL, true), 0);
    assert_int_equal(rest.why, RG_UNREST_THREAD);
    assert_int_not_equal(rest.thread, 0);
}

static void threads_that_call_are_unrest_in_what_may_end_by_itself(void **state)
{
    int often = 1, long_ms = 100000;

    (void) state;
    assert_true(rests_beside_caller(wait_for_lock, NULL));
    assert_false(rests_beside_caller(wait_for_time, &often));
    assert_int_equal(rest.why, RG_UNREST_CALLER);
    assert_false(rests_beside_caller(wait_for_time, &long_ms));
    assert_false(rests_beside_caller(wait_for_input, NULL));
    assert_false(rests_beside_caller(wait_for_another_process, NULL));
}

static void who_computes_or_was_stopped_begins_anew(void **state)
{
    const uint64_t s = RG_NS_PER_S;
    clock_t began;

    (void) state;
    rest = (struct rg_rest){ 0 };
    assert_int_equal(rg_rest_look(&rest, 1 * s, true, 0, true), 0);
    assert_int_equal(rg_rest_look(&rest, 2 * s, true, 0, true), 2 * s);
    assert_int_equal(rg_rest_look(&rest, 3 * s, true, 0, true), 2 * s);
    assert_int_equal(rg_rest_look(&rest, 9 * s, true, 0, true), 0);
    assert_int_equal(rg_rest_look(&rest, 10 * s, true, 0, true), 10 * s);
    for (began = clock(); clock() < began + CLOCKS_PER_SEC / 10;)
        ; /* it uses a tenth of the second that passes */
    assert_int_equal(rg_rest_look(&rest, 11 * s, true, 0, true), 0);
}

static void what_happens_begins_it_anew(void **state)
{
    const uint64_t s = RG_NS_PER_S;
    int place;

    (void) state;
    rest = (struct rg_rest){ 0 };
    assert_int_equal(rg_rest_look(&rest, 1 * s, true, 0, true), 0);
    assert_int_equal(rg_rest_look(&rest, 2 * s, true, 0, true), 2 * s);
    assert_int_equal(rg_rest_look(&rest, 3 * s, true, 1, true), 3 * s);
    assert_int_equal(rg_rest_look(&rest, 4 * s, true, 1, true), 3 * s);
    rg_rest_stir();
    assert_int_equal(rg_rest_look(&rest, 5 * s, true, 1, true), 5 * s);
    rg_rest_call();
    assert_int_equal(rg_rest_look(&rest, 6 * s, true, 1, true), 0);
    rg_rest_return();
    assert_int_equal(rg_rest_look(&rest, 7 * s, true, 1, true), 7 * s);
    place = rg_rest_enter(NULL);
    rg_rest_leave(place, NULL);
    assert_int_equal(rg_rest_look(&rest, 8 * s, true, 1, true), 8 * s);
}

static void slices_of_one_wait_are_one_rest(void **state)
{
    const uint64_t s = RG_NS_PER_S;
    static int one, other;
    int place = rg_rest_enter(&one);

    (void) state;
    rest = (struct rg_rest){ 0 };
    assert_int_equal(rg_rest_look(&rest, 1 * s, true, 0, true), 0);
    assert_int_equal(rg_rest_look(&rest, 2 * s, true, 0, true), 2 * s);
    assert_false(rg_rest_goes_on());
    rg_rest_leave(place, &one);
    assert_true(rg_rest_goes_on());
    assert_int_equal(rg_rest_look(&rest, 3 * s, true, 0, true), 2 * s);
    place = rg_rest_enter(&one);
    assert_false(rg_rest_goes_on());
    assert_int_equal(rg_rest_look(&rest, 4 * s, true, 0, true), 2 * s);
    rg_rest_leave(place, &one);
    place = rg_rest_enter(&other);
    assert_int_equal(rg_rest_look(&rest, 5 * s, true, 0, true), 5 * s);
    assert_int_equal(rest.why, RG_UNREST_CALLS);
    rg_rest_leave(place, NULL);
    assert_false(rg_rest_goes_on());
}

static int enter(void **state)
{
    static int place;

    place = rg_rest_enter(NULL);
    *state = &place;
    return place < 0;
}

static int leave(void **state)
{
    rg_rest_leave(*(int *) *state, NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_never_call_may_sleep_as_they_like),
        cmocka_unit_test(threads_that_call_are_unrest_in_what_may_end_by_itself),
        cmocka_unit_test(who_computes_or_was_stopped_begins_anew),
        cmocka_unit_test(what_happens_begins_it_anew),
        cmocka_unit_test(slices_of_one_wait_are_one_rest),
    };

    return cmocka_run_group_tests(tests, enter, leave);
}
