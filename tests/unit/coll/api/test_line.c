/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are used again while their last operation is in flight, or its end has not been seen:
 * refused before this rank's next wait, and in line after it. */
#include "coll/api/api.h"
#include "coll/api/api_check.h"
#include "coll/progress/life/submit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { DEEP = 5, BARRIERS = 200, STEPS = 60, THREADS = 4, MANY = 200 };

static const int64_t sizes[] = { 1, 300, 100000 };

static reigen_handle submit(const char *name, float *x, int64_t count)
{
    reigen_handle h = 0;

    check(reigen_allreduce_async(name, x, x, REIGEN_FLOAT32, &count, 1, NULL, &h) == 0);
    return h;
}

static int again(const char *name, float *x, int64_t count)
{
    reigen_handle h = 77;
    int r = reigen_allreduce_async(name, x, x, REIGEN_FLOAT32, &count, 1, NULL, &h);

    check(r != -EEXIST || h == 77);
    return r;
}

/* Of as many elements. */
static float *full(int64_t count, float value)
{
    float *x = buffer((size_t) count);

    for (int64_t i = 0; i < count; i++)
        x[i] = value;
    return x;
}

static int answer(const char *name, int64_t count, float value)
{
    float *x = full(count, value);
    int r = reigen_allreduce(name, x, x, REIGEN_FLOAT32, &count, 1, NULL);

    check(r < 0 || x[count - 1] == value * (float) reigen_size());
    free(x);
    return r;
}

/* ---- refused, or in line */

/* Rank 0 is ahead of the others for certain. */
static void go_ahead(int64_t count)
{
    float *x[DEEP];
    reigen_handle h[DEEP];

    for (int i = 0; i < DEEP; i++) {
        x[i] = full(count, (float) i);
        h[i] = submit("n", x[i], count);
        check(again("n", x[i], count) == -EEXIST);
        check(strstr(reigen_last_error(), "same name") != NULL);
        check(strstr(reigen_last_error(), "(allreduce.n)") != NULL);
        check(reigen_poll(h[i]) == 0 && reigen_wait(h[i], 1) == -EAGAIN);
        check(again("n", x[i], count) == -EEXIST);
        check(reigen_barrier() == 0);
    }
    check(reigen_barrier() == 0);
    for (int i = DEEP - 1; i >= 0; i--) { /* each has its own outcome, in whichever order */
        check(reigen_wait(h[i], -1) == 0 && x[i][count - 1] == (float) (i * reigen_size()));
        check(reigen_poll(h[i]) == 1 && reigen_release(h[i]) == 0);
        free(x[i]);
    }
}

static int ahead(struct rank *rank)
{
    check(reigen_init(NULL) == 0);
    for (size_t s = 0; s < rg_array_len(sizes); s++) {
        if (rank->me == 0) {
            go_ahead(sizes[s]);
            continue;
        }
        for (int i = 0; i <= DEEP; i++)
            check(reigen_barrier() == 0);
        for (int i = 0; i < DEEP; i++)
            check(answer("n", sizes[s], (float) i) == 0);
    }
    reigen_shutdown();
    return bad;
}

static void a_name_in_flight_is_queued_for_after_a_wait(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), ahead, NULL), 0);
    ranks_setenv("REIGEN_PLANES", "tcp"); /* each rank is a node of its own */
    assert_int_equal(ranks_run(3, ranks_port(), ahead, NULL), 0);
    ranks_setenv("REIGEN_PLANES", NULL);
}

/* It has ended, and nobody has seen it. */
static int unseen(struct rank *rank)
{
    reigen_handle h, i;

    (void) rank;
    check(reigen_init(NULL) == 0);
    for (size_t s = 0; s < rg_array_len(sizes); s++) {
        float *x = full(sizes[s], 1), *y = full(sizes[s], 2);

        h = submit("n", x, sizes[s]);
        pass_barrier();
        check(again("n", y, sizes[s]) == -EEXIST);
        check(reigen_wait_all(0, NULL, 0) == 0); /* it only looks */
        check(again("n", y, sizes[s]) == -EEXIST);
        check(reigen_wait_all(0, NULL, -1) == 0); /* a wait for nothing is one, too */
        i = submit("n", y, sizes[s]);
        check(again("n", y, sizes[s]) == -EEXIST);
        while (reigen_poll(h) == 0) /* the name is not its any more */
            sched_yield();
        pass_barrier();
        check(again("n", y, sizes[s]) == -EEXIST);
        check(reigen_wait(i, -1) == 0 && y[0] == (float) (2 * reigen_size()));
        check(x[0] == (float) reigen_size());
        check(answer("n", sizes[s], 3) == 0);
        reigen_release(h);
        reigen_release(i);
        free(x);
        free(y);
    }
    reigen_shutdown();
    return bad;
}

