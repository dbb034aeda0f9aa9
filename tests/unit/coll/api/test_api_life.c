/* SPDX-License-Identifier: Apache-2.0 */
/* Names, handles, requests, threads, join, and all ways in which a job can end, through the public
 * API. */
#include "coll/api/api_check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- names, handles, order */

static int names(struct rank *rank)
{
    float a = 1, b = 1;
    int64_t shape[] = { 1 };
    reigen_handle h = 0, i = 0;

    check(reigen_init(NULL) == 0);
    if (rank->me == 0) {
        check(reigen_allreduce_async("n", &a, &a, REIGEN_FLOAT32, shape, 1, NULL, &h) == 0);
        check(reigen_allreduce_async("n", &b, &b, REIGEN_FLOAT32, shape, 1, NULL, &i) == -EEXIST);
        check(strstr(reigen_last_error(), "same name") != NULL);
        check(reigen_poll(h) == 0);
        check(reigen_wait(h, 30) == -EAGAIN);
        check(reigen_broadcast_async("n", &b, &b, REIGEN_FLOAT32, shape, 1, NULL, &i) == 0);
        check(reigen_barrier() == 0);
        check(reigen_wait(h, -1) == 0 && a == (float) rank->n && reigen_poll(h) == 1);
        check(reigen_handle_error(h)[0] == '\0');
        check(reigen_wait(h, -1) == 0); /* as often as wanted */
        check(reigen_release(h) == 0);
        check(reigen_release(h) == -EINVAL && reigen_wait(h, 0) == -EINVAL);
    } else {
        check(reigen_barrier() == 0);
        check(reigen_allreduce("n", &a, &a, REIGEN_FLOAT32, shape, 1, NULL) == 0);
        check(reigen_broadcast_async("n", &b, &b, REIGEN_FLOAT32, shape, 1, NULL, &i) == 0);
    }
    check(wait_release(i) == 0);
    reigen_shutdown();
    return bad;
}

static void a_name_in_flight_is_refused_and_goes_on(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), names, NULL), 0);
}

/* All ranks are beyond the operation's end, which this one has not seen; and has not waited for
 * anything, after which it might use the name again. */
static void is_taken_until_seen(const char *name, float *a, int64_t count)
{
    struct reigen_options sum = REIGEN_OPTIONS_INIT;
    const void *ins[] = { a, a };
    void *outs[] = { a, a };
    int64_t shape[] = { count };
    const int64_t *shapes[] = { shape, shape };
    const char *names[] = { name, "other" };
    const int ndims[] = { 1, 1 };
    reigen_handle h = 0, i = 0, both[2];
    int r;

    sum.op = REIGEN_SUM;
    for (int turn = 0; turn < 3; turn++) {
        check(reigen_allreduce_async(name, a, a, REIGEN_FLOAT32, shape, 1, &sum, &h) == 0);
        pass_barrier();
        check(reigen_allreduce_async(name, a, a, REIGEN_FLOAT32, shape, 1, &sum, &i) == -EEXIST);
        check(reigen_allreduce(name, a, a, REIGEN_FLOAT32, shape, 1, &sum) == -EEXIST);
        check(reigen_grouped_async(REIGEN_ALLREDUCE, 2, names, ins, outs, REIGEN_FLOAT32, shapes,
                                   ndims, &sum, both) == -EEXIST);
        while (turn == 0 && reigen_poll(h) == 0)
            sched_yield();
        check(turn != 1 || reigen_wait(h, -1) == 0);
        check(turn != 2 || reigen_release(h) == 0);
        check(turn == 2 || reigen_allreduce(name, a, a, REIGEN_FLOAT32, shape, 1, &sum) == 0);
        check(turn == 2 || reigen_release(h) == 0);
    }
    /* It was released, perhaps before its end. */
    check(reigen_barrier() == 0);
    while ((r = reigen_allreduce(name, a, a, REIGEN_FLOAT32, shape, 1, &sum)) == -EEXIST)
        sched_yield();
    check(r == 0);
    check(reigen_grouped_async(REIGEN_ALLREDUCE, 2, names, ins, outs, REIGEN_FLOAT32, shapes,
                               ndims, &sum, both) == 0);
    pass_barrier();
    check(reigen_allreduce(name, a, a, REIGEN_FLOAT32, shape, 1, &sum) == -EEXIST);
    check(reigen_allreduce("other", a, a, REIGEN_FLOAT32, shape, 1, &sum) == -EEXIST);
    check(reigen_wait_all(2, both, -1) == 0 && reigen_release_all(2, both) == 0);
    check(reigen_allreduce("other", a, a, REIGEN_FLOAT32, shape, 1, &sum) == 0);
}

