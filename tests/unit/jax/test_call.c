/* SPDX-License-Identifier: Apache-2.0 */
/* The handler and the finisher of the JAX binding between a runtime and an XLA that are made up
 * here: the test says when an operation is done, and sees what happens to frames, futures and
 * handles. */
#include "unit.h"

#include <pthread.h>
#include <time.h>

#include "call.h"
#include "frame.h"

#define OPS_MAX 1024
#define LIMIT_MS 20000

/* ---- the runtime */

struct op {
    bool used, done;
    int status;
};

static struct {
    pthread_mutex_t lock;
    struct op ops[OPS_MAX]; /* handle h is ops[h - 1] */
    int count, released;
    int refuse_after; /* submissions */
    bool down;        /* being shut down: nobody may call */
    int trespasses;
} runtime = { .lock = PTHREAD_MUTEX_INITIALIZER };

static float output[ROWS] = { 1, 2, 3, 4 };

static void runtime_reset(void)
{
    pthread_mutex_lock(&runtime.lock);
    memset(runtime.ops, 0, sizeof(runtime.ops));
    runtime.count = runtime.released = 0;
    runtime.refuse_after = OPS_MAX;
    runtime.down = false;
    pthread_mutex_unlock(&runtime.lock);
}

static void finish(reigen_handle handle, int status)
{
    pthread_mutex_lock(&runtime.lock);
    runtime.ops[handle - 1].status = status;
    runtime.ops[handle - 1].done = true;
    pthread_mutex_unlock(&runtime.lock);
}

static int submit(reigen_handle *ret_handle)
{
    int rc = 0;

    pthread_mutex_lock(&runtime.lock);
    if (runtime.count >= runtime.refuse_after) {
        rc = -EEXIST;
    } else {
        runtime.ops[runtime.count].used = true;
        *ret_handle = ++runtime.count;
    }
    pthread_mutex_unlock(&runtime.lock);
    return rc;
}

static int status_of(reigen_handle handle)
{
    int status = -EINVAL;

    pthread_mutex_lock(&runtime.lock);
    runtime.trespasses += runtime.down;
    if (handle >= 1 && handle <= OPS_MAX && runtime.ops[handle - 1].used)
        status = runtime.ops[handle - 1].done ? runtime.ops[handle - 1].status : -EAGAIN;
    pthread_mutex_unlock(&runtime.lock);
    return status;
}

int reigen_poll(reigen_handle handle)
{
    return status_of(handle) != -EAGAIN;
}

int reigen_wait(reigen_handle handle, int timeout_ms)
{
    (void) timeout_ms;
    return status_of(handle);
}

static void pause_us(long us)
{
    struct timespec t = { 0, us * 1000 };

    nanosleep(&t, NULL); /* patient: operations take a while */
}

int reigen_wait_all(int n, const reigen_handle *handles, int timeout_ms)
{
    int failure = 0;

    for (int i = 0; i < n; i++) {
        int status;

        for (int ms = 0; (status = status_of(handles[i])) == -EAGAIN; ms++) {
            if (timeout_ms >= 0 && ms >= timeout_ms)
                return -EAGAIN;
            pause_us(1000);
        }
        if (status < 0 && failure == 0)
            failure = status;
    }
    return failure;
}

int reigen_release_all(int n, const reigen_handle *handles)
{
    pthread_mutex_lock(&runtime.lock);
    runtime.trespasses += runtime.down;
    for (int i = 0; i < n; i++) {
        runtime.released++;
        runtime.ops[handles[i] - 1].used = false;
    }
    pthread_mutex_unlock(&runtime.lock);
    return 0;
}

int reigen_output(reigen_handle handle, const void **ret_data, size_t *ret_nbytes,
                  int64_t *ret_shape, int *ret_ndim)
{
    (void) handle;
    *ret_data = output;
    *ret_nbytes = sizeof(output);
    ret_shape[0] = ROWS;
    *ret_ndim = 1;
    return 0;
}

int reigen_output_copy(reigen_handle handle, void *to, size_t nbytes)
{
    (void) handle;
    memcpy(to, output, nbytes);
    return 0;
}

const char *reigen_handle_error(reigen_handle handle)
{
    (void) handle;
    return "rank 1 died";
}

const char *reigen_last_error(void)
{
    return "the name is in use";
}

int reigen_type_add(const char *name, size_t nbytes, int parts, int *ret_dtype)
{
    (void) name, (void) nbytes, (void) parts;
    *ret_dtype = REIGEN_TYPE_ADDED;
    return 0;
}

int reigen_allreduce_async(const char *name, const void *in, void *out, int dtype,
                           const int64_t *shape, int ndim, const struct reigen_options *options,
                           reigen_handle *ret_handle)
{
    (void) name, (void) in, (void) out, (void) dtype, (void) shape, (void) ndim, (void) options;
    return submit(ret_handle);
}

