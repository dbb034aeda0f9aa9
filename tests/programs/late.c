/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: late MILLISECONDS|stop|apart [idle|calling]|crossed|called FILE|polled FILE [RANK]
 * The last rank, or that one, comes to three allreduces late, by this time, or after it has stopped
 * itself and somebody has continued it; apart: after three allreduces the last one waits in an
 * allgather, while the others wait in a fourth, idle: beside threads that wait for a time and for
 * input, calling: beside one that has called an operation and does so; crossed: the ranks wait for
 * each other again and again, each time for some 1.5 s; called, polled: a function that is told of
 * an end, or a thread that polls by timed waits, waits for this file before the first rank calls
 * what the others wait for. Says "ready PID" before and "done" or "error NUMBER TEXT" afterwards.
 */
#include "program.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

static void reduce_all(const char *first, const char *second);

/* As the monitor of a progress bar does. */
static void *wait_now_and_then(void *calls)
{
    if (calls)
        reduce_all("before", NULL);
    for (;;)
        sleep_ms(300); /* patient: for ever */
    return NULL;
}

static void *read_for_ever(void *arg)
{
    int fds[2];
    char c;

    (void) arg;
    if (pipe(fds) < 0 || read(fds[0], &c, 1) < 1)
        fail("no pipe");
    return NULL;
}

static void start_beside(const char *kind)
{
    static pthread_t thread;
    bool calling = !strcmp(kind, "calling");

    if (calling || !strcmp(kind, "idle"))
        pthread_create(&thread, NULL, wait_now_and_then, calling ? &thread : NULL);
    if (calling)
        reduce_all("after", NULL);
    else if (!strcmp(kind, "idle"))
        pthread_create(&thread, NULL, read_for_ever, NULL);
}

/* Each waits for what the others never call; how that ends. */
static int apart(void)
{
    const int64_t shape[] = { 1 };
    float in = 1, out;
    reigen_handle handle;

    for (int i = 0; i < 3; i++)
        reduce_all("loss", NULL);
    if (reigen_rank() < reigen_size() - 1)
        return reigen_allreduce("loss", &in, &out, REIGEN_FLOAT32, NULL, 0, NULL);
    int r = reigen_allgather_async("acc", &in, REIGEN_FLOAT32, shape, 1, NULL, &handle);

    while (r == 0 && (r = reigen_wait(handle, 100)) == -EAGAIN)
        r = 0; /* in slices, as Python waits */
    return r;
}

static int reduce(const char *name, reigen_handle *handle)
{
    static float in = 1, out[8]; /* patient: several are in flight */
    static _Atomic unsigned n;

    return reigen_allreduce_async(name, &in, &out[n++ % 8], REIGEN_FLOAT32, NULL, 0, NULL,
                                  handle);
}

static void reduce_all(const char *first, const char *second)
{
    reigen_handle a, b;

    expect(reduce(first, &a), 0, first);
    expect(reigen_wait(a, -1), 0, first);
    if (second) {
        expect(reduce(second, &b), 0, second);
        expect(reigen_wait(b, -1), 0, second);
    }
}

/* Each waits for what the other one calls next; then it does. */
static void cross(int times)
{
    bool odd = reigen_rank() % 2;

    for (int i = 0; i < times; i++) {
        reigen_handle a, b;

        expect(reduce(odd ? "odd" : "even", &a), 0, "mine");
        reigen_wait(a, 1500); /* patient: it is at rest, but for less than the limit */
        expect(reduce(odd ? "even" : "odd", &b), 0, "theirs");
        expect(reigen_wait(a, -1), 0, "mine");
        expect(reigen_wait(b, -1), 0, "theirs");
    }
}

static const char *awaited;

static void told(void *arg, reigen_handle handle, int status)
{
    (void) handle;
    (void) status;
    while (access(awaited, F_OK) != 0)
        sleep_ms(20); /* patient: until there is the file */
    expect(reduce("saved", arg), 0, "saved");
}

/* It has called before, so that it may again. */
static void *poll_by_timed_waits(void *arg)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;

    (void) arg;
    reduce_all("before", NULL);
    pthread_mutex_lock(&lock);
    while (access(awaited, F_OK) != 0) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&never, &lock, &until);
    }
    pthread_mutex_unlock(&lock);
    reduce_all("saved", NULL);
    return NULL;
}

/* The first rank waits in "epoch", the others in "saved", which it calls when the file is there. */
static void save(bool polled)
{
    reigen_handle first, saved;
    pthread_t thread;

    if (reigen_rank() > 0) {
        if (!polled) {
            sleep_ms(1500); /* patient: the first rank is to wait by now, and to be told */
            reduce_all("first", NULL);
        } else {
            reduce_all("before", NULL);
        }
        reduce_all("saved", "epoch");
        return;
    }
    if (polled) {
        pthread_create(&thread, NULL, poll_by_timed_waits, NULL);
        reduce_all("epoch", NULL);
        pthread_join(thread, NULL);
        return;
    }
    expect(reduce("first", &first), 0, "first");
    expect(reigen_on_done(first, told, &saved), 0, "on_done");
    reduce_all("epoch", NULL);
    expect(reigen_wait(saved, -1), 0, "saved");
}

/* Healthy, although ranks wait for each other. */
static bool is_healthy_kind(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";

    awaited = argc > 2 ? argv[2] : "";
    if (!strcmp(kind, "crossed"))
        cross((int) argument(argc, argv, 2, 4));
    else if (!strcmp(kind, "called") || !strcmp(kind, "polled"))
        save(!strcmp(kind, "polled"));
    else
        return false;
    say("done");
    return true;
}

int main(int argc, char **argv)
{
    const char *names[] = { "grad.0", "grad.1", "grad.2" };
    float data[COUNT_OF(names)] = { 1, 1, 1 };
    reigen_handle handles[COUNT_OF(names)];

    begin();
    goes_on();
    say("ready %d", (int) getpid());
    if (is_healthy_kind(argc, argv)) {
        reigen_shutdown();
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "apart")) {
        int status;

        start_beside(argc > 2 ? argv[2] : "");
        status = apart();

        say("error %d %s", status, reigen_last_error());
        reigen_shutdown();
        return 5;
    }
    if (argc > 1 && reigen_rank() == argument(argc, argv, 2, reigen_size() - 1)) {
        if (!strcmp(argv[1], "stop"))
            raise(SIGSTOP);
        else
            sleep_ms((unsigned) argument(argc, argv, 1, 0)); /* patient: it is late */
    }
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(names) && r == 0; i++)
        r = reigen_allreduce_async(names[i], &data[i], &data[i], REIGEN_FLOAT32, NULL, 0, NULL,
                                   &handles[i]);
    for (size_t i = 0; i < COUNT_OF(names) && r == 0; i++)
        r = reigen_wait(handles[i], -1);
    if (r < 0) {
        say("error %d %s", r, reigen_last_error());
    } else {
        for (size_t i = 0; i < COUNT_OF(names); i++)
            if (data[i] != (float) reigen_size())
                fail("%s: %g", names[i], (double) data[i]);
        say("done");
    }
    reigen_shutdown();
    return 0;
}