static void told(void *arg, reigen_handle handle, int status)
{
    atomic_store((_Atomic int *) arg, handle > 0 && status == 0 ? 1 : -1);
}

static int taken(struct rank *rank)
{
    static const size_t counts[] = { 1, 300, 100000 };

    (void) rank;
    check(reigen_init(NULL) == 0);
    for (size_t c = 0; c < rg_array_len(counts); c++) {
        int64_t shape[] = { (int64_t) counts[c] };
        float *a = buffer(counts[c]);
        struct reigen_request *q = NULL;
        _Atomic int ended = 0;
        reigen_handle h = 0;

        is_taken_until_seen("t", a, shape[0]);
        check(reigen_allreduce_async("t", a, a, REIGEN_FLOAT32, shape, 1, NULL, &h) == 0);
        check(reigen_on_done(h, told, (void *) &ended) == 0);
        check(reigen_barrier() == 0);
        check(unit_until(atomic_load(&ended), "the callback") && atomic_load(&ended) == 1);
        check(reigen_request_create(REIGEN_ALLREDUCE, "t", REIGEN_FLOAT32, shape, 1, NULL, &q) ==
              0);
        check(reigen_request_start(q, a, a) == 0);
        pass_barrier();
        check(reigen_request_start(q, a, a) == -EEXIST);
        check(reigen_allreduce("t", a, a, REIGEN_FLOAT32, shape, 1, NULL) == -EEXIST);
        while (reigen_request_test(q) == 0)
            sched_yield();
        check(reigen_release(h) == 0);
        check(reigen_request_run(q, a, a, -1) == 0);
        reigen_request_free(q);
        free(a);
    }
    reigen_shutdown();
    return bad;
}

static void a_name_is_taken_until_its_end_has_been_seen(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), taken, NULL), 0);
}

enum { SHUFFLED = 60 };

static int any_order(struct rank *rank)
{
    unsigned seed = (unsigned) rank->me + 1;
    reigen_handle h[SHUFFLED];
    float *data[SHUFFLED];
    int order[SHUFFLED];

    check(reigen_init(NULL) == 0);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < SHUFFLED; i++)
            order[i] = i;
        for (int i = SHUFFLED - 1; i > 0; i--) {
            int k = rand_r(&seed) % (i + 1), t = order[i];

            order[i] = order[k];
            order[k] = t;
        }
        for (int i = 0; i < SHUFFLED; i++) {
            int k = order[i];
            int64_t shape[] = { k % 3 ? k + 1 : 30000 + k };
            char name[32];

            snprintf(name, sizeof(name), "t%d", k);
            data[k] = buffer((size_t) shape[0]);
            for (int64_t e = 0; e < shape[0]; e++)
                data[k][e] = (float) k;
            check(reigen_allreduce_async(name, data[k], data[k], REIGEN_FLOAT32, shape, 1, NULL,
                                         &h[k]) == 0);
        }
        for (int i = 0; i < SHUFFLED; i++) {
            int k = order[(i * 7 + round) % SHUFFLED], last = k % 3 ? k : 29999 + k;

            check(wait_release(h[k]) == 0);
            check(data[k][0] == (float) (k * rank->n) && data[k][last] == (float) (k * rank->n));
            free(data[k]);
        }
    }
    reigen_shutdown();
    return bad;
}

