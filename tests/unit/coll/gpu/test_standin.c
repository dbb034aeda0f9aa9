/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in driver keeps the real one's rules: without them the tests on it prove nothing. */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "base/time.h"
#include "coll/gpu/device.h"
#include "coll/gpu/gpu.h"
#include "reigen/reigen.h"

enum { NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_READY = 600,
       ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719, CAPTURE_UNSUPPORTED = 900, OUT_OF_MEMORY = 2 };
enum { FORKS_S = 10 };

/* In a child, as a driver cannot be started anew: what fn returns, or 1000 + a signal. */
static int in_child(int (*fn)(void))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(fn());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int touch(void)
{
    device_open(0);
    *(volatile char *) device_alloc(100) = 1;
    return 0;
}

static void the_host_cannot_touch_device_memory(void **state)
{
    (void) state;
    /* A sanitizer ends the process itself. */
    assert_true(in_child(touch) != 0);
}

static int orders(void)
{
    struct standin_stream *a = device_open(0), *b;
    char *x = device_alloc(1000), seen[1000] = "", text[1000] = "first";
    void *event;
    int bad = cuStreamCreate(&b, 1) || cuEventCreate(&event, 2);

    for (int i = 0; i < 50 && !bad; i++) {
        snprintf(text, sizeof(text), "round %d", i);
        device_write(a, x, text, sizeof(text));
        bad |= cuEventRecord(event, a);
        bad |= cuStreamWaitEvent(b, event, 0);
        device_read(b, seen, x, sizeof(seen));
        bad |= cuStreamSynchronize(b) || cuEventQuery(event);
        bad |= strcmp(seen, text) != 0;
    }
    bad |= cuMemcpyAsync(x, text, 10, a) || cuStreamSynchronize(a);
    bad |= cuEventDestroy_v2(event) || cuStreamDestroy_v2(b);
    return bad != 0;
}

static void a_stream_that_waits_for_an_event_sees_what_was_before_it(void **state)
{
    (void) state;
    assert_int_equal(in_child(orders), 0);
}

static _Atomic bool may_go;

static void stand(void *arg)
{
    (void) arg;
    unit_until(atomic_load(&may_go), "the test");
}

/* The event is recorded once more, elsewhere, and that place is reached first. */
static int recorded_again(void)
{
    struct standin_stream *slow = device_open(0), *waits, *quick;
    void *event;
    int bad = cuStreamCreate(&waits, 1) || cuStreamCreate(&quick, 1) || cuEventCreate(&event, 2);

    bad |= standin_put(slow, stand, NULL) || cuEventRecord(event, slow);
    bad |= cuStreamWaitEvent(waits, event, 0) || cuEventRecord(event, quick);
    bad |= cuStreamSynchronize(quick) || cuEventQuery(event);
    usleep(50000); /* patient: time for what must not happen */
    bad |= cuStreamQuery(waits) != NOT_READY;
    atomic_store(&may_go, true);
    bad |= cuStreamSynchronize(slow) || cuStreamSynchronize(waits);
    return bad != 0;
}

static void a_stream_waits_for_where_the_event_was_recorded_then(void **state)
{
    (void) state;
    assert_int_equal(in_child(recorded_again), 0);
}

static int rules(void)
{
    struct standin_stream *stream = device_open(0);
    void *at = device_alloc(100), *context, *event, *none = NULL;
    int status, bad = 0;

    bad |= cuStreamDestroy_v2((struct standin_stream *) at) != INVALID_HANDLE;
    bad |= cuEventCreate(&event, 2) != 0 || cuEventDestroy_v2(event) != 0;
    bad |= cuEventRecord(event, stream) != INVALID_HANDLE;
    bad |= cuMemAlloc_v2(&none, (size_t) 1 << 40) != OUT_OF_MEMORY;
    bad |= cuStreamBeginCapture_v2(stream, 0) != 0;
    bad |= cuStreamIsCapturing(stream, &status) != 0 || status != 1;
    bad |= cuStreamSynchronize(stream) != CAPTURE_UNSUPPORTED;
    bad |= cuMemAlloc_v2(&none, 1) != CAPTURE_UNSUPPORTED;
    bad |= cuStreamEndCapture(stream, &none) != 0;
    bad |= standin_view((char *) at + 600, 1) != NULL;
    bad |= cuMemFree_v2(at) != 0 || standin_view(at, 1) != NULL;
    bad |= cuCtxGetCurrent(&context) != 0 || cuCtxSetCurrent(NULL) != 0;
    bad |= cuMemAlloc_v2(&none, 1) != INVALID_CONTEXT;
    bad |= cuCtxSetCurrent(context) != 0;
    bad |= cuMemcpyAsync(at, &bad, 4, stream) != 0;
    bad |= cuStreamSynchronize(stream) != ILLEGAL_ADDRESS; /* freed; and it stays so */
    bad |= cuMemAlloc_v2(&none, 1) != ILLEGAL_ADDRESS;
    return bad;
}

static void what_breaks_a_rule_is_refused(void **state)
{
    (void) state;
    assert_int_equal(in_child(rules), 0);
}

static int allocate(void)
{
    void *at;

    return cuMemAlloc_v2(&at, 1);
}

static int after_fork(void)
{
    device_open(0);
    return in_child(allocate) != NOT_INITIALIZED;
}

static void a_child_after_fork_has_no_driver(void **state)
{
    (void) state;
    assert_int_equal(in_child(after_fork), 0);
}

/* ---- coll/gpu on it */