static void an_end_that_nobody_has_seen_keeps_the_name_until_a_wait(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), unseen, NULL), 0);
}

/* Who had the name before is asked for last, when the name itself is long forgotten. */
static int forgotten(struct rank *rank)
{
    float x = 1, y = 2;
    char other[32];
    reigen_handle h, i;

    (void) rank;
    check(reigen_init(NULL) == 0);
    h = submit("n", &x, 1);
    pass_barrier();
    check(reigen_wait_all(0, NULL, -1) == 0);
    i = submit("n", &y, 1);
    check(wait_release(i) == 0);
    for (int k = 0; k < MANY; k++) {
        snprintf(other, sizeof(other), "other%d", k);
        check(answer(other, 1, 1) == 0);
    }
    check(answer("n", 1, 3) == 0);
    check(wait_release(h) == 0 && x == (float) reigen_size());
    reigen_shutdown();
    return bad;
}

static void a_name_is_forgotten_after_all_that_had_it(void **state)
{
    (void) state;
    ranks_setenv("HOROVOD_CACHE_CAPACITY", "16");
    assert_int_equal(ranks_run(2, ranks_port(), forgotten, NULL), 0);
    ranks_setenv("HOROVOD_CACHE_CAPACITY", NULL);
}

static int blocking(struct rank *rank)
{
    float x = 1, y = 2;
    reigen_handle h;

    check(reigen_init(NULL) == 0);
    h = submit("n", &x, 1);
    if (rank->me == 0)
        check(reigen_allreduce("n", &y, &y, REIGEN_FLOAT32, &(int64_t){ 1 }, 1, NULL) == -EEXIST);
    check(reigen_barrier() == 0);
    check(answer("n", 1, 5) == 0); /* it holds no name, and takes that of the first */
    check(reigen_wait_all(0, NULL, -1) == 0);
    check(answer("n", 1, 6) == 0);
    check(wait_release(h) == 0 && x == (float) rank->n);
    reigen_shutdown();
    return bad;
}

static void a_blocking_call_stands_in_line_as_well(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), blocking, NULL), 0);
}

/* ---- who else has the name */

static int kinds(struct rank *rank)
{
    float x = 1, y = 2, z = (float) rank->me;
    int64_t one[] = { 1 };
    reigen_handle h = 0, i = 0, k = 0;

    check(reigen_init(NULL) == 0);
    if (rank->me == 0) {
        h = submit("n", &x, 1);
        check(reigen_barrier() == 0);
        i = submit("n", &y, 1);
        /* Names are each kind's own. */
        check(reigen_broadcast_async("n", &z, &z, REIGEN_FLOAT32, one, 1, NULL, &k) == 0);
        check(reigen_broadcast_async("n", &z, &z, REIGEN_FLOAT32, one, 1, NULL, &k) == -EEXIST);
        check(reigen_wait(k, -1) == 0); /* the others come to it at once */
        check(reigen_poll(h) == 0 && reigen_poll(i) == 0);
        check(reigen_barrier() == 0);
        check(wait_release(i) == 0 && wait_release(h) == 0 && reigen_release(k) == 0);
        check(x == (float) rank->n && y == (float) (2 * rank->n));
    } else {
        check(reigen_barrier() == 0);
        check(reigen_broadcast("n", &z, &z, REIGEN_FLOAT32, one, 1, NULL) == 0 && z == 0);
        check(reigen_barrier() == 0);
        check(answer("n", 1, 1) == 0 && answer("n", 1, 2) == 0);
    }
    reigen_shutdown();
    return bad;
}

static void another_kind_of_the_same_name_does_not_wait(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), kinds, NULL), 0);
}

static void group(const char *a, const char *b, float *x, reigen_handle h[2])
{
    const char *names[] = { a, b };
    const void *ins[] = { x, x + 1 };
    void *outs[] = { x, x + 1 };
    int64_t one[] = { 1 };
    const int64_t *shapes[] = { one, one };
    const int ndims[] = { 1, 1 };

    check(reigen_grouped_async(REIGEN_ALLREDUCE, 2, names, ins, outs, REIGEN_FLOAT32, shapes, ndims,
                               NULL, h) == 0);
}

