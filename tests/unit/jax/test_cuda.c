/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JAX binding's handler for CUDA devices, in ranks of a job, on the stand-ins for the driver
 * and for NCCL. What XLA does is made up here: frames, streams with work before and behind the
 * handler, several threads. There are no futures: a handler that made one would crash.
 */
#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "coll/gpu/tensor.h"
#include "frame.h"

/* ---- XLA */

struct xla_context {
    struct standin_stream *stream; /* NULL: XLA has none */
    int device;                    /* XLA's number, as if it was told to use one device */
};

static struct xla_error *stream_get(struct xla_stream_get_args *args)
{
    struct xla_error_create_args error = { sizeof(error), NULL, "no stream here", XLA_UNKNOWN };

    args->stream = args->context->stream;
    return args->stream ? NULL : frame_error_create(&error);
}

static struct xla_error *device_get(struct xla_device_get_args *args)
{
    args->device = args->context->device;
    return NULL;
}

static const struct xla_api api = {
    .struct_size = sizeof(api),
    .version = { .major = XLA_FFI_MAJOR, .minor = 3 },
    .error_create = frame_error_create,
    .stream_get = stream_get,
    .device_get = device_get,
};

/* One that does not tell the device. */
static const struct xla_api old_api = {
    .struct_size = offsetof(struct xla_api, device_get),
    .version = { .major = XLA_FFI_MAJOR, .minor = 1 },
    .error_create = frame_error_create,
    .stream_get = stream_get,
};

/* ---- a custom call on a device */

enum { TEXT_MAX = 300 };

static const int xla_dtypes[REIGEN_NDTYPES] = {
    XLA_U8, XLA_S8, XLA_U16, XLA_S16, XLA_S32, XLA_S64, XLA_F16, XLA_F32, XLA_F64, XLA_PRED,
    XLA_BF16,
};

struct site {
    struct place place;
    struct xla_context context;
    int dtype, count;
    struct tensor in[TENSORS], out[TENSORS];
    int64_t in_dims[TENSORS][2], out_dims[TENSORS][2];
};

/* Rows of three elements; each array has one row more for each rank than the one before it. */
static void site_open(struct site *site, const struct rank *rank, struct standin_stream *stream,
                      int kind, int dtype, int count)
{
    place_init(&site->place, &api, kind, count);
    site->context = (struct xla_context) { stream, 0 };
    site->place.frame.context = &site->context;
    site->dtype = dtype;
    site->count = count;
    for (int i = 0; i < count; i++) {
        int64_t rows = rank->n * (40 + i);
        int64_t out_rows = kind == REIGEN_ALLGATHER       ? rows * rank->n
                           : kind == REIGEN_REDUCESCATTER ? rows / rank->n
                                                          : rows;
        struct xla_buffer *in = &site->place.ins[i], *out = &site->place.outs[i];

        site->in[i] = tensor_make(stream, dtype, (size_t) rows * 3, rank->me);
        site->out[i] = tensor_make(stream, dtype, (size_t) out_rows * 3, 9);
        memcpy(site->in_dims[i], (int64_t[]) { rows, 3 }, sizeof(site->in_dims[i]));
        memcpy(site->out_dims[i], (int64_t[]) { out_rows, 3 }, sizeof(site->out_dims[i]));
        *in = (struct xla_buffer) { sizeof(*in), NULL, xla_dtypes[dtype], site->in[i].at, 2,
                                    site->in_dims[i] };
        *out = (struct xla_buffer) { sizeof(*out), NULL, xla_dtypes[dtype], site->out[i].at, 2,
                                     site->out_dims[i] };
    }
}

static void site_close(struct site *site)
{
    for (int i = 0; i < site->count; i++) {
        tensor_drop(&site->in[i]);
        tensor_drop(&site->out[i]);
    }
}

/* The handler is called. 0, or 1 with what it complained of. */
static int call(struct site *site, char *ret_text)
{
    struct xla_error *error = reigen_jax_collective_cuda(&site->place.frame);

    ret_text[0] = 0;
    if (!error)
        return 0;
    snprintf(ret_text, TEXT_MAX, "%d %s", error->code, error->text);
    free(error);
    return 1;
}