static void ranks_may_submit_and_wait_in_any_order(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(4, ranks_port(), any_order, NULL), 0);
}

static int many_names(struct rank *rank)
{
    check(reigen_init(NULL) == 0);
    for (int i = 0; i < 40000; i++) {
        float x[3] = { 1, 2, (float) rank->me };
        int64_t shape[] = { 3 };

        if (reigen_allreduce(NULL, x, x, REIGEN_FLOAT32, shape, 1, NULL) != 0 ||
            x[1] != (float) (2 * rank->n)) {
            check(!"an unnamed allreduce");
            break;
        }
    }
    reigen_shutdown();
    return bad;
}

static void ever_new_names_do_not_fill_anything_up(void **state)
{
    (void) state;
    ranks_setenv("REIGEN_CACHE_CAPACITY", "100");
    assert_int_equal(ranks_run(2, ranks_port(), many_names, NULL), 0);
    ranks_setenv("REIGEN_CACHE_CAPACITY", NULL);
}

/* ---- requests, threads, dropped handles */

static int requests(struct rank *rank)
{
    static const size_t counts[] = { 1, 300, 16384, 100000 };

    check(reigen_init(NULL) == 0);
    for (size_t c = 0; c < rg_array_len(counts); c++) {
        int64_t shape[] = { (int64_t) counts[c] };
        float *x = buffer(counts[c]), *y = buffer(counts[c]);
        struct reigen_request *q = NULL, *b = NULL;
        reigen_handle h = 0;
        char name[16];

        snprintf(name, sizeof(name), "q%zu", c);
        check(reigen_request_create(REIGEN_ALLREDUCE, name, REIGEN_FLOAT32, shape, 1, NULL, &q) ==
              0);
        check(reigen_request_create(REIGEN_BROADCAST, name, REIGEN_FLOAT32, shape, 1, NULL, &b) ==
              0);
        for (int i = 0; i < 200; i++) {
            x[0] = x[counts[c] - 1] = (float) i;
            check(reigen_request_run(q, x, y, -1) == 0);
            check(y[0] == (float) (i * rank->n) && y[counts[c] - 1] == (float) (i * rank->n));
            x[0] = rank->me == 0 ? (float) i : -1;
            check(reigen_request_start(b, x, x) == 0);
            check(reigen_request_wait(b, -1) == 0 && x[0] == (float) i);
            if (bad)
                break;
        }
        check(reigen_barrier() == 0);
        if (rank->me == 0) { /* nobody else has started it yet */
            check(reigen_request_start(q, x, y) == 0);
            check(reigen_request_start(q, x, y) == -EEXIST);
            check(reigen_allreduce_async(name, x, y, REIGEN_FLOAT32, shape, 1, NULL, &h) ==
                  -EEXIST);
            check(reigen_request_test(q) == 0);
            check(reigen_request_wait(q, 20) == -EAGAIN);
            check(reigen_barrier() == 0);
            check(reigen_request_wait(q, -1) == 0);
        } else {
            check(reigen_barrier() == 0);
            check(reigen_request_run(q, x, y, -1) == 0);
        }
        reigen_request_free(q);
        reigen_request_free(b);
        free(x);
        free(y);
    }
    reigen_shutdown();
    return bad;
}

static void requests_can_be_started_again_and_again(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), requests, NULL), 0);
}

static void *thread_main(void *arg)
{
    int t = *(int *) arg;

    for (int i = 0; i < 200; i++) {
        size_t count = (i + t) % 3 ? 10 : 20000;
        int64_t shape[] = { (int64_t) count };
        float *x = buffer(count);
        char name[32];

        snprintf(name, sizeof(name), "thread%d", t);
        x[count - 1] = (float) i;
        if (reigen_allreduce(name, x, x, REIGEN_FLOAT32, shape, 1, NULL) != 0 ||
            x[count - 1] != (float) (i * reigen_size()))
            check(!"a thread's allreduce");
        free(x);
    }
    return NULL;
}