/* a b, then b, then b c, then c: each waits for the one before. */
static int groups(struct rank *rank)
{
    float x[6] = { 1, 2, 3, 4, 5, 6 };
    reigen_handle h[6];

    check(reigen_init(NULL) == 0);
    for (int turn = 0; turn < 2; turn++) {
        if (rank->me != 0)
            check(reigen_barrier() == 0 && reigen_barrier() == 0);
        group("a", "b", x, h);
        check(again("b", x, 1) == -EEXIST);
        check(reigen_barrier() == 0);
        h[2] = submit("b", x + 2, 1);
        check(reigen_wait_all(0, NULL, -1) == 0);
        group("b", "c", x + 3, h + 3);
        check(again("c", x, 1) == -EEXIST);
        check(strstr(reigen_last_error(), "(allreduce.c)") != NULL);
        check(reigen_barrier() == 0);
        h[5] = submit("c", x + 5, 1);
        check(rank->me != 0 || (reigen_poll(h[5]) == 0 && reigen_poll(h[2]) == 0));
        if (rank->me == 0)
            check(reigen_barrier() == 0 && reigen_barrier() == 0);
        check(reigen_wait_all(6, h, -1) == 0 && reigen_release_all(6, h) == 0);
    }
    for (int i = 0; i < 6; i++)
        check(x[i] == (float) ((i + 1) * rank->n * rank->n));
    reigen_shutdown();
    return bad;
}

static void a_group_stands_in_line_for_all_its_names(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), groups, NULL), 0);
}

/* As the driver: nothing has changed since the last look at the line, and it is not to be looked at
 * again and again. */
static bool line_is_calm(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_progress *progress = rt->progress;
    bool moved, calm;

    atomic_fetch_add(&progress->wake.nwaiters, 1); /* the communication thread lets go */
    pthread_mutex_lock(&progress->drive);
    moved = rg_line_drive(progress);
    calm = !moved && !atomic_load(&progress->line.stirred);
    pthread_mutex_unlock(&progress->drive);
    atomic_fetch_sub(&progress->wake.nwaiters, 1);
    return calm;
}

/* Of a group that stands in line, one name is free and the other one is not. */
static int half(struct rank *rank)
{
    float x[3] = { 1, 2, 3 };
    reigen_handle h[3];

    check(reigen_init(NULL) == 0);
    if (rank->me != 0)
        check(reigen_barrier() == 0 && reigen_barrier() == 0);
    h[0] = submit("b", x, 1);
    check(rank->me != 0 || reigen_barrier() == 0);
    check(reigen_wait_all(0, NULL, -1) == 0);
    group("a", "b", x + 1, h + 1);
    check(rank->me != 0 || line_is_calm());
    check(rank->me != 0 || reigen_barrier() == 0);
    check(reigen_wait_all(3, h, -1) == 0 && reigen_release_all(3, h) == 0);
    check(x[0] == (float) rank->n && x[2] == (float) (3 * rank->n));
    reigen_shutdown();
    return bad;
}

static void who_stands_in_line_keeps_nobody_busy(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), half, NULL), 0);
}

static int requests(struct rank *rank)
{
    check(reigen_init(NULL) == 0);
    for (size_t s = 0; s < rg_array_len(sizes); s++) {
        int64_t count = sizes[s];
        float *x = full(count, 1), *y = full(count, 2);
        struct reigen_request *q = NULL;
        reigen_handle h;

        check(reigen_request_create(REIGEN_ALLREDUCE, "q", REIGEN_FLOAT32, &count, 1, NULL, &q) ==
              0);
        for (int turn = 0; turn < 3; turn++) {
            if (rank->me != 0)
                check(reigen_barrier() == 0);
            x[0] = 1;
            y[0] = 2;
            check(reigen_request_start(q, x, x) == 0);
            check(again("q", y, count) == -EEXIST);
            check(reigen_wait_all(0, NULL, -1) == 0);
            h = submit("q", y, count);
            check(reigen_request_start(q, x, x) == -EEXIST);
            if (rank->me == 0)
                check(reigen_barrier() == 0);
            while (turn == 0 && reigen_request_test(q) == 0)
                sched_yield();
            check(turn != 1 || reigen_request_wait(q, -1) == 0);
            check(reigen_wait(h, -1) == 0 && y[0] == (float) (2 * rank->n));
            check(reigen_request_wait(q, -1) == 0 && x[0] == (float) rank->n);
            check(reigen_release(h) == 0 && reigen_request_run(q, x, x, -1) == 0);
        }
        reigen_request_free(q);
        free(x);
        free(y);
    }
    reigen_shutdown();
    return bad;
}