/* Of element i of a result; arg: kind, rank, ranks, elements that go in, dtype */
static double expected(size_t i, const int *arg)
{
    size_t in = (size_t) arg[3], part = in / (size_t) arg[2];
    int sum[] = { REIGEN_SUM, arg[2], arg[4] };

    switch (arg[0]) {
    case REIGEN_ALLGATHER:
        return tensor_value((int) (i / in), i % in);
    case REIGEN_ALLTOALL:
        return tensor_value((int) (i / part), i % part + part * (size_t) arg[1]);
    case REIGEN_BROADCAST:
        return tensor_value(arg[2] - 1, i);
    case REIGEN_REDUCESCATTER:
        return tensor_reduced(i + part * (size_t) arg[1], sum);
    default:
        return tensor_reduced(i, sum);
    }
}

/* In the stream's order. */
static int compare(const struct rank *rank, struct site *site)
{
    int bad = 0;

    for (int i = 0; i < site->count && !bad; i++) {
        int arg[] = { site->place.kind, rank->me, rank->n, (int) site->in[i].count, site->dtype };

        bad = tensor_compare(site->context.stream, site->out[i].at, site->dtype,
                             site->out[i].count, expected, arg);
    }
    return bad;
}

static int run_once(const struct rank *rank, struct standin_stream *stream, int kind, int dtype,
                    int count)
{
    char text[TEXT_MAX];
    struct site site;
    int bad;

    site_open(&site, rank, stream, kind, dtype, count);
    site.place.root = rank->n - 1;
    place_add_token(&site.place); /* as horovod.jax does for these devices */
    bad = check(call(&site, text) == 0);
    if (bad)
        fprintf(stderr, "kind %d: %s\n", kind, text);
    bad = bad || check(compare(rank, &site) == 0);
    site_close(&site);
    return bad;
}

static struct standin_stream *open_quietly(const struct rank *rank)
{
    struct standin_stream *stream = device_open(rank->me);

    reigen_use_device(-1, NULL); /* as in a thread of XLA's */
    return stream;
}

/* ---- results */

static const int kinds[] = { REIGEN_ALLREDUCE, REIGEN_ALLGATHER, REIGEN_BROADCAST, REIGEN_ALLTOALL,
                             REIGEN_REDUCESCATTER };
enum { NKINDS = sizeof(kinds) / sizeof(kinds[0]) };

static int every_kind(struct rank *rank)
{
    struct standin_stream *stream = open_quietly(rank);
    int bad = check(reigen_init(NULL) == 0);

    for (int k = 0; k < NKINDS && !bad; k++)
        for (int dtype = 0; dtype < REIGEN_NDTYPES && !bad; dtype++)
            bad = run_once(rank, stream, kinds[k], dtype, 1) ||
                  run_once(rank, stream, kinds[k], dtype, TENSORS);
    bad |= check(tensors_use_nccl() == !getenv("REIGEN_PLANES"));
    reigen_shutdown();
    return bad;
}

static void test_every_kind_and_type_gives_exact_results(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), every_kind, NULL), 0);
    assert_int_equal(ranks_run(3, ranks_port(), every_kind, NULL), 0);
    ranks_setenv("REIGEN_PLANES", "shm,tcp");
    assert_int_equal(ranks_run(2, ranks_port(), every_kind, NULL), 0);
    ranks_setenv("REIGEN_PLANES", NULL);
}

/* ---- order */

static atomic_bool gate;

static void wait_for_gate(void *unused)
{
    (void) unused;
    unit_until(atomic_load(&gate), "the test");
}

/* Before the first handler the stream stands still, so that none of the following runs while the
 * handlers are called: each takes the results of the one before it, and XLA writes over what it was
 * given as soon as it has returned. */
