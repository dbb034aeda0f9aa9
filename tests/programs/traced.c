/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: traced MODE [PATH]
 * kinds    one timeline over operations of every kind, small and large, one by one and in groups
 * stream   allreduces, under HOROVOD_TIMELINE, until a line comes from standard input
 * toggle   timelines started and stopped from a thread of their own while operations run
 * refused  prints what starting a timeline at PATH gives
 * hang     rank 0 diagnoses while the last rank owes it an operation
 */
#include "program.h"

#include <poll.h>
#include <pthread.h>

#define LARGE 300000

static const char *const large_names[] = { "g0", "g1", "g2" };
static const char *const tiny_names[] = { "t0", "t1", "t2" };

static void allreduce(const char *name, int64_t count)
{
    float *data = allocate((size_t) count * sizeof(*data));

    for (int64_t i = 0; i < count; i++)
        data[i] = 1;
    expect(reigen_allreduce(name, data, data, REIGEN_FLOAT32, &count, 1, NULL), 0, name);
    if (data[count - 1] != (float) reigen_size())
        fail("%s: %g", name, (double) data[count - 1]);
    free(data);
}

static void group(const char *const *names, int64_t count)
{
    enum { N = 3 };
    static float data[N][10000];
    const void *ins[N] = { data[0], data[1], data[2] };
    void *outs[N] = { data[0], data[1], data[2] };
    int64_t shape[] = { count };
    const int64_t *shapes[N] = { shape, shape, shape };
    const int ndims[N] = { 1, 1, 1 };
    reigen_handle handles[N];

    expect(reigen_grouped_async(REIGEN_ALLREDUCE, N, names, ins, outs, REIGEN_FLOAT32, shapes,
                                ndims, NULL, handles), 0, "group");
    for (int i = 0; i < N; i++)
        finish(handles[i], 0, "group");
}

static void others(void)
{
    static float data[LARGE];
    int64_t shape[] = { 1200 }, large[] = { LARGE };
    reigen_handle handle;

    expect(reigen_broadcast("small", data, data, REIGEN_FLOAT32, shape, 1, NULL), 0, "broadcast");
    expect(reigen_broadcast("large", data, data, REIGEN_FLOAT32, large, 1, NULL), 0, "broadcast");
    expect(reigen_allgather_async("gathered", data, REIGEN_FLOAT32, shape, 1, NULL, &handle), 0,
           "allgather");
    finish(handle, 0, "allgather");
    expect(reigen_alltoall_async("exchanged", data, REIGEN_FLOAT32, shape, 1, NULL, 0, NULL,
                                 &handle), 0, "alltoall");
    finish(handle, 0, "alltoall");
    expect(reigen_reducescatter_async("scattered", data, REIGEN_FLOAT32, shape, 1, NULL, &handle),
           0, "reducescatter");
    finish(handle, 0, "reducescatter");
    expect(reigen_barrier(), 0, "barrier");
}

static void kinds(const char *path)
{
    expect(reigen_barrier(), 0, "barrier");
    expect(reigen_timeline_start(path, 1), 0, path);
    expect(reigen_barrier(), 0, "barrier");
    for (int i = 0; i < 3; i++) {
        allreduce("small \"quoted\" \xc3\xbc \xff", 3);
        allreduce("large", LARGE);
        group(large_names, 10000);
        group(tiny_names, 100);
        others();
    }
    expect(reigen_timeline_stop(), 0, "stop");
    expect(reigen_timeline_stop(), 0, "stop again");
    /* Of another rank rank 0 may hear before it has stopped. */
    expect(reigen_barrier(), 0, "barrier");
    allreduce("unseen", 3);
}

static void stream(void)
{
    struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
    int32_t go = 1;

    say("ready");
    while (go) {
        allreduce("streamed", 100);
        allreduce("large", LARGE);
        if (reigen_rank() == 0)
            go = poll(&in, 1, 0) == 0;
        expect(reigen_broadcast("go", &go, &go, REIGEN_INT32, NULL, 0, NULL), 0, "go");
    }
}

static _Atomic bool over;

static void *toggle(void *path)
{
    char paths[2][4096];
    int n = 0;

    snprintf(paths[0], sizeof(paths[0]), "%s.0.{rank}", (const char *) path);
    snprintf(paths[1], sizeof(paths[1]), "%s.1.%%r", (const char *) path);
    while (!over || n % 4 != 0) {
        expect(reigen_timeline_start(paths[n / 2 % 2], n % 3), 0, "start");
        if (n % 2)
            expect(reigen_timeline_stop(), 0, "stop");
        n++;
    }
    return NULL;
}

static void toggled(char *path)
{
    uint64_t deadline = now_ms() + 1500;
    pthread_t thread;
    int32_t go = 1;

    if (pthread_create(&thread, NULL, toggle, path) != 0)
        fail("no thread");
    while (go) {
        allreduce("small", 3);
        allreduce("large", LARGE);
        group(large_names, 10000);
        group(tiny_names, 100);
        go = now_ms() < deadline;
        expect(reigen_broadcast("go", &go, &go, REIGEN_INT32, NULL, 0, NULL), 0, "go");
    }
    over = true;
    pthread_join(thread, NULL);
}

static void refused(const char *path)
{
    int r = reigen_timeline_start(path, 0);

    say("%d %s", r, r < 0 ? reigen_last_error() : "");
    goes_on();
}

/* The last rank comes when a line on its standard input says so. */
static void hang(void)
{
    float one = 1;
    reigen_handle handle = 0;
    char line[8], *json = NULL;
    int last = reigen_size() - 1;

    allreduce("before", 3);
    if (reigen_rank() == last) {
        say("ready");
        if (!fgets(line, sizeof(line), stdin))
            fail("no line");
    }
    expect(reigen_allreduce_async("owed", &one, &one, REIGEN_FLOAT32, NULL, 0, NULL, &handle), 0,
           "owed");
    if (reigen_rank() == 0) {
        say("waiting");
        if (!fgets(line, sizeof(line), stdin))
            fail("no line");
        expect(reigen_diagnose(5000, &json), 0, "diagnose");
        say("%s", json);
        reigen_free(json);
    }
    finish(handle, 0, "owed");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    char *json;

    expect(reigen_timeline_start("x", 0), -ENOTCONN, "start before init");
    expect(reigen_timeline_stop(), -ENOTCONN, "stop before init");
    expect(reigen_diagnose(0, &json), -ENOTCONN, "diagnose before init");
    begin();
    if (strcmp(mode, "kinds") == 0)
        kinds(argv[2]);
    else if (strcmp(mode, "stream") == 0)
        stream();
    else if (strcmp(mode, "toggle") == 0)
        toggled(argv[2]);
    else if (strcmp(mode, "refused") == 0)
        refused(argv[2]);
    else
        hang();
    reigen_shutdown();
    say("done");
    return 0;
}