int reigen_broadcast_async(const char *name, const void *in, void *out, int dtype,
                           const int64_t *shape, int ndim, const struct reigen_options *options,
                           reigen_handle *ret_handle)
{
    (void) name, (void) in, (void) out, (void) dtype, (void) shape, (void) ndim, (void) options;
    return submit(ret_handle);
}

int reigen_allgather_async(const char *name, const void *in, int dtype, const int64_t *shape,
                           int ndim, const struct reigen_options *options,
                           reigen_handle *ret_handle)
{
    (void) name, (void) in, (void) dtype, (void) shape, (void) ndim, (void) options;
    return submit(ret_handle);
}

int reigen_reducescatter_async(const char *name, const void *in, int dtype, const int64_t *shape,
                               int ndim, const struct reigen_options *options,
                               reigen_handle *ret_handle)
{
    (void) name, (void) in, (void) dtype, (void) shape, (void) ndim, (void) options;
    return submit(ret_handle);
}

int reigen_alltoall_async(const char *name, const void *in, int dtype, const int64_t *shape,
                          int ndim, const int32_t *splits, int nsplits,
                          const struct reigen_options *options, reigen_handle *ret_handle)
{
    (void) name, (void) in, (void) dtype, (void) shape, (void) ndim, (void) options;
    (void) splits, (void) nsplits;
    return submit(ret_handle);
}

int reigen_grouped_async(int kind, int n, const char *const *names, const void *const *ins,
                         void *const *outs, int dtype, const int64_t *const *shapes,
                         const int *ndims, const struct reigen_options *options,
                         reigen_handle *ret_handles)
{
    (void) kind, (void) names, (void) ins, (void) outs, (void) dtype, (void) shapes, (void) ndims;
    (void) options;
    for (int i = 0; i < n; i++) {
        if (submit(&ret_handles[i]) < 0)
            return -EEXIST;
    }
    return 0;
}

/* ---- XLA */

struct xla_future {
    pthread_mutex_t lock;
    int completed;
    struct xla_error *error;
};

static struct xla_error *future_create(struct xla_future_create_args *args)
{
    args->future = calloc(1, sizeof(*args->future));
    assert_non_null(args->future);
    pthread_mutex_init(&args->future->lock, NULL);
    return NULL;
}

static void complete(struct xla_future *future, struct xla_error *error)
{
    pthread_mutex_lock(&future->lock);
    future->completed++;
    future->error = error;
    pthread_mutex_unlock(&future->lock);
}

static struct xla_error *future_set_available(struct xla_future_done_args *args)
{
    complete(args->future, NULL);
    return NULL;
}

static struct xla_error *future_set_error(struct xla_future_error_args *args)
{
    complete(args->future, args->error);
    return NULL;
}

static const struct xla_api api = {
    .struct_size = sizeof(api),
    .version = { .major = XLA_FFI_MAJOR, .minor = 3 },
    .error_create = frame_error_create,
    .future_create = future_create,
    .future_set_available = future_set_available,
    .future_set_error = future_set_error,
};

static int completed(struct xla_future *future)
{
    int n;

    pthread_mutex_lock(&future->lock);
    n = future->completed;
    pthread_mutex_unlock(&future->lock);
    return n;
}

/* The error with which a future ends, or NULL. */
static struct xla_error *await(struct xla_future *future)
{
    struct xla_error *error;

    for (int ms = 0; !completed(future) && ms < LIMIT_MS; ms++)
        pause_us(1000);
    assert_int_equal(completed(future), 1);
    error = future->error;
    pthread_mutex_destroy(&future->lock);
    free(future);
    return error;
}

static int begin(void **state)
{
    (void) state;
    runtime_reset();
    runtime.trespasses = 0;
    return 0;
}

/* ---- tests */

static void test_an_operation_that_is_done_at_once_needs_no_future(void **state)
{
    struct place place;

    (void) state;
    place_init(&place, &api, REIGEN_ALLGATHER, 1);
    runtime.ops[0].done = true;
    assert_null(reigen_jax_collective(&place.frame));
    assert_null(place.frame.future);
    assert_memory_equal(place.out[0], output, sizeof(output));
    assert_int_equal(runtime.released, 1);
}

static void test_a_frame_may_be_lent_on_once_the_handler_has_returned(void **state)
{
    struct place place;
    float other[ROWS] = { 0 };

    (void) state;
    place_init(&place, &api, REIGEN_ALLGATHER, 1);
    assert_null(reigen_jax_collective(&place.frame));
    assert_non_null(place.frame.future);
    place.outs[0].data = other;
    place.dims[0] = 7;
    place.results[0] = NULL;
    finish(1, 0);
    assert_null(await(place.frame.future));
    assert_memory_equal(place.out[0], output, sizeof(output));
    assert_true(other[0] == 0);
}