static int in_order(struct rank *rank)
{
    enum { N = 4 };
    struct standin_stream *stream = open_quietly(rank);
    static const float ones[3] = { 1, 1, 1 };
    struct site sites[N];
    char text[TEXT_MAX], name[16];
    int bad = check(reigen_init(NULL) == 0);

    /* The communicator is made by now. */
    bad |= run_once(rank, stream, REIGEN_ALLREDUCE, REIGEN_FLOAT32, 1);
    for (int i = 0; i < N; i++)
        site_open(&sites[i], rank, stream, kinds[i], REIGEN_FLOAT32, 2);
    bad |= check(standin_put(stream, wait_for_gate, NULL) == 0);
    for (int i = 0; i < N && !bad; i++) {
        sites[i].place.root = rank->n - 1;
        snprintf(name, sizeof(name), "step%d", i);
        sites[i].place.name = (struct xla_span) { name, strlen(name) };
        bad |= check(call(&sites[i], text) == 0);
        device_write(stream, sites[i].in[0].at, ones, sizeof(ones));
    }
    bad |= check(cuStreamQuery(stream) == 600); /* not ready: the host is ahead of it */
    atomic_store(&gate, true);
    for (int i = 0; i < N; i++) {
        bad = bad || check(compare(rank, &sites[i]) == 0);
        site_close(&sites[i]);
    }
    reigen_shutdown();
    return bad;
}

static void test_the_host_goes_on_and_the_stream_keeps_the_order(void **state)
{
    (void) state;
    ranks_setenv("STANDIN_DELAY_US", "500");
    for (int seed = 1; seed <= 3; seed++) {
        char text[16];

        snprintf(text, sizeof(text), "%d", seed);
        ranks_setenv("STANDIN_SEED", text);
        assert_int_equal(ranks_run(2, ranks_port(), in_order, NULL), 0);
    }
    ranks_setenv("STANDIN_SEED", NULL);
    ranks_setenv("STANDIN_DELAY_US", NULL);
}

/* ---- results */

static atomic_bool ended, released;

/* On the communication thread, which has a reference to the operation meanwhile. */
static void hold_on(void *unused, reigen_handle handle, int status)
{
    (void) unused, (void) handle, (void) status;
    atomic_store(&ended, true);
    unit_until(atomic_load(&released), "the release");
}

static int copies_late(struct rank *rank)
{
    struct standin_stream *stream = device_open(rank->me);
    struct tensor in = tensor_make(stream, REIGEN_FLOAT32, 300, rank->me);
    struct tensor out = tensor_make(stream, REIGEN_FLOAT32, 300 * (size_t) rank->n, 9);
    int arg[] = { REIGEN_ALLGATHER, rank->me, rank->n, 300, REIGEN_FLOAT32 };
    int64_t shape = 300;
    reigen_handle handle;
    int bad = check(reigen_init(NULL) == 0);

    bad = bad || check(reigen_allgather_async("g", in.at, REIGEN_FLOAT32, &shape, 1, NULL,
                                              &handle) == 0);
    bad = bad || check(reigen_on_done(handle, hold_on, NULL) == 0);
    bad = bad || check(unit_until(atomic_load(&ended), "the callback"));
    bad = bad || check(reigen_wait(handle, -1) == 0) ||
          check(standin_put(stream, wait_for_gate, NULL) == 0) ||
          check(reigen_output_copy(handle, out.at, out.count * sizeof(float)) == 0);
    reigen_release(handle);
    atomic_store(&released, true);
    usleep(200000); /* patient: for a memory that is given back too early */
    atomic_store(&gate, true);
    bad = bad || check(tensor_compare(stream, out.at, REIGEN_FLOAT32, out.count, expected,
                                      arg) == 0);
    tensor_drop(&in);
    tensor_drop(&out);
    reigen_shutdown();
    return bad;
}

static void test_a_result_lives_until_the_stream_that_copies_it_is_through(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), copies_late, NULL), 0);
}

/* ---- threads */

enum { CALLERS = 4, CALLS = 12 };

struct caller {
    struct rank *rank;
    int number, bad;
};

