/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: quit TIMES
 * Joins the job and shuts it down, from two threads at once, while others are in all kinds of
 * calls, TIMES times. Every thread learns that it is over from the call it is in or from its next
 * one, and its buffers are its own again then. Says "round R" each time. Three ranks or more.
 */
#include "help/wait.h"
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SMALL = 16, LARGE = 100000 };

struct part {
    const char *what;
    int (*call)(const char *name, float *data);
    bool alone; /* of names that no other rank has: it never ends well */
    pthread_t thread;
};

static int number, set;
static _Atomic int ninside;
static _Atomic int ntold;

static const int64_t small_shape[] = { SMALL }, large_shape[] = { LARGE };

/* At once: the next call has an error of its own. */
static void check_end(const char *name, int r)
{
    if (r != 0 && r != -ECANCELED && r != -ENOTCONN)
        fail("%s: %d (%s)", name, r, reigen_last_error());
}

static int blocking_small(const char *name, float *data)
{
    return reigen_allreduce(name, data, data, REIGEN_FLOAT32, small_shape, 1, NULL);
}

static int blocking_large(const char *name, float *data)
{
    return reigen_allreduce(name, data, data, REIGEN_FLOAT32, large_shape, 1, NULL);
}

static int in_a_set(const char *name, float *data)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;

    if (number > 1)
        return blocking_small(name, data);
    options.process_set = set;
    return reigen_allreduce(name, data, data, REIGEN_FLOAT32, small_shape, 1, &options);
}

static int in_a_set_large(const char *name, float *data)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;

    if (number > 1)
        return blocking_large(name, data);
    options.process_set = set;
    return reigen_allreduce(name, data, data, REIGEN_FLOAT32, large_shape, 1, &options);
}

static int waited_for(const char *name, float *data)
{
    reigen_handle h;
    int r = reigen_allgather_async(name, data, REIGEN_FLOAT32, large_shape, 1, NULL, &h);
    const void *result;
    size_t nbytes;
    int64_t shape[REIGEN_NDIM_MAX];
    int ndim;

    if (r < 0)
        return r;
    r = reigen_wait(h, -1);
    check_end(name, r);
    if (r == 0 && reigen_output(h, &result, &nbytes, shape, &ndim) == 0)
        memcpy(data, result, LARGE * sizeof(float));
    reigen_release(h);
    return r;
}

static int polled(const char *name, float *data)
{
    reigen_handle h;
    int r = reigen_broadcast_async(name, data, data, REIGEN_FLOAT32, small_shape, 1, NULL, &h);

    if (r < 0)
        return r;
    unit_until((r = reigen_poll(h)) != 0, "an operation that is polled");
    /* Whatever poll said: data is borrowed until a wait is over. */
    r = reigen_wait(h, -1);
    check_end(name, r);
    reigen_release(h);
    return r;
}

static void told(void *arg, reigen_handle handle, int status)
{
    (void) handle;
    (void) status;
    if (reigen_shutdown() != -EDEADLK)
        fail("a function of reigen_on_done may call shutdown");
    atomic_fetch_add(&ntold, 1);
    atomic_fetch_add((_Atomic int *) arg, 1);
}

/* Cancelled ones are told of too. */
static int told_of(const char *name, float *data)
{
    _Atomic int calls = 0;
    reigen_handle h;
    int r = reigen_allreduce_async(name, data, data, REIGEN_FLOAT32, large_shape, 1, NULL, &h);

    if (r < 0)
        return r;
    if (reigen_on_done(h, told, &calls) < 0)
        return reigen_wait(h, -1);
    unit_until(atomic_load(&calls), "the callback");
    r = reigen_wait(h, -1);
    check_end(name, r);
    reigen_release(h);
    return r;
}

/* The shutdown may come before any other is submitted. */
static void tell_first(void)
{
    float *data = allocate(LARGE * sizeof(*data));

    memset(data, 0, LARGE * sizeof(*data));
    expect(told_of("first", data), 0, "one that is told of");
    expect(atomic_load(&ntold), 1, "told of");
    free(data);
}