static int threads(struct rank *rank)
{
    pthread_t ids[4];
    int numbers[4];

    (void) rank;
    check(reigen_init(NULL) == 0);
    for (int t = 0; t < 4; t++) {
        numbers[t] = t;
        check(pthread_create(&ids[t], NULL, thread_main, &numbers[t]) == 0);
    }
    for (int t = 0; t < 4; t++)
        pthread_join(ids[t], NULL);
    reigen_shutdown();
    return bad;
}

static void several_threads_may_submit_and_wait(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), threads, NULL), 0);
}

static int dropped(struct rank *rank)
{
    static float small[4], large[50000];
    int64_t four[] = { 4 }, many[] = { 50000 };
    struct reigen_stats stats;
    uint64_t before;
    reigen_handle h = 0;

    check(reigen_init(NULL) == 0);
    for (int i = 0; i < 20; i++) {
        check(reigen_get_stats(&stats) == 0);
        before = stats.operations;
        small[0] = large[49999] = 1;
        if (rank->me == 0)
            usleep(2000); /* patient: rank 0 comes last */
        check(reigen_allreduce_async("small", small, small, REIGEN_FLOAT32, four, 1, NULL, &h) ==
              0);
        check(reigen_release(h) == 0);
        check(reigen_allreduce_async("large", large, large, REIGEN_FLOAT32, many, 1, NULL, &h) ==
              0);
        check(reigen_release(h) == 0);
        /* Nobody waits: the communication threads carry both out. */
        check(unit_until(reigen_get_stats(&stats) == 0 && stats.operations >= before + 2,
                         "both operations"));
        check(small[0] == (float) rank->n && large[49999] == (float) rank->n);
        check(reigen_barrier() == 0);
    }
    reigen_shutdown();
    return bad;
}

static void operations_without_a_handle_go_on(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), dropped, NULL), 0);
}

/* ---- join */

static int uneven(struct rank *rank)
{
    int64_t four[] = { 4 }, many[] = { 40000 };
    float small[4], *large = buffer(40000);
    reigen_handle h = 0;

    check(reigen_init(NULL) == 0);
    for (int round = 0; round < 5; round++) {
        int mine = (rank->me + round) % rank->n; /* batches of this rank: 0 .. n - 1 */

        for (int i = 0; i < mine; i++) {
            int left = 0;

            for (int r = 0; r < rank->n; r++)
                left += (r + round) % rank->n > i;
            small[3] = large[39999] = 1;
            check(reigen_allreduce("small", small, small, REIGEN_FLOAT32, four, 1, NULL) == 0);
            check(reigen_allreduce("large", large, large, REIGEN_FLOAT32, many, 1, NULL) == 0);
            check(small[3] == (float) left && large[39999] == (float) left);
        }
        check(reigen_join_async(&h) == 0);
        check(wait_release(h) >= 1);
    }
    reigen_shutdown();
    free(large);
    return bad;
}

static void joined_ranks_count_as_zeros_until_all_have_joined(void **state)
{
    (void) state;
    for (int n = 1; n <= 4; n++)
        assert_int_equal(ranks_run(n, ranks_port(), uneven, NULL), 0);
}