static int call_often(struct rank *rank, int number)
{
    struct standin_stream *stream = open_quietly(rank);
    char text[TEXT_MAX], name[32];
    int bad = 0;

    for (int i = 0; i < CALLS && !bad; i++) {
        struct site site;

        site_open(&site, rank, stream, kinds[i % NKINDS], REIGEN_FLOAT32, 2);
        site.place.root = rank->n - 1;
        snprintf(name, sizeof(name), "thread%d", number);
        site.place.name = (struct xla_span) { name, strlen(name) };
        bad = check(call(&site, text) == 0) || check(compare(rank, &site) == 0);
        site_close(&site);
    }
    return bad;
}

static void *caller_main(void *arg)
{
    struct caller *caller = arg;

    caller->bad = call_often(caller->rank, caller->number);
    return NULL;
}

static int in_threads(struct rank *rank)
{
    struct caller callers[CALLERS];
    pthread_t threads[CALLERS];
    int bad = check(reigen_init(NULL) == 0);

    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller) { rank, rank->me ? CALLERS - 1 - i : i, 0 };
        bad |= check(pthread_create(&threads[i], NULL, caller_main, &callers[i]) == 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        bad |= callers[i].bad;
    }
    reigen_shutdown();
    return bad;
}

static void test_several_threads_of_xlas_call_at_once(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), in_threads, NULL), 0);
}

/* ---- what is told of the handler, and what it leaves behind */

static void test_xla_may_not_record_it_in_a_command_buffer(void **state)
{
    struct xla_metadata metadata = { .struct_size = sizeof(metadata),
                                     .traits = XLA_TRAIT_COMMAND_BUFFER };
    struct xla_metadata_extension extension = {
        { sizeof(extension), XLA_EXTENSION_METADATA, NULL }, &metadata };
    struct xla_frame frame = { .struct_size = sizeof(frame), .extensions = &extension.base,
                               .api = &api, .stage = XLA_STAGE_EXECUTE };

    (void) state;
    assert_null(reigen_jax_collective_cuda(&frame));
    assert_int_equal(metadata.version.minor, 3);
    assert_int_equal(metadata.traits & XLA_TRAIT_COMMAND_BUFFER, 0);
}

static int leaves_thread_alone(struct rank *rank)
{
    struct standin_stream *stream = device_open(rank->me), *users;
    void *now = NULL;
    int bad = check(reigen_init(NULL) == 0);

    bad |= check(cuStreamCreate(&users, 1) == 0 && reigen_use_device(rank->me, users) == 0);
    bad |= run_once(rank, stream, REIGEN_ALLREDUCE, REIGEN_FLOAT32, 1);
    bad |= check(reigen_used_device(&now) == rank->me && now == users);
    bad |= check(reigen_use_device(-1, NULL) == 0);
    bad |= run_once(rank, stream, REIGEN_ALLREDUCE, REIGEN_FLOAT32, 1);
    bad |= check(reigen_used_device(&now) == -1 && now == NULL);
    reigen_shutdown();
    return bad;
}

static void test_a_thread_keeps_the_stream_that_it_has_chosen(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), leaves_thread_alone, NULL), 0);
}

/* ---- errors */

/* The call fails with this in its text, which begins with the number of the code. */
static int fails(const struct rank *rank, struct site *site, const char *code, const char *part)
{
    char text[TEXT_MAX];
    int bad = check(call(site, text) == 1) || check(strncmp(text, code, strlen(code)) == 0) ||
              check(strstr(text, part) != NULL);

    if (bad)
        fprintf(stderr, "instead of %s %s: %s\n", code, part, text);
    return bad;
}

/* An allreduce of nothing, on the device that XLA says; NULL: it goes well. */
static int empty_call(const struct rank *rank, struct standin_stream *stream, int device,
                      const struct xla_api *xla, const char *code, const char *part)
{
    char text[TEXT_MAX];
    struct site site;

    memset(&site, 0, sizeof(site));
    place_init(&site.place, xla, REIGEN_ALLREDUCE, 1);
    site.context = (struct xla_context) { stream, device };
    site.place.frame.context = &site.context;
    site.place.dims[0] = 0;
    site.place.ins[0].data = site.place.outs[0].data = NULL;
    return code ? fails(rank, &site, code, part) : check(call(&site, text) == 0);
}