static void a_request_is_followed_and_does_not_follow(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), requests, NULL), 0);
}

static int barriers(struct rank *rank)
{
    static reigen_handle h[BARRIERS];

    check(reigen_init(NULL) == 0);
    for (int i = 0; i < BARRIERS; i++)
        check(reigen_barrier_async(NULL, &h[i]) == 0);
    if (rank->me == 0)
        check(answer("n", 1, 1) == 0);
    check(reigen_wait_all(BARRIERS, h, -1) == 0 && reigen_release_all(BARRIERS, h) == 0);
    if (rank->me != 0)
        check(answer("n", 1, 1) == 0);
    reigen_shutdown();
    return bad;
}

static void any_number_of_barriers_is_in_flight(void **state)
{
    (void) state;
    /* Rank 0's are ahead. */
    assert_int_equal(ranks_run(1, ranks_port(), barriers, NULL), 0);
}

/* ---- how the one before ends */

static int mismatch(struct rank *rank)
{
    check(reigen_init(NULL) == 0);
    for (size_t s = 0; s < rg_array_len(sizes); s++) {
        int64_t count = sizes[s], other = count + rank->me;
        float *x = full(other, 1), *y = full(count, 2);
        reigen_handle h, i;

        if (rank->me != 0)
            check(reigen_barrier() == 0);
        h = submit("n", x, other);
        check(reigen_wait_all(0, NULL, -1) == 0);
        i = submit("n", y, count);
        if (rank->me == 0)
            check(reigen_barrier() == 0);
        check(reigen_wait(i, -1) == 0 && y[count - 1] == (float) (2 * rank->n));
        expect_mismatch(0, &h, "Mismatched ALLREDUCE tensor shapes");
        reigen_release(i);
        free(x);
        free(y);
    }
    reigen_shutdown();
    return bad;
}

static void one_that_fails_lets_the_next_one_go_on(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), mismatch, NULL), 0);
}

/* What the others have not submitted ends when one of them leaves. */
static int left(struct rank *rank)
{
    float x[3] = { 1, 1, 1 };
    reigen_handle h[3];

    check(reigen_init(NULL) == 0);
    if (rank->me == 0) {
        for (int i = 0; i < 3; i++) {
            h[i] = submit("n", &x[i], 1);
            check(reigen_barrier() == 0);
        }
        check(reigen_barrier() == 0);
        for (int i = 2; i >= 0; i--) {
            check(reigen_wait(h[i], 20000) == -ECANCELED);
            check(strstr(reigen_handle_error(h[i]), "shut down") != NULL);
            reigen_release(h[i]);
        }
        check(again("n", x, 1) == -ECANCELED);
    } else {
        for (int i = 0; i < 4; i++)
            check(reigen_barrier() == 0);
    }
    reigen_shutdown();
    return bad;
}

static void what_stands_in_line_is_cancelled_when_a_rank_leaves(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), left, NULL), 0);
    ranks_setenv("REIGEN_PLANES", "tcp");
    assert_int_equal(ranks_run(2, ranks_port(), left, NULL), 0);
    ranks_setenv("REIGEN_PLANES", NULL);
}

static int died(struct rank *rank)
{
    float x[2] = { 1, 1 };
    reigen_handle h, i;

    check(reigen_init(NULL) == 0);
    if (rank->me == 1) {
        check(reigen_barrier() == 0 && reigen_barrier() == 0);
        _exit(0);
    }
    h = submit("n", x, 1);
    check(reigen_barrier() == 0);
    i = submit("n", x + 1, 1);
    check(reigen_barrier() == 0);
    check(reigen_wait(i, 20000) == -ECONNRESET && reigen_wait(h, 20000) == -ECONNRESET);
    check(strstr(reigen_handle_error(i), "rank 1") != NULL);
    reigen_shutdown();
    return bad;
}

static void what_stands_in_line_ends_with_a_death(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), died, NULL), 0);
}

/* Its own shutdown, too: another thread waits for the last in line. */
static void *wait_for_it(void *arg)
{
    int r = reigen_wait(*(reigen_handle *) arg, -1);

    check(r == -ECANCELED || r == -ENOTCONN);
    return NULL;
}