static void test_a_failure_later_is_the_futures_error(void **state)
{
    struct place place;
    struct xla_error *error;

    (void) state;
    place_init(&place, &api, REIGEN_ALLREDUCE, 2);
    assert_null(reigen_jax_collective(&place.frame));
    finish(1, 0);
    finish(2, -ECONNRESET);
    error = await(place.frame.future);
    assert_non_null(error);
    assert_int_equal(error->code, XLA_UNAVAILABLE);
    assert_contains(error->text, "HorovodInternalError: rank 1 died");
    free(error);
    assert_int_equal(runtime.released, 2);
}

static void test_a_refusal_is_told_when_what_was_submitted_has_let_go_of_the_buffers(void **state)
{
    struct place place;
    struct xla_error *error;

    (void) state;
    runtime.refuse_after = 2;
    place_init(&place, &api, REIGEN_BROADCAST, TENSORS);
    assert_null(reigen_jax_collective(&place.frame));
    assert_non_null(place.frame.future);
    finish(2, 0);
    pause_us(50000);
    assert_int_equal(completed(place.frame.future), 0);
    finish(1, 0);
    error = await(place.frame.future);
    assert_non_null(error);
    assert_contains(error->text, "the name is in use");
    free(error);
    assert_int_equal(runtime.released, 2);
}

static void test_a_refusal_of_everything_is_told_at_once(void **state)
{
    struct place place;
    struct xla_error *error;

    (void) state;
    runtime.refuse_after = 0;
    place_init(&place, &api, REIGEN_BROADCAST, TENSORS);
    error = reigen_jax_collective(&place.frame);
    assert_non_null(error);
    assert_int_equal(error->code, XLA_ALREADY_EXISTS);
    assert_null(place.frame.future);
    free(error);
}

static void test_calls_in_flight_at_a_shutdown_leave_the_next_jobs_handles_alone(void **state)
{
    struct place old, new;
    struct xla_error *error;

    (void) state;
    place_init(&old, &api, REIGEN_ALLREDUCE, 1);
    assert_null(reigen_jax_collective(&old.frame));
    reigen_jax_pause();
    pthread_mutex_lock(&runtime.lock);
    runtime.down = true;
    pthread_mutex_unlock(&runtime.lock);
    pause_us(50000);
    assert_int_equal(completed(old.frame.future), 0);
    runtime_reset();
    reigen_jax_resume();
    place_init(&new, &api, REIGEN_ALLREDUCE, 1);
    assert_null(reigen_jax_collective(&new.frame)); /* it is given the old one's handle */
    error = await(old.frame.future);
    assert_non_null(error);
    assert_int_equal(error->code, XLA_CANCELLED);
    free(error);
    assert_int_equal(completed(new.frame.future), 0);
    finish(1, 0);
    assert_null(await(new.frame.future));
    assert_int_equal(runtime.released, 1);
    assert_int_equal(runtime.trespasses, 0);
}

#define CALLERS 4
#define CALLS 64

static void *call_often(void *places)
{
    struct place *place = places;

    for (int i = 0; i < CALLS; i++) {
        place_init(&place[i], &api, i % 2 ? REIGEN_ALLREDUCE : REIGEN_REDUCESCATTER, 1);
        assert_null(reigen_jax_collective(&place[i].frame));
    }
    return NULL;
}

static void test_calls_of_many_threads_end_once_each_in_any_order(void **state)
{
    struct place *places = calloc(CALLERS * CALLS, sizeof(*places));
    pthread_t threads[CALLERS];

    (void) state;
    assert_non_null(places);
    for (int t = 0; t < CALLERS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, call_often, &places[t * CALLS]), 0);
    for (int t = 0; t < CALLERS; t++)
        pthread_join(threads[t], NULL);
    for (int h = CALLERS * CALLS; h >= 1; h--)
        finish(h, 0);
    for (int i = 0; i < CALLERS * CALLS; i++)
        assert_null(await(places[i].frame.future));
    assert_int_equal(calls_in_flight(), 0);
    assert_int_equal(runtime.released, CALLERS * CALLS);
    free(places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_an_operation_that_is_done_at_once_needs_no_future, begin),
        cmocka_unit_test_setup(test_a_frame_may_be_lent_on_once_the_handler_has_returned, begin),
        cmocka_unit_test_setup(test_a_failure_later_is_the_futures_error, begin),
        cmocka_unit_test_setup(
            test_a_refusal_is_told_when_what_was_submitted_has_let_go_of_the_buffers, begin),
        cmocka_unit_test_setup(test_a_refusal_of_everything_is_told_at_once, begin),
        cmocka_unit_test_setup(
            test_calls_in_flight_at_a_shutdown_leave_the_next_jobs_handles_alone, begin),
        cmocka_unit_test_setup(test_calls_of_many_threads_end_once_each_in_any_order, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