static int errors(struct rank *rank)
{
    struct standin_stream *stream = open_quietly(rank);
    struct site site;
    void *graph;
    int bad = 0;

    site_open(&site, rank, stream, REIGEN_ALLREDUCE, REIGEN_FLOAT32, 1);
    bad |= fails(rank, &site, "9 ", "not been initialized");
    bad |= check(reigen_init(NULL) == 0);
    site.context.stream = NULL;
    bad |= fails(rank, &site, "2 ", "no stream here");
    site.context.stream = stream;
    bad |= check(empty_call(rank, stream, 99, &api, "3 ", "there is no GPU 99") == 0);
    bad |= check(empty_call(rank, stream, -1, &api, "3 ", "are on none") == 0);
    bad |= check(empty_call(rank, stream, rank->me, &old_api, "3 ", "are on none") == 0);
    bad |= check(empty_call(rank, stream, rank->me, &api, NULL, NULL) == 0);
    site.place.ins[0].data = site.place.in[0]; /* of the host */
    bad |= fails(rank, &site, "3 ", "are on none");
    site.place.ins[0].data = site.in[0].at;
    site.place.types[0] = 7;
    bad |= fails(rank, &site, "3 ", "horovod.jax has not made");
    site.place.types[0] = XLA_BUFFER;
    bad |= check(cuStreamBeginCapture_v2(stream, 0) == 0);
    bad |= fails(rank, &site, "3 ", "captured into a CUDA graph");
    bad |= check(cuStreamEndCapture(stream, &graph) == 0);
    site.in_dims[0][0] -= rank->me; /* the ranks' shapes differ */
    bad |= fails(rank, &site, "3 ", "Mismatched ALLREDUCE tensor shapes");
    site_close(&site);
    site_open(&site, rank, stream, REIGEN_ALLGATHER, REIGEN_FLOAT32, 0);
    place_add_token(&site.place);
    bad |= fails(rank, &site, "3 ", "horovod.jax has not made");
    site_open(&site, rank, stream, REIGEN_ALLGATHER, REIGEN_FLOAT32, 1);
    site.in_dims[0][0] -= rank->me;
    bad |= fails(rank, &site, "3 ", "the compiled program expects");
    site_close(&site);
    bad = bad || run_once(rank, stream, REIGEN_ALLREDUCE, REIGEN_FLOAT32, 1);
    reigen_shutdown();
    return bad;
}

static void test_each_error_is_told_and_the_job_goes_on(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), errors, NULL), 0);
}

/* The last rank leaves the job while the others wait in the handler. */
static int leaver(struct rank *rank)
{
    struct standin_stream *stream = open_quietly(rank);
    struct site site;
    int bad = check(reigen_init(NULL) == 0) ||
              run_once(rank, stream, REIGEN_ALLREDUCE, REIGEN_FLOAT32, 1);

    if (rank->me == rank->n - 1)
        syscall(SYS_exit_group, bad); /* at once; a sanitizer would count what is left */
    site_open(&site, rank, stream, REIGEN_ALLREDUCE, REIGEN_FLOAT32, TENSORS);
    bad = bad || fails(rank, &site, "14 ", "rank 2");
    site_close(&site);
    reigen_shutdown();
    return bad;
}

static void test_a_dead_rank_ends_the_handlers_of_the_others(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), leaver, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_and_type_gives_exact_results),
        cmocka_unit_test(test_the_host_goes_on_and_the_stream_keeps_the_order),
        cmocka_unit_test(test_a_result_lives_until_the_stream_that_copies_it_is_through),
        cmocka_unit_test(test_several_threads_of_xlas_call_at_once),
        cmocka_unit_test(test_xla_may_not_record_it_in_a_command_buffer),
        cmocka_unit_test(test_a_thread_keeps_the_stream_that_it_has_chosen),
        cmocka_unit_test(test_each_error_is_told_and_the_job_goes_on),
        cmocka_unit_test(test_a_dead_rank_ends_the_handlers_of_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