static int leaving(struct rank *rank)
{
    float x[2] = { 1, 1 };
    pthread_t thread;
    reigen_handle h;

    for (int turn = 0; turn < 5; turn++) {
        check(reigen_init(NULL) == 0);
        if (rank->me == 0) {
            submit("n", x, 1);
            check(reigen_barrier() == 0);
            h = submit("n", x + 1, 1);
            check(pthread_create(&thread, NULL, wait_for_it, &h) == 0);
        } else {
            check(reigen_barrier() == 0);
        }
        check(reigen_barrier() == 0);
        reigen_shutdown();
        if (rank->me == 0)
            pthread_join(thread, NULL);
    }
    return bad;
}

static void a_rank_leaves_with_something_in_line(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), leaving, NULL), 0);
}

/* What a rank has submitted before it joins is its own, and no zeros. */
static int joins(struct rank *rank)
{
    const int *refused = rank->arg;
    char byte = 0;

    check(reigen_init(NULL) == 0);
    for (size_t s = 0; s < rg_array_len(sizes); s++) {
        int64_t count = sizes[s];
        float *x = full(count, 1), *y = full(count, 2);
        reigen_handle h = 0, i = 0, j = 0;

        if (rank->me == 0) {
            h = submit("n", x, count);
            check(reigen_barrier() == 0);
            i = submit("n", y, count);
            check(reigen_join_async(&j) == 0);
            check(again("n", x, count) == -EEXIST && again("m", x, count) == -EINVAL);
            check(reigen_wait_all(0, NULL, -1) == 0 && again("n", x, count) == -EINVAL);
            check(strstr(reigen_last_error(), "has joined") != NULL);
            for (int k = 1; k < rank->n; k++)
                check(write(refused[1], &byte, 1) == 1);
        } else {
            check(reigen_barrier() == 0);
            check(answer("n", count, 1) == 0 && answer("n", count, 2) == 0);
            check(read(refused[0], &byte, 1) == 1); /* the join may be over once this joins */
            check(reigen_join_async(&j) == 0);
        }
        check(wait_release(j) >= 1);
        check(rank->me != 0 || (wait_release(h) == 0 && wait_release(i) == 0));
        check(rank->me != 0 || y[count - 1] == (float) (2 * rank->n));
        check(answer("n", count, 7) == 0);
        free(x);
        free(y);
    }
    reigen_shutdown();
    return bad;
}

static void a_join_comes_after_what_stands_in_line(void **state)
{
    int refused[2];

    (void) state;
    assert_int_equal(pipe(refused), 0);
    assert_int_equal(ranks_run(3, ranks_port(), joins, refused), 0);
    close(refused[0]);
    close(refused[1]);
}

/* ---- process sets */

static int sets(struct rank *rank)
{
    struct reigen_options o = REIGEN_OPTIONS_INIT;
    const int two[] = { 0, 1 };
    int64_t one[] = { 1 };
    float x[4] = { 1, 2, 3, 4 };
    reigen_handle h[3] = { 0 };

    check(reigen_init(NULL) == 0);
    check(reigen_process_set_add(two, 2, &o.process_set) == 0);
    if (rank->me == 0) {
        h[0] = submit("n", x, 1);
        /* The set's names are its own, and the rank's waits are those of all its sets. */
        check(reigen_allreduce_async("n", x + 1, x + 1, REIGEN_FLOAT32, one, 1, &o, &h[1]) == 0);
        check(reigen_allreduce_async("n", x + 2, x + 2, REIGEN_FLOAT32, one, 1, &o, &h[2]) ==
              -EEXIST);
        check(reigen_barrier() == 0);
        check(reigen_allreduce_async("n", x + 2, x + 2, REIGEN_FLOAT32, one, 1, &o, &h[2]) == 0);
    } else {
        check(reigen_barrier() == 0);
    }
    /* Nobody else comes: both end with the set. */
    check(reigen_process_set_remove(o.process_set) == 0);
    if (rank->me == 0) {
        for (int i = 2; i > 0; i--) {
            check(reigen_wait(h[i], 20000) == -ECANCELED);
            reigen_release(h[i]);
        }
        check(wait_release(h[0]) == 0);
    } else {
        check(answer("n", 1, 1) == 0);
    }
    reigen_shutdown();
    return bad;
}

static void a_process_set_has_a_line_of_its_own(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), sets, NULL), 0);
}

/* ---- threads, and memory that goes with an operation's end */

static _Atomic int nended;

static void gone(void *arg, reigen_handle handle, int status)
{
    (void) status;
    reigen_release(handle);
    free(arg);
    atomic_fetch_add(&nended, 1);
}