static int refused_while_joined(struct rank *rank)
{
    int64_t four[] = { 4 };
    float x[4] = { 0 };
    reigen_handle h = 0, j = 0;
    const int *refused = rank->arg;
    char byte = 0;

    check(reigen_init(NULL) == 0);
    if (rank->me == 0) {
        check(reigen_join_async(&j) == 0);
        check(reigen_allreduce("no", x, x, REIGEN_FLOAT32, four, 1, NULL) == -EINVAL);
        for (int i = 1; i < rank->n; i++)
            check(write(refused[1], &byte, 1) == 1);
        check(wait_release(j) == 1 + rank->n - 1 || rank->n > 2);
    } else {
        check(reigen_allgather_async("g", x, REIGEN_FLOAT32, four, 1, NULL, &h) == 0);
        expect_mismatch(0, &h, "Allgather is not supported with Join at this time.");
        check(reigen_broadcast_async("b", x, x, REIGEN_FLOAT32, four, 1, NULL, &h) == 0);
        expect_mismatch(0, &h, "Broadcast is not supported with Join at this time.");
        /* When all have joined, rank 0's allreduce would be one that the others may answer. */
        check(read(refused[0], &byte, 1) == 1);
        check(reigen_join_async(&j) == 0);
        check(wait_release(j) >= 1);
    }
    check(reigen_allreduce("yes", x, x, REIGEN_FLOAT32, four, 1, NULL) == 0);
    reigen_shutdown();
    return bad;
}

static void other_kinds_are_refused_while_a_rank_has_joined(void **state)
{
    int refused[2];

    (void) state;
    assert_int_equal(pipe(refused), 0);
    assert_int_equal(ranks_run(3, ranks_port(), refused_while_joined, refused), 0);
    close(refused[0]);
    close(refused[1]);
}

/* ---- the end */

static int life(struct rank *rank)
{
    check(reigen_rank() == -ENOTCONN && reigen_is_initialized() == 0);
    for (int i = 0; i < 6; i++) {
        float x = 1, y = 1;
        int64_t shape[] = { 1 };
        reigen_handle h = 0;

        check(reigen_init(NULL) == 0 && reigen_init(NULL) == 0);
        check(reigen_rank() == rank->me && reigen_size() == rank->n);
        if (rank->me == 0) /* never complete: cancelled */
            check(reigen_allreduce_async("y", &y, &y, REIGEN_FLOAT32, shape, 1, NULL, &h) == 0);
        check(reigen_allreduce("x", &x, &x, REIGEN_FLOAT32, shape, 1, NULL) == 0 &&
              x == (float) rank->n);
        if (bad)
            break;
        check(reigen_shutdown() == 0 && reigen_shutdown() == 0);
        check(reigen_is_initialized() == 0 && reigen_poll(h) == -ENOTCONN);
    }
    return bad;
}

static void shutdown_and_init_again_work_any_number_of_times(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), life, NULL), 0);
    assert_int_equal(ranks_run(1, ranks_port(), life, NULL), 0);
}

/* Who waits, by rank: of all ranks of a run. */
static pid_t *no_waiters(void)
{
    static pid_t *waiting;

    if (!waiting)
        waiting = ranks_shared(sizeof(pid_t) * RANKS_MAX);
    memset(waiting, 0, sizeof(pid_t) * RANKS_MAX);
    return waiting;
}

/* Rank 0 leaves when the others wait. */
static int cancelled(struct rank *rank)
{
    _Atomic pid_t *waiting = rank->arg; /* no_waiters() */
    float x[2] = { 1 }, *large = buffer(50000);
    int64_t shape[] = { 1 }, many[] = { 50000 };
    reigen_handle h = 0, l = 0;

    check(reigen_init(NULL) == 0);
    check(reigen_barrier() == 0);
    if (rank->me != 0) {
        check(reigen_allreduce_async("s", x, x, REIGEN_FLOAT32, shape, 1, NULL, &h) == 0);
        check(reigen_allreduce_async("l", large, large, REIGEN_FLOAT32, many, 1, NULL, &l) == 0);
        atomic_store(&waiting[rank->me], getpid());
        check(reigen_wait(h, 10000) == -ECANCELED);
        check(strstr(reigen_handle_error(h), "shut down") != NULL);
        check(reigen_wait(l, 10000) == -ECANCELED);
        check(reigen_allreduce("z", x, x, REIGEN_FLOAT32, shape, 1, NULL) == -ECANCELED);
    } else {
        for (int i = 1; i < rank->n; i++)
            check(unit_until(atomic_load(&waiting[i]) && unit_sleeps(waiting[i]), "a waiter"));
    }
    reigen_shutdown();
    free(large);
    return bad;
}

