/* SPDX-License-Identifier: Apache-2.0 */
/* reigen_on_done: who asks is told once, whoever ends the operation and however. */
#include <pthread.h>
#include <stdatomic.h>

#include "coll/api/api_check.h"

enum { CHAINS = 24, LINKS = 12, BIG = 200000 };

/* What a callback has seen. */
struct seen {
    _Atomic int calls;
    int status;
    reigen_handle handle;
};

static void see(void *arg, reigen_handle handle, int status)
{
    struct seen *seen = arg;

    seen->status = status;
    seen->handle = handle;
    atomic_fetch_add(&seen->calls, 1);
}

static bool called(struct seen *seen)
{
    return unit_until(atomic_load(&seen->calls), "the callback") && atomic_load(&seen->calls) == 1;
}

/* The last to come submits late, so that the others have asked before. */
static void come_last(const struct rank *rank)
{
    if (rank->me == rank->n - 1)
        rg_sleep_ms(50); /* patient: it may come earlier than the others, too */
}

static int nobody_waits(struct rank *rank)
{
    static const int64_t counts[] = { 1, 0, BIG };
    float *x = buffer(BIG), *y = buffer(BIG);

    check(reigen_init(NULL) == 0);
    for (size_t i = 0; i < rg_array_len(counts); i++) {
        struct seen seen = { 0 }, again = { 0 };
        reigen_handle h;

        x[0] = (float) rank->me + 1;
        come_last(rank);
        check(reigen_allreduce_async("a", x, y, REIGEN_FLOAT32, &counts[i], 1, NULL, &h) == 0);
        check(reigen_on_done(h, see, &seen) == 0);
        check(called(&seen) && seen.status == 0 && seen.handle == h);
        check(counts[i] == 0 || y[0] == (float) (rank->n * (rank->n + 1) / 2));
        /* Done already: at once. */
        check(reigen_on_done(h, see, &again) == 0 && again.calls == 1 && again.status == 0);
        check(reigen_release(h) == 0);
        check(reigen_on_done(h, see, &again) == -EINVAL && again.calls == 1);
    }
    reigen_shutdown();
    free(x);
    free(y);
    return bad;
}

static void operations_that_nobody_waits_for_are_told_of(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), nobody_waits, NULL), 0);
}

static int results(struct rank *rank)
{
    struct seen seen[3] = { { 0 } }, error = { 0 };
    int64_t shape[] = { rank->me + 1, 2 }, other[] = { 3 + rank->me };
    const int64_t *const shapes[] = { shape, shape, shape };
    const char *const names[] = { "g0", "g1", "g2" };
    const int ndims[] = { 2, 2, 2 };
    int32_t x[16] = { 7, 8 };
    const void *const ins[] = { x, x, x };
    reigen_handle h[3], bad_handle;
    const void *data;
    size_t nbytes;
    int64_t found[REIGEN_NDIM_MAX];
    int ndim;

    check(reigen_init(NULL) == 0);
    come_last(rank);
    check(reigen_grouped_async(REIGEN_ALLGATHER, 3, names, ins, NULL, REIGEN_INT32, shapes, ndims,
                               NULL, h) == 0);
    for (int i = 0; i < 3; i++)
        check(reigen_on_done(h[i], see, &seen[i]) == 0);
    for (int i = 0; i < 3; i++) {
        check(called(&seen[i]) && seen[i].status == 0 && seen[i].handle == h[i]);
        check(reigen_output(h[i], &data, &nbytes, found, &ndim) == 0);
        check(found[0] == rank->n * (rank->n + 1) / 2);
        reigen_release(h[i]);
    }
    check(reigen_allreduce_async("m", x, x, REIGEN_INT32, other, 1, NULL, &bad_handle) == 0);
    check(reigen_on_done(bad_handle, see, &error) == 0);
    check(called(&error) && error.status == -EINVAL);
    check(strstr(reigen_handle_error(bad_handle), "Mismatched") != NULL);
    reigen_release(bad_handle);
    reigen_shutdown();
    return bad;
}

static void results_and_errors_are_there_when_it_is_told(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), results, NULL), 0);
}

/* A chain: each operation's end submits the next one. */
struct chain {
    int number, link;
    float *data;
    _Atomic int ended;
};

static void submit_link(struct chain *chain);

static void next_link(void *arg, reigen_handle handle, int status)
{
    struct chain *chain = arg;

    check(status == 0);
    reigen_release(handle);
    if (++chain->link < LINKS)
        submit_link(chain);
    else
        atomic_store(&chain->ended, 1);
}