/* -1: the host's memory; -2: the driver does not tell. */
static int device_of(const void *at)
{
    int device;

    return rg_gpu_find(at, &device, NULL) < 0 ? -2 : device;
}

static int marks(void)
{
    struct standin_stream *stream = device_open(1);
    struct rg_gpu_mark *mark = NULL, *again = NULL;
    struct rg_error err = RG_ERROR_INIT;
    char *x = device_alloc(4), text[4] = "abc", seen[4] = "", host[8];
    void *ours = NULL, *pinned = NULL, *made = NULL;
    int bad = rg_gpu_stream_create(1, &ours, &err), before = standin_alive();

    device_write(stream, x, text, 4);
    bad |= rg_gpu_mark(1, stream, &mark, &err) || rg_gpu_mark_await(mark, ours, &err);
    device_read(ours, seen, x, 4);
    bad |= rg_gpu_mark(1, ours, &again, &err);
    bad |= !unit_until(rg_gpu_mark_passed(again, &err) != 0, "the mark");
    bad |= strcmp(seen, "abc") != 0;
    rg_gpu_mark_unref(mark);
    bad |= device_of(x + 3) != 1 || device_of(host) != -1;
    bad |= cuMemHostAlloc(&pinned, 10, 0) || device_of(pinned) != -1;
    bad |= cuMemFreeHost(pinned);
    bad |= rg_gpu_alloc(1, ours, 100, &made, &err) || device_of(made) != 1;
    rg_gpu_free(1, ours, made);
    bad |= cuStreamSynchronize(ours) || device_of(made) != -1;
    bad |= rg_gpu_enter(9, &err) != -EINVAL || !strstr(err.text, "there is no GPU 9: this process");
    rg_gpu_mark_unref(again);
    return bad || standin_alive() != before + 2; /* two events, kept for the next marks */
}

static void marks_keep_streams_in_order(void **state)
{
    (void) state;
    assert_int_equal(in_child(marks), 0);
}

/* Of a device that is broken nobody knows what its addresses are: the host must not look there. */
static int broken(void)
{
    struct standin_stream *stream = device_open(0);
    void *at = device_alloc(100);
    struct rg_error err = RG_ERROR_INIT;
    int device = 7;

    standin_break(stream, LAUNCH_FAILED, "a fault that was asked for");
    return rg_gpu_find(at, &device, &err) != -EIO || !strstr(err.text, "does not tell where") ||
           !strstr(err.text, "CUDA_ERROR_LAUNCH_FAILED") || device != 7;
}

static void what_a_broken_device_has_is_not_taken_for_the_hosts(void **state)
{
    (void) state;
    assert_int_equal(in_child(broken), 0);
}

static _Atomic bool stop_marking;

static void *keep_marking(void *arg)
{
    struct rg_gpu_mark *mark;

    while (!atomic_load(&stop_marking))
        if (rg_gpu_mark(0, arg, &mark, NULL) == 0)
            rg_gpu_mark_unref(mark);
    return NULL;
}

/* A process that uses the GPU in another thread at the very moment of a fork: what the child drops
 * must not wait for a lock of that thread's. */
static int forks(void)
{
    struct standin_stream *stream = device_open(0);
    uint64_t until_ns = rg_now_ns() + FORKS_S * RG_NS_PER_S;
    struct rg_gpu_mark *mark = NULL;
    pthread_t threads[2];
    int status = 0, bad = rg_gpu_mark(0, stream, &mark, NULL);

    for (int i = 0; i < 2; i++)
        bad |= pthread_create(&threads[i], NULL, keep_marking, stream);
    /* A fork under ThreadSanitizer takes a second on a machine that is busy. */
    for (int i = 0; i < 300 && !bad && rg_now_ns() < until_ns; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            alarm(120);
            rg_gpu_mark_unref(mark);
            _exit(0);
        }
        bad |= pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
    }
    atomic_store(&stop_marking, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return bad;
}

static void a_child_does_not_wait_for_its_parents_threads(void **state)
{
    (void) state;
    assert_int_equal(in_child(forks), 0);
}

static int no_device(void)
{
    int r = reigen_use_device(0, NULL);

    return r != -ENODEV || !strstr(reigen_last_error(), "to this process; CUDA_VISIBLE_DEVICES=");
}

static int old_driver(void)
{
    int r = reigen_use_device(0, NULL);

    return r != -ENOTSUP ||
           !strstr(reigen_last_error(), "for CUDA 10.2; Reigen needs one for 11.0");
}

static void a_driver_that_is_of_no_use_says_why(void **state)
{
    (void) state;
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    assert_int_equal(in_child(no_device), 0);
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("STANDIN_CUDA_VERSION", "10020", 1);
    assert_int_equal(in_child(old_driver), 0);
    unsetenv("STANDIN_CUDA_VERSION");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_cannot_touch_device_memory),
        cmocka_unit_test(a_stream_that_waits_for_an_event_sees_what_was_before_it),
        cmocka_unit_test(a_stream_waits_for_where_the_event_was_recorded_then),
        cmocka_unit_test(what_breaks_a_rule_is_refused),
        cmocka_unit_test(a_child_after_fork_has_no_driver),
        cmocka_unit_test(marks_keep_streams_in_order),
        cmocka_unit_test(what_a_broken_device_has_is_not_taken_for_the_hosts),
        cmocka_unit_test(a_child_does_not_wait_for_its_parents_threads),
        cmocka_unit_test(a_driver_that_is_of_no_use_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