static void one_ranks_shutdown_cancels_what_others_wait_for(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), cancelled, no_waiters()), 0);
}

static int bereaved(struct rank *rank)
{
    float x[2] = { 1 }, *large = buffer(50000);
    int64_t shape[] = { 1 }, many[] = { 50000 };
    reigen_handle h = 0, l = 0;

    /* Silence ends nothing here: what the others hear of is the death. */
    setenv("REIGEN_SILENCE_SECONDS", "3600", 1);
    check(reigen_init(NULL) == 0);
    check(reigen_barrier() == 0);
    if (rank->me == 1)
        _exit(0); /* without a word */
    int r = reigen_allreduce_async("s", x, x, REIGEN_FLOAT32, shape, 1, NULL, &h);
    check(r == 0 || r == -ECONNRESET);
    if (r == 0)
        check(reigen_wait(h, 10000) == -ECONNRESET);
    r = reigen_allreduce_async("l", large, large, REIGEN_FLOAT32, many, 1, NULL, &l);
    check(r == -ECONNRESET || (r == 0 && reigen_wait(l, 10000) == -ECONNRESET));
    check(strstr(reigen_last_error(), "rank 1") != NULL);
    reigen_shutdown();
    free(large);
    return bad;
}

static void a_death_is_an_error_on_all_others_within_five_seconds(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), bereaved, NULL), 0);
}

/* Rank 1 stays in its shutdown, where it does nothing for the others, and ends there. */
struct stuck {
    _Atomic int threads, ready;
};

static void stay(void *arg, reigen_handle handle, int status)
{
    struct stuck *stuck = arg;

    (void) handle;
    (void) status;
    atomic_fetch_add(&stuck->threads, 1);
    for (;;)
        pause();
}

static void *stay_in_a_wait(void *arg)
{
    static float x;
    int64_t shape[] = { 1 };
    reigen_handle h = 0;

    check(reigen_allreduce_async("s2", &x, &x, REIGEN_FLOAT32, shape, 1, NULL, &h) == 0);
    check(reigen_on_done(h, stay, arg) == 0);
    reigen_wait(h, -1);
    return NULL;
}

static void *end_soon(void *arg)
{
    (void) arg;
    unit_until(!reigen_is_initialized(), "the shutdown");
    rg_sleep_ms(100); /* patient: nothing shows how far a shutdown is */
    _exit(0);
}

static void die_in_shutdown(struct stuck *stuck, float *large, const int64_t *many)
{
    float x = 1;
    int64_t shape[] = { 1 };
    reigen_handle h = 0;
    pthread_t thread;

    check(reigen_allreduce_async("l", large, large, REIGEN_FLOAT32, many, 1, NULL, &h) == 0);
    check(reigen_allreduce_async("s1", &x, &x, REIGEN_FLOAT32, shape, 1, NULL, &h) == 0);
    check(reigen_on_done(h, stay, stuck) == 0);
    check(unit_until(atomic_load(&stuck->threads) >= 1, "the communication thread"));
    check(pthread_create(&thread, NULL, stay_in_a_wait, stuck) == 0);
    check(unit_until(atomic_load(&stuck->threads) >= 2, "the thread that waits"));
    atomic_store(&stuck->ready, 1);
    check(unit_until(atomic_load(&stuck->ready) >= 2, "the other rank"));
    check(pthread_create(&thread, NULL, end_soon, NULL) == 0);
    reigen_shutdown();
}