/* A step submits under the name of the last, of which it knows nothing. */
static void *step_on(void *arg)
{
    int t = *(int *) arg;
    char name[2][32];

    snprintf(name[0], sizeof(name[0]), "dropped%d", t);
    snprintf(name[1], sizeof(name[1]), "waited%d", t);
    for (int i = 0; i < STEPS; i++) {
        int64_t count = sizes[(t + i) % 3];
        float *x = full(count, 1);
        reigen_handle h = 0;
        int r = reigen_allreduce_async(name[0], x, x, REIGEN_FLOAT32, &count, 1, NULL, &h);

        if (r < 0) {
            check(!"a step");
            free(x);
            return NULL;
        }
        check(reigen_on_done(h, gone, x) == 0);
        check(answer(name[1], 1 + i % 2 * 1000, 1) == 0);
    }
    return NULL;
}

static int threads(struct rank *rank)
{
    pthread_t ids[THREADS];
    int numbers[THREADS];

    (void) rank;
    check(reigen_init(NULL) == 0);
    for (int t = 0; t < THREADS; t++) {
        numbers[t] = t;
        check(pthread_create(&ids[t], NULL, step_on, &numbers[t]) == 0);
    }
    for (int t = 0; t < THREADS; t++)
        pthread_join(ids[t], NULL);
    reigen_shutdown();
    check(atomic_load(&nended) == THREADS * STEPS);
    return bad;
}

static void threads_use_their_names_again_and_again(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), threads, NULL), 0);
}

/* All under one name, in a rank alone, until the end. */
static void *submit_until_the_end(void *arg)
{
    _Atomic int *nsubmitted = arg;

    for (;;) {
        int64_t count = sizes[atomic_load(nsubmitted) % 2];
        float *x = full(count, 1);
        reigen_handle h = 0;
        int r = reigen_allreduce_async("shared", x, x, REIGEN_FLOAT32, &count, 1, NULL, &h);

        if (r == 0)
            r = reigen_on_done(h, gone, x);
        else
            free(x);
        if (r == 0)
            atomic_fetch_add(nsubmitted, 1);
        if (r != 0 && r != -EEXIST)
            return NULL; /* shut down; x went with the operation, or is lost with it */
        reigen_wait_all(0, NULL, -1);
    }
}

static int shutting(struct rank *rank)
{
    _Atomic int nsubmitted = 0;
    pthread_t ids[THREADS];

    (void) rank;
    check(reigen_init(NULL) == 0);
    atomic_store(&nended, 0);
    for (int t = 0; t < THREADS; t++)
        check(pthread_create(&ids[t], NULL, submit_until_the_end, &nsubmitted) == 0);
    while (atomic_load(&nsubmitted) < 500)
        sched_yield();
    reigen_shutdown();
    for (int t = 0; t < THREADS; t++)
        pthread_join(ids[t], NULL);
    check(atomic_load(&nended) == atomic_load(&nsubmitted));
    return bad;
}

static void a_shutdown_comes_while_threads_submit(void **state)
{
    (void) state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(ranks_run(1, ranks_port(), shutting, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_in_flight_is_queued_for_after_a_wait),
        cmocka_unit_test(an_end_that_nobody_has_seen_keeps_the_name_until_a_wait),
        cmocka_unit_test(a_name_is_forgotten_after_all_that_had_it),
        cmocka_unit_test(a_blocking_call_stands_in_line_as_well),
        cmocka_unit_test(another_kind_of_the_same_name_does_not_wait),
        cmocka_unit_test(a_group_stands_in_line_for_all_its_names),
        cmocka_unit_test(who_stands_in_line_keeps_nobody_busy),
        cmocka_unit_test(a_request_is_followed_and_does_not_follow),
        cmocka_unit_test(any_number_of_barriers_is_in_flight),
        cmocka_unit_test(one_that_fails_lets_the_next_one_go_on),
        cmocka_unit_test(what_stands_in_line_is_cancelled_when_a_rank_leaves),
        cmocka_unit_test(what_stands_in_line_ends_with_a_death),
        cmocka_unit_test(a_rank_leaves_with_something_in_line),
        cmocka_unit_test(a_join_comes_after_what_stands_in_line),
        cmocka_unit_test(a_process_set_has_a_line_of_its_own),
        cmocka_unit_test(threads_use_their_names_again_and_again),
        cmocka_unit_test(a_shutdown_comes_while_threads_submit),
    };

    ranks_clearenv();
    return cmocka_run_group_tests_name("line", tests, NULL, NULL);
}
