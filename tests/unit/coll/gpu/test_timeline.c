/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline of tensors on a GPU, on the stand-ins: it shows when the device was at an operation,
 * not when the host handed it over, and the host waits for neither.
 */
#include "unit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "coll/gpu/spans.h"
#include "coll/gpu/tensor.h"

enum { SLEEP_MS = 250 };

static void sleep_long(void *arg)
{
    (void) arg;
    usleep(SLEEP_MS * 1000); /* patient: a span that is measured */
}

/* The number behind "key": of the last event that has this name; -1: there is none. */
static double number_of(const char *text, const char *name, const char *key)
{
    char what[64];
    const char *at = NULL;

    snprintf(what, sizeof(what), "{\"name\":\"%s\",", name);
    for (const char *p = text; (p = strstr(p, what)); p++)
        at = p;
    snprintf(what, sizeof(what), "\"%s\":", key);
    at = at ? strstr(at, what) : NULL;
    return at ? atof(at + strlen(what)) : -1;
}

static char *read_all(const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

    if (file)
        fclose(file);
    text[n] = '\0';
    return text;
}

/* The stream stands until the test lets it go on. */
static _Atomic bool may_go;

static void stand(void *arg)
{
    (void) arg;
    unit_until(atomic_load(&may_go), "the test");
}

/* The ranks' streams stand for a while before the operation can begin; where it goes through the
 * host, which waits for copies, they are asleep. */
static int timed(struct rank *rank)
{
    struct standin_stream *stream = device_open(rank->me);
    struct tensor t = tensor_make(stream, REIGEN_FLOAT32, 5000, rank->me);
    int64_t shape = 5000;
    int bad = check(reigen_init(NULL) == 0);
    bool staged = getenv("REIGEN_PLANES") != NULL;
    reigen_handle handle;
    char path[64];

    bad |= check(reigen_allreduce("x", t.at, t.at, REIGEN_FLOAT32, &shape, 1, NULL) == 0);
    cuStreamSynchronize(stream);
    snprintf(path, sizeof(path), "/tmp/reigen-gpu-%d.json", (int) getpid());
    bad |= check(rank->me || reigen_timeline_start(path, 0) == 0);
    bad |= check(standin_put(stream, staged ? sleep_long : stand, NULL) == 0);
    bad |= check(reigen_allreduce_async("x", t.at, t.at, REIGEN_FLOAT32, &shape, 1, NULL,
                                        &handle) == 0);
    bad |= check(reigen_wait(handle, -1) == 0); /* for ever, if it waited for the stream */
    if (!staged)
        sleep_long(NULL);
    atomic_store(&may_go, true);
    cuStreamSynchronize(stream);
    reigen_release(handle);
    if (rank->me == 0)
        unit_until(strstr(read_all(path), "GPU_ALLREDUCE"), "the span");
    if (rank->me == 0 && !bad) {
        const char *text = read_all(path);
        double began = number_of(text, "GPU_ALLREDUCE", "ts");

        bad |= check(number_of(text, "GPU_ALLREDUCE", "tid") == 1);
        bad |= check(strstr(text, "\"thread_name\"") != NULL);
        /* It begins when the stream goes on, long after all ranks had come. */
        bad |= check(staged || began > number_of(text, "ALLREDUCE", "ts") + SLEEP_MS * 500);
        bad |= check(number_of(text, "GPU_ALLREDUCE", "dur") >= 0);
    }
    bad |= check(rank->me || reigen_timeline_stop() == 0);
    unlink(path);
    tensor_drop(&t);
    reigen_shutdown();
    return bad;
}

static void the_device_is_in_the_timeline_by_its_own_clock(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), timed, NULL), 0);
    ranks_setenv("REIGEN_PLANES", "shm,tcp");
    assert_int_equal(ranks_run(2, ranks_port(), timed, NULL), 0);
    ranks_setenv("REIGEN_PLANES", NULL);
}

/* What is not over when the job ends is waited for by the planes, and is not lost. */
static int last(struct rank *rank)
{
    struct standin_stream *stream = device_open(0);
    struct tensor t = tensor_make(stream, REIGEN_FLOAT32, 50, rank->me);
    int64_t shape = 50;
    int bad = check(reigen_init(NULL) == 0);
    reigen_handle handle;
    char path[64];

    snprintf(path, sizeof(path), "/tmp/reigen-gpu-%d.json", (int) getpid());
    bad |= check(reigen_timeline_start(path, 0) == 0);
    bad |= check(standin_put(stream, sleep_long, NULL) == 0);
    bad |= check(reigen_allreduce_async("x", t.at, t.at, REIGEN_FLOAT32, &shape, 1, NULL,
                                        &handle) == 0);
    bad |= check(reigen_wait(handle, -1) == 0);
    reigen_release(handle);
    reigen_shutdown();
    bad |= check(strstr(read_all(path), "GPU_ALLREDUCE") != NULL);
    unlink(path);
    return bad;
}

static void what_ends_with_the_job_is_in_it_too(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(1, ranks_port(), last, NULL), 0);
}

/* ---- spans by themselves */

struct told {
    uint64_t begin_ns[3], end_ns[3];
    int n;
};

static void take(void *arg, void *about, uint64_t begin_ns, uint64_t end_ns)
{
    struct told *told = arg;
    int i = *(int *) about;

    told->begin_ns[i] = begin_ns;
    told->end_ns[i] = end_ns;
    told->n++;
}

static void *number(int n)
{
    int *about = malloc(sizeof(*about));

    *about = n;
    return about;
}

static int spans_of(struct rank *rank)
{
    struct standin_stream *stream = device_open(0);
    uint64_t before_ns = rg_now_ns();
    struct rg_gpu_spans *spans = NULL;
    struct told told = { .n = 0 };
    int alive = standin_alive(), bad = check(rg_gpu_spans_create(0, &spans) == 0);

    bad |= check(standin_put(stream, stand, NULL) == 0);
    for (int i = 0; i < 3 && !bad; i++) {
        bad |= check(rg_gpu_spans_begin(spans, stream, number(2)) == 0); /* and never ends */
        bad |= check(rg_gpu_spans_begin(spans, stream, number(i)) == 0);
        bad |= check(i == 1 || standin_put(stream, sleep_long, NULL) == 0);
        rg_gpu_spans_end(spans, stream);
        rg_gpu_spans_end(spans, stream);
    }
    rg_gpu_spans_look(spans, take, &told);
    bad |= check(told.n == 0 && rg_gpu_spans_wait(spans));
    atomic_store(&may_go, true);
    cuStreamSynchronize(stream);
    rg_gpu_spans_look(spans, take, &told);
    bad |= check(told.n == 3 && !rg_gpu_spans_wait(spans));
    for (int i = 0; i < 3 && !bad; i++) {
        bad |= check(told.begin_ns[i] >= before_ns && told.end_ns[i] <= rg_now_ns());
        bad |= check(told.end_ns[i] >= told.begin_ns[i]);
        bad |= check(i == 1 || told.end_ns[i] - told.begin_ns[i] > SLEEP_MS * 980000ull);
    }
    rg_gpu_spans_destroy(spans);
    return bad || check(unit_until(standin_alive() == alive, "the stand-in's stream to end"));
}

static void spans_tell_what_the_stream_did_and_leave_nothing(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(1, ranks_port(), spans_of, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_tell_what_the_stream_did_and_leave_nothing),
        cmocka_unit_test(the_device_is_in_the_timeline_by_its_own_clock),
        cmocka_unit_test(what_ends_with_the_job_is_in_it_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