static int dead_in_shutdown(struct rank *rank)
{
    struct stuck *stuck = rank->arg;
    float x = 1, *large = buffer(50000);
    int64_t shape[] = { 1 }, many[] = { 50000 };
    reigen_handle h = 0;

    check(reigen_init(NULL) == 0);
    if (rank->me == 1) {
        die_in_shutdown(stuck, large, many);
        return 1;
    }
    check(reigen_allreduce("s1", &x, &x, REIGEN_FLOAT32, shape, 1, NULL) == 0);
    check(reigen_allreduce("s2", &x, &x, REIGEN_FLOAT32, shape, 1, NULL) == 0);
    check(unit_until(atomic_load(&stuck->ready) >= 1, "rank 1"));
    /* All have submitted it, so it is to be carried out; and rank 1 never will. */
    check(reigen_allreduce_async("l", large, large, REIGEN_FLOAT32, many, 1, NULL, &h) == 0);
    atomic_store(&stuck->ready, 2);
    check(reigen_wait(h, 30000) == -ECONNRESET);
    check(strstr(reigen_handle_error(h), "rank 1") != NULL);
    reigen_shutdown();
    free(large);
    return bad;
}

static void a_death_in_shutdown_is_an_error_on_who_waits_for_that_rank(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), dead_in_shutdown,
                               ranks_shared(sizeof(struct stuck))), 0);
}

static int with_children(struct rank *rank)
{
    float x = 1;
    int64_t shape[] = { 1 };
    int status = -1;

    (void) rank;
    check(reigen_init(NULL) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(reigen_is_initialized() == 0 && reigen_rank() == -ENOTCONN &&
              reigen_shutdown() == 0 ? 0 : 1);
    check(waitpid(child, &status, 0) == child && status == 0);
    check(reigen_allreduce("x", &x, &x, REIGEN_FLOAT32, shape, 1, NULL) == 0);
    reigen_shutdown();
    return bad;
}

static void a_forked_child_counts_as_uninitialised(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), with_children, NULL), 0);
}

/* Without shared memory every rank is a node of its own. */
static void between_nodes_it_is_all_the_same(void **state)
{
    int (*const jobs[])(struct rank *) = { names, any_order, requests, threads,
                                           dropped, uneven, life, cancelled, bereaved };

    (void) state;
    ranks_setenv("REIGEN_PLANES", "tcp");
    for (size_t i = 0; i < rg_array_len(jobs); i++) {
        if (ranks_run(3, ranks_port(), jobs[i], no_waiters()) != 0)
            fail_msg("job %zu", i);
    }
    ranks_setenv("REIGEN_PLANES", NULL);
}

static int bad_arguments(struct rank *rank)
{
    struct reigen_options o = REIGEN_OPTIONS_INIT;
    float x[4] = { 0 };
    int64_t shape[] = { 4 }, negative[] = { -1 };
    int32_t splits[] = { 5 };
    reigen_handle h = 0;
    char name[600];

    (void) rank;
    check(reigen_allreduce("x", x, x, REIGEN_FLOAT32, shape, 1, NULL) == -ENOTCONN);
    check(reigen_init(NULL) == 0);
    check(reigen_allreduce("x", x, x, 99, shape, 1, NULL) == -EINVAL);
    check(reigen_allreduce("x", x, x, REIGEN_FLOAT32, shape, 17, NULL) == -EINVAL);
    check(reigen_allreduce("x", x, x, REIGEN_FLOAT32, negative, 1, NULL) == -EINVAL);
    check(reigen_allreduce("x", NULL, x, REIGEN_FLOAT32, shape, 1, NULL) == -EINVAL);
    memset(name, 'n', sizeof(name));
    name[599] = '\0';
    check(reigen_allreduce(name, x, x, REIGEN_FLOAT32, shape, 1, NULL) == -EINVAL);
    o.op = REIGEN_ADASUM;
    check(reigen_allreduce("x", x, x, REIGEN_INT32, shape, 1, &o) == -EINVAL);
    o = (struct reigen_options) REIGEN_OPTIONS_INIT;
    o.process_set = 1;
    check(reigen_allreduce("x", x, x, REIGEN_FLOAT32, shape, 1, &o) == -EINVAL);
    o = (struct reigen_options) REIGEN_OPTIONS_INIT;
    o.root = 1;
    check(reigen_broadcast("x", x, x, REIGEN_FLOAT32, shape, 1, &o) == -EINVAL);
    check(reigen_allgather_async("x", x, REIGEN_FLOAT32, shape, 0, NULL, &h) == -EINVAL);
    check(reigen_alltoall_async("x", x, REIGEN_FLOAT32, shape, 1, splits, 1, NULL, &h) == -EINVAL);
    check(strstr(reigen_last_error(), "Sum of splits entries is greater") != NULL);
    check(reigen_alltoall_async("x", x, REIGEN_FLOAT32, shape, 1, splits, 3, NULL, &h) == -EINVAL);
    o = (struct reigen_options) REIGEN_OPTIONS_INIT;
    o.op = REIGEN_MAX;
    check(reigen_reducescatter_async("x", x, REIGEN_FLOAT32, shape, 1, &o, &h) == -EINVAL);
    check(reigen_poll(12345) == -EINVAL && reigen_wait(0, 0) == -EINVAL);
    reigen_shutdown();
    return bad;
}