static int requested(const char *name, float *data)
{
    struct reigen_request *request = NULL;
    int r = reigen_request_create(REIGEN_ALLREDUCE, name, REIGEN_FLOAT32, small_shape, 1, NULL,
                                  &request);

    for (int i = 0; i < 50 && r == 0; i++)
        r = reigen_request_run(request, data, data, -1);
    reigen_request_free(request);
    return r;
}

static int requested_large(const char *name, float *data)
{
    struct reigen_request *request = NULL;
    int r = reigen_request_create(REIGEN_ALLREDUCE, name, REIGEN_FLOAT32, large_shape, 1, NULL,
                                  &request);

    if (r == 0)
        r = reigen_request_start(request, data, data);
    if (r == 0)
        while ((r = reigen_request_wait(request, 10)) == -EAGAIN)
            ;
    reigen_request_free(request);
    return r;
}

/* Rank 0 only: the others do not come. */
static int a_new_set(const char *name, float *data)
{
    int ranks[] = { 0, 2 }, id;

    if (number > 0)
        return waited_for(name, data);
    return reigen_process_set_add(ranks, 2, &id);
}

static int asks(const char *name, float *data)
{
    struct reigen_stats stats;
    char *text = NULL;
    int r = reigen_get_stats(&stats);

    (void) name;
    data[0] = (float) (reigen_rank() + reigen_size() + reigen_process_set_rank(0));
    if (r == 0)
        r = reigen_diagnose(0, &text);
    reigen_free(text);
    if (strlen(reigen_describe()) == 0)
        fail("nothing is described");
    return r;
}

static struct part parts[] = {
    { "small", blocking_small, true, 0 },     { "large", blocking_large, true, 0 },
    { "small", blocking_small, false, 0 },    { "large", blocking_large, false, 0 },
    { "set", in_a_set, true, 0 },             { "set large", in_a_set_large, true, 0 },
    { "wait", waited_for, true, 0 },          { "wait", waited_for, false, 0 },
    { "poll", polled, true, 0 },              { "poll", polled, false, 0 },
    { "told", told_of, true, 0 },             { "told", told_of, false, 0 },
    { "request", requested, true, 0 },        { "request", requested, false, 0 },
    { "request large", requested_large, true, 0 },
    { "new set", a_new_set, true, 0 },        { "asks", asks, false, 0 },
};

static void *run_part(void *arg)
{
    const struct part *part = arg;
    char name[64], own[8] = "";
    int r = 0;

    if (part->alone)
        snprintf(own, sizeof(own), ".%d", number);
    snprintf(name, sizeof(name), "%s%s", part->what, own);
    atomic_fetch_add(&ninside, 1);
    while (r == 0) {
        float *data = allocate(LARGE * sizeof(*data));

        memset(data, 0, LARGE * sizeof(*data));
        r = part->call(name, data);
        free(data);
    }
    check_end(name, r);
    return NULL;
}

static void *shut_down(void *arg)
{
    (void) arg;
    expect(reigen_shutdown(), 0, "shutdown");
    expect(reigen_is_initialized(), 0, "initialised after shutdown");
    return NULL;
}

int main(int argc, char **argv)
{
    long times = argument(argc, argv, 1, 1);

    for (long round = 0; round < times; round++) {
        int ranks[] = { 0, 1 };
        pthread_t other;

        begin();
        number = reigen_rank();
        expect(reigen_process_set_add(ranks, 2, &set), 0, "a process set");
        if (round == 0)
            tell_first();
        atomic_store(&ninside, 0);
        for (size_t i = 0; i < COUNT_OF(parts); i++)
            expect(pthread_create(&parts[i].thread, NULL, run_part, &parts[i]), 0, "a thread");
        unit_until(atomic_load(&ninside) >= (int) COUNT_OF(parts), "all threads");
        sleep_ms(number == round % reigen_size() ? 5 : 15); /* patient: one rank comes first */
        expect(pthread_create(&other, NULL, shut_down, NULL), 0, "a thread");
        shut_down(NULL);
        pthread_join(other, NULL);
        for (size_t i = 0; i < COUNT_OF(parts); i++)
            pthread_join(parts[i].thread, NULL);
        say("round %ld", round);
    }
    return 0;
}