static void submit_link(struct chain *chain)
{
    int64_t count = chain->number % 3 == 0 ? BIG / 8 : chain->number + 1;
    char name[32];
    reigen_handle h;

    snprintf(name, sizeof(name), "c%d", chain->number);
    check(reigen_allreduce_async(name, chain->data, chain->data, REIGEN_FLOAT32, &count, 1, NULL,
                                 &h) == 0);
    check(reigen_wait_us(h, 10) <= 0);
    check(reigen_on_done(h, next_link, chain) == 0);
}

static void *wait_in_vain(void *arg)
{
    static int32_t x;
    _Atomic int *stop = arg;
    int64_t one = 1;
    reigen_handle h;

    check(reigen_allreduce_async("never", &x, &x, REIGEN_INT32, &one, 1, NULL, &h) == 0);
    while (!atomic_load(stop))
        check(reigen_wait(h, 20) == -EAGAIN);
    return NULL;
}

static int chains(struct rank *rank)
{
    static struct chain chain[CHAINS];
    _Atomic int stop = 0;
    pthread_t thread;

    check(reigen_init(NULL) == 0);
    if (rank->me == 0)
        pthread_create(&thread, NULL, wait_in_vain, &stop);
    for (int i = 0; i < CHAINS; i++) {
        /* In another order on each rank. */
        struct chain *c = &chain[(i * 7 + rank->me * 5) % CHAINS];

        c->number = (int) (c - chain);
        c->data = buffer(BIG / 8);
        c->data[0] = 1;
        submit_link(c);
    }
    for (int i = 0; i < CHAINS; i++) {
        double sum = 1;

        check(unit_until(atomic_load(&chain[i].ended), "the end of a chain"));
        for (int k = 0; k < LINKS; k++)
            sum *= rank->n;
        check(chain[i].data[0] == (float) sum);
    }
    atomic_store(&stop, 1);
    if (rank->me == 0)
        pthread_join(thread, NULL);
    check(reigen_barrier() == 0);
    reigen_shutdown();
    return bad;
}

static void callbacks_may_submit_while_another_thread_waits(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), chains, NULL), 0);
}

static int cancelled(struct rank *rank)
{
    struct seen seen[2] = { { 0 } };
    int64_t counts[] = { 1, BIG };
    float *x = buffer(BIG);
    reigen_handle h;

    check(reigen_init(NULL) == 0);
    if (rank->me == 0) {
        for (int i = 0; i < 2; i++) {
            check(reigen_allreduce_async(i ? "b" : "a", x, x, REIGEN_FLOAT32, &counts[i], 1, NULL,
                                         &h) == 0);
            check(reigen_on_done(h, see, &seen[i]) == 0);
            check(reigen_wait_us(h, 100) == -EAGAIN && reigen_wait_us(h, 0) == -EAGAIN);
        }
        reigen_release(h);
    }
    check(reigen_barrier() == 0);
    if (rank->me != 0)
        rg_sleep_ms(20); /* patient: rank 0 most often leaves first */
    reigen_shutdown();
    for (int i = 0; i < 2 && rank->me == 0; i++)
        check(atomic_load(&seen[i].calls) == 1 && seen[i].status == -ECANCELED);
    free(x);
    return bad;
}

static void shutdown_tells_of_what_it_cancels(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), cancelled, NULL), 0);
}

static int bereft(struct rank *rank)
{
    struct seen small = { 0 }, large = { 0 };
    int64_t one = 1, many = BIG;
    float *x = buffer(BIG);
    reigen_handle h;

    check(reigen_init(NULL) == 0);
    if (rank->me == rank->n - 1) {
        reigen_barrier();
        _exit(0); /* without a word */
    }
    check(reigen_allreduce_async("a", x, x, REIGEN_FLOAT32, &one, 1, NULL, &h) == 0);
    check(reigen_on_done(h, see, &small) == 0);
    check(reigen_allreduce_async("b", x, x, REIGEN_FLOAT32, &many, 1, NULL, &h) == 0);
    check(reigen_on_done(h, see, &large) == 0);
    reigen_barrier();
    check(called(&small) && small.status == -ECONNRESET);
    check(called(&large) && large.status == -ECONNRESET);
    reigen_shutdown();
    free(x);
    return bad;
}

static void a_death_is_told_of(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), bereft, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_that_nobody_waits_for_are_told_of),
        cmocka_unit_test(results_and_errors_are_there_when_it_is_told),
        cmocka_unit_test(callbacks_may_submit_while_another_thread_waits),
        cmocka_unit_test(shutdown_tells_of_what_it_cancels),
        cmocka_unit_test(a_death_is_told_of),
    };

    ranks_clearenv();
    return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