static void wrong_arguments_are_refused(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(1, ranks_port(), bad_arguments, NULL), 0);
}

#ifdef RG_UNOBSERVED
enum { OBSERVED = 0, ANSWER = -ENOTSUP };
#else
enum { OBSERVED = 1, ANSWER = 0 };
#endif

static int looked_on_at(struct rank *rank)
{
    const char *timeline = rank->arg;
    char *json = NULL;

    bad = 0;
    check(reigen_init(NULL) == 0);
    check(reigen_diagnose(0, &json) == ANSWER && (json != NULL) == OBSERVED);
    check(reigen_timeline_start(timeline, 0) == ANSWER);
    check(access(timeline, F_OK) == (OBSERVED ? 0 : -1));
    if (!OBSERVED)
        check(strstr(reigen_last_error(), "no timeline") != NULL);
    check(reigen_barrier() == 0);
    check(reigen_timeline_stop() == ANSWER);
    reigen_free(json);
    reigen_shutdown();
    setenv("HOROVOD_TIMELINE", timeline, 1);
    check(reigen_init(NULL) == ANSWER);
    if (!OBSERVED)
        check(strstr(reigen_last_error(), "HOROVOD_TIMELINE") != NULL);
    reigen_shutdown();
    return bad;
}

static void who_looks_on_can_be_left_out_of_a_build(void **state)
{
    char path[] = "/tmp/reigen-test-XXXXXX";
    int fd = mkstemp(path);

    (void) state;
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    assert_int_equal(ranks_run(1, ranks_port(), looked_on_at, path), 0);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_in_flight_is_refused_and_goes_on),
        cmocka_unit_test(a_name_is_taken_until_its_end_has_been_seen),
        cmocka_unit_test(ranks_may_submit_and_wait_in_any_order),
        cmocka_unit_test(ever_new_names_do_not_fill_anything_up),
        cmocka_unit_test(requests_can_be_started_again_and_again),
        cmocka_unit_test(several_threads_may_submit_and_wait),
        cmocka_unit_test(operations_without_a_handle_go_on),
        cmocka_unit_test(joined_ranks_count_as_zeros_until_all_have_joined),
        cmocka_unit_test(other_kinds_are_refused_while_a_rank_has_joined),
        cmocka_unit_test(shutdown_and_init_again_work_any_number_of_times),
        cmocka_unit_test(one_ranks_shutdown_cancels_what_others_wait_for),
        cmocka_unit_test(a_death_is_an_error_on_all_others_within_five_seconds),
        cmocka_unit_test(a_death_in_shutdown_is_an_error_on_who_waits_for_that_rank),
        cmocka_unit_test(a_forked_child_counts_as_uninitialised),
        cmocka_unit_test(between_nodes_it_is_all_the_same),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(who_looks_on_can_be_left_out_of_a_build),
    };

    ranks_clearenv();
    return cmocka_run_group_tests_name("api-life", tests, NULL, NULL);
}
