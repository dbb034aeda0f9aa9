/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors on GPUs, on the stand-ins for the driver and for NCCL: whatever is wrong with what the
 * ranks give, or breaks while they work, is a clear error on every rank, and never a hang.
 */
#include "unit.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "coll/gpu/tensor.h"

/* ------------------------------------------------------------ what is refused */

static int sum(const char *name, void *at, int64_t count)
{
    return reigen_allreduce(name, at, at, REIGEN_FLOAT32, &count, 1, NULL);
}

static int refusals(struct rank *rank)
{
    struct standin_stream *stream = device_open(rank->me);
    struct tensor t = tensor_make(stream, REIGEN_FLOAT32, 100, rank->me);
    struct reigen_request *request;
    float host[100] = { 0 };
    int64_t shape = 100;
    int arg[] = { REIGEN_SUM, rank->n, REIGEN_FLOAT32 }, bad = check(reigen_init(NULL) == 0);
    void *other;

    /* On one rank in the host's memory, on the other on its device. */
    bad |= check(sum("m", rank->me ? host : t.at, 100) == -EINVAL);
    bad |= check(strstr(reigen_last_error(), "Mismatched ALLREDUCE CPU/GPU device selection: ") !=
                 NULL);
    bad |= check(reigen_allreduce("p", t.at, host, REIGEN_FLOAT32, &shape, 1, NULL) == -EINVAL);
    bad |= check(strstr(reigen_last_error(), "its tensors are in different places: one is in GPU")
                 != NULL);
    bad |= check(reigen_request_create(REIGEN_ALLREDUCE, "r", REIGEN_FLOAT32, &shape, 1, NULL,
                                       &request) == 0);
    bad |= check(reigen_request_run(request, t.at, t.at, -1) == -ENOTSUP);
    bad |= check(reigen_request_run(request, host, host, -1) == 0);
    reigen_request_free(request);
    bad |= check(reigen_use_device(99, NULL) == -EINVAL);
    /* The job has taken no harm. */
    bad |= check(sum("x", host, 100) == 0);
    bad |= check(sum("x", t.at, 100) == 0);
    bad = bad || check(tensor_compare(stream, t.at, REIGEN_FLOAT32, 100, tensor_reduced, arg) == 0);
    device_open((rank->me + 2) % 4);
    other = device_alloc(400);
    bad |= check(sum("o", other, 100) == -EINVAL);
    bad |= check(strstr(reigen_last_error(), "each rank uses one GPU") != NULL);
    reigen_shutdown();
    return bad;
}

static void what_cannot_be_is_refused_and_the_job_goes_on(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), refusals, NULL), 0);
}

/* A stream that is destroyed, and one that is captured; and captures of what has nothing to do with
 * us, which the plane's looks at its events must not break. */
static void sleep_moment(void *arg)
{
    (void) arg;
    usleep(100000); /* patient: the stream is busy */
}

static int streams(struct rank *rank)
{
    struct standin_stream *stream = device_open(rank->me), *gone;
    struct tensor t = tensor_make(stream, REIGEN_FLOAT32, 100, rank->me);
    int64_t shape = 100;
    int arg[] = { REIGEN_SUM, rank->n, REIGEN_FLOAT32 }, bad = check(reigen_init(NULL) == 0);
    reigen_handle handle;
    void *graph;

    bad |= check(cuStreamCreate(&gone, 1) == 0 && reigen_use_device(rank->me, gone) == 0);
    bad |= check(cuStreamDestroy_v2(gone) == 0 && sum("d", t.at, 100) == -EINVAL);
    bad |= check(strstr(reigen_last_error(), "CUDA_ERROR_INVALID_HANDLE") != NULL);
    bad |= check(reigen_use_device(rank->me, stream) == 0);
    bad |= check(cuStreamBeginCapture_v2(stream, 0) == 0 && sum("c", t.at, 100) == -EINVAL);
    bad |= check(strstr(reigen_last_error(), "captured into a CUDA graph") != NULL);
    bad |= check(cuStreamEndCapture(stream, &graph) == 0);
    bad |= check(standin_put(stream, sleep_moment, NULL) == 0);
    bad |= check(reigen_allreduce_async("e", t.at, t.at, REIGEN_FLOAT32, &shape, 1, NULL,
                                        &handle) == 0);
    bad |= check(unit_until(reigen_wait(handle, 0) != -EAGAIN, "the operation"));
    bad |= check(cuStreamBeginCapture_v2(stream, 0) == 0 && reigen_wait(handle, -1) == -EINVAL);
    bad |= check(strstr(reigen_last_error(), "cannot wait for an operation among ranks") != NULL);
    usleep(60000); /* patient: the plane looks at its events meanwhile */
    bad |= check(cuStreamEndCapture(stream, &graph) == 0 && reigen_wait(handle, -1) == 0);
    reigen_release(handle);
    bad = bad || check(tensor_compare(stream, t.at, REIGEN_FLOAT32, 100, tensor_reduced, arg) == 0);
    tensor_drop(&t);
    reigen_shutdown();
    return bad;
}

static void bad_streams_are_refused_and_captures_are_left_alone(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), streams, NULL), 0);
    ranks_setenv("REIGEN_PLANES", "shm,tcp");
    assert_int_equal(ranks_run(2, ranks_port(), streams, NULL), 0);
    ranks_setenv("REIGEN_PLANES", NULL);
}

/* Rank 1 gives tensors of two GPUs in one call, is refused, and leaves: rank 0 hears of it. */
static int two_devices(struct rank *rank)
{
    struct standin_stream *stream;
    struct tensor here, there;
    void *tensors[2];
    int64_t shape = 100;
    const int64_t *shapes[] = { &shape, &shape };
    int ndims[] = { 1, 1 }, r, bad;
    reigen_handle handles[2];

    stream = device_open(3);
    there = tensor_make(stream, REIGEN_FLOAT32, 100, rank->me);
    stream = device_open(rank->me);
    here = tensor_make(stream, REIGEN_FLOAT32, 100, rank->me);
    tensors[0] = here.at;
    tensors[1] = rank->me ? there.at : here.at;
    bad = check(reigen_init(NULL) == 0) || check(sum("x", here.at, 100) == 0);
    r = reigen_grouped_async(REIGEN_ALLREDUCE, 2, NULL, (const void *const *) tensors, tensors,
                             REIGEN_FLOAT32, shapes, ndims, NULL, handles);
    if (rank->me == 1) {
        bad |= check(r == -EINVAL);
        bad |= check(strstr(reigen_last_error(), "one is in GPU 1, another one in GPU 3") != NULL);
    } else {
        if (r == 0)
            r = reigen_wait_all(2, handles, 30000);
        bad = bad || check(r == -ECANCELED) ||
              check(strstr(reigen_last_error(), "rank 1 called shutdown first") != NULL);
    }
    reigen_shutdown();
    return bad;
}

static void tensors_of_two_gpus_are_an_error_on_every_rank(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), two_devices, NULL), 0);
}

/* ------------------------------------------------------------ a rank without a GPU of use */

struct unusable {
    const char *name, *value; /* a variable, of rank 1 */
    int status;               /* of reigen_use_device there */
    const char *said;
};

/* Such a rank can only give tensors in the host's memory: both ranks are told that they differ. */
static int unusables(struct rank *rank)
{
    const struct unusable *flaw = rank->arg;
    float host[100] = { 0 };
    struct tensor t;
    int bad;

    if (rank->me == 1) {
        setenv(flaw->name, flaw->value, 1);
        bad = check(reigen_use_device(0, NULL) == flaw->status);
        bad |= check(strstr(reigen_last_error(), flaw->said) != NULL);
    } else {
        t = tensor_make(device_open(0), REIGEN_FLOAT32, 100, 0);
        bad = 0;
    }
    bad = bad || check(reigen_init(NULL) == 0);
    bad = bad || check(sum("m", rank->me ? host : t.at, 100) == -EINVAL) ||
          check(strstr(reigen_last_error(), "CPU/GPU device selection") != NULL) ||
          check(strstr(reigen_last_error(), "rank 1: host") != NULL) ||
          check(sum("h", host, 100) == 0);
    reigen_shutdown();
    return bad;
}

static void a_rank_without_a_gpu_of_use_is_told_of_on_every_rank(void **state)
{
    static struct unusable flaws[] = {
        { "CUDA_VISIBLE_DEVICES", "", -ENODEV, "shows no device to this process" },
        { "STANDIN_CUDA_VERSION", "10020", -ENOTSUP, "10.2; Reigen needs one for 11.0" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof(flaws) / sizeof(flaws[0]); i++)
        assert_int_equal(ranks_run(2, ranks_port(), unusables, &flaws[i]), 0);
}

/* ------------------------------------------------------------ fork */

/* In a child of a rank, which is a job of its own: the host's memory is all that it can use. */
static int child_of(struct rank *rank, void *at)
{
    float host[100] = { 1 };
    int bad;

    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    setenv("REIGEN_JOB_ID", rank->me ? "child1" : "child0", 1);
    bad = check(reigen_use_device(0, NULL) == -ENOTSUP);
    bad |= check(strstr(reigen_last_error(), "\"spawn\"") != NULL);
#ifdef __SANITIZE_THREAD__
    return bad; /* it knows of no threads that such a child starts */
#endif
    bad |= check(reigen_init(NULL) == 0);
    bad |= check(sum("f", at, 100) == -ENOTSUP);
    bad |= check(strstr(reigen_last_error(), "forked from one that uses the GPU") != NULL);
    bad |= check(reigen_use_device(-1, NULL) == 0 && sum("g", host, 100) == 0 && host[0] == 1);
    reigen_shutdown();
    return bad;
}

static int forks(struct rank *rank)
{
    struct standin_stream *stream = device_open(rank->me);
    struct tensor t = tensor_make(stream, REIGEN_FLOAT32, 100, rank->me);
    int bad = check(reigen_init(NULL) == 0) || check(sum("x", t.at, 100) == 0), status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(child_of(rank, t.at));
    bad |= check(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    bad |= check(sum("x", t.at, 100) == 0);
    reigen_shutdown();
    return bad;
}

static void a_forked_child_is_told_that_it_cannot_use_the_gpu(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), forks, NULL), 0);
}

/* ------------------------------------------------------------ what NCCL cannot serve */

/* What of rank 1 is not as it should be. */
struct flaw {
    const char *name, *value; /* a variable, of rank 1 */
    bool same;                /* both ranks on one device */
};

static int flawed(struct rank *rank)
{
    const struct flaw *flaw = rank->arg;
    struct standin_stream *stream;
    int bad;

    if (rank->me == 1 && flaw->name)
        setenv(flaw->name, flaw->value, 1);
    stream = device_open(flaw->same ? 0 : rank->me);
    bad = check(reigen_init(NULL) == 0);
    for (int i = 0; i < 3 && !bad; i++)
        bad |= tensor_allreduce(rank, stream, 0, REIGEN_FLOAT32, REIGEN_SUM, 1000, i == 1);
    bad |= check(!tensors_use_nccl());
    reigen_shutdown();
    return bad;
}

static void ranks_that_nccl_cannot_serve_go_through_the_host(void **state)
{
    static struct flaw flaws[] = {
        { "STANDIN_NCCL_VERSION", "22304", false }, /* not rank 0's */
        { "STANDIN_NCCL_VERSION", "21700", false }, /* too old */
        { "REIGEN_NCCL", "/nowhere/libnccl.so", false },
        { NULL, NULL, true },
    };

    (void) state;
    for (size_t i = 0; i < sizeof(flaws) / sizeof(flaws[0]); i++)
        assert_int_equal(ranks_run(2, ranks_port(), flawed, &flaws[i]), 0);
}

/* The oldest that is taken, and one of later. */
static int by_nccl(struct rank *rank)
{
    struct standin_stream *stream = device_open(rank->me);
    int bad = check(reigen_init(NULL) == 0);

    bad = bad || tensor_allreduce(rank, stream, 0, REIGEN_FLOAT32, REIGEN_AVERAGE, 1000, true);
    bad |= check(tensors_use_nccl());
    reigen_shutdown();
    return bad;
}

static void every_nccl_since_2_18_is_taken(void **state)
{
    static const char *const versions[] = { "21800", "23207" };

    (void) state;
    for (int i = 0; i < 2; i++) {
        ranks_setenv("STANDIN_NCCL_VERSION", versions[i]);
        assert_int_equal(ranks_run(2, ranks_port(), by_nccl, NULL), 0);
    }
    ranks_setenv("STANDIN_NCCL_VERSION", NULL);
}

/* ------------------------------------------------------------ what breaks in the middle */

struct harm {
    const char *name, *value; /* a variable, of rank 1 */
    bool dies;                /* rank 1 */
    int status;               /* of the operation that fails; 0: any */
    const char *said;         /* by rank 1; NULL: nothing more is asked */
    const char *fault;        /* STANDIN_CUDA_FAULT; NULL: its default */
};

/* Operations until one fails, which must be soon; then the stream must be free. */
static int harmed(struct rank *rank)
{
    const struct harm *harm = rank->arg;
    struct standin_stream *stream;
    int64_t shape[2] = { 4000, 100 };
    struct tensor t;
    int r = 0, bad;

    if (rank->me == 1)
        setenv(harm->name, harm->value, 1);
    if (rank->me == 1 && harm->fault)
        setenv("STANDIN_CUDA_FAULT", harm->fault, 1);
    stream = device_open(rank->me);
    t = tensor_make(stream, REIGEN_FLOAT32, 400000, rank->me);
    bad = check(reigen_init(NULL) == 0);
    for (int i = 0; i < 300 && r == 0 && !bad; i++) {
        const void *data;
        int64_t got[REIGEN_NDIM_MAX];
        reigen_handle handle;
        size_t nbytes;
        int ndim;

        r = reigen_allgather_async("x", t.at, REIGEN_FLOAT32, shape, 2, NULL, &handle);
        if (rank->me == 1 && r == 0 && i == 3 && getenv("TEST_DIES"))
            kill(getpid(), SIGKILL);
        if (r == 0) {
            r = reigen_wait(handle, 15000);
            if (r == 0)
                r = reigen_output(handle, &data, &nbytes, got, &ndim);
            reigen_release(handle);
        }
        usleep(10000); /* patient: it computes */
        /* Results that wait to be freed, on a slow machine, are memory that is short. */
        if (r == 0 && i % 8 == 7)
            cuStreamSynchronize(stream);
    }
    bad |= check(r < 0 && r != -EAGAIN && (!harm->status || r == harm->status));
    if (rank->me == 1 && harm->said)
        bad |= check(strstr(reigen_last_error(), harm->said) != NULL);
    if (harm->dies)
        bad |= check(strstr(reigen_last_error(), "rank 1") != NULL);
    cuStreamSynchronize(stream); /* nothing holds it for ever */
    reigen_shutdown();
    return bad;
}

static void break_all(const struct harm *harms, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ranks_run(2, ranks_port(), harmed, (void *) (uintptr_t) &harms[i]),
                         harms[i].dies ? 99 : 0);
}

static void whatever_breaks_is_an_error_on_every_rank(void **state)
{
    static const struct harm harms[] = {
        { "STANDIN_NCCL_KILL_AFTER", "0", true, -ECONNRESET, NULL, NULL },
        { "STANDIN_NCCL_KILL_AFTER", "3", true, -ECONNRESET, NULL, NULL },
        { "STANDIN_NCCL_ERROR_AFTER", "2", false, 0, "NCCL failed: remote process exited or "
          "there was a network error (an error that was asked for)", NULL },
        { "STANDIN_CUDA_ECC_AFTER", "9", false, 0, "CUDA_ERROR_ECC_UNCORRECTABLE", NULL },
        { "STANDIN_CUDA_ECC_AFTER", "9", false, 0, "CUDA_ERROR_LAUNCH_FAILED", "719" },
        { "STANDIN_CUDA_MEMORY", "4000000", false, 0, "CUDA_ERROR_OUT_OF_MEMORY", NULL },
    };

    (void) state;
    break_all(harms, sizeof(harms) / sizeof(harms[0]));
}

/* Rank 1's device breaks when an operation is on its stream that rank 0's comes to later, and it
 * leaves at once. Rank 0's stream would stand there for ever. */
static void hold(void *arg)
{
    unit_until(atomic_load((_Atomic bool *) arg), "the other rank has left");
}

static int leaves_broken(struct rank *rank)
{
    _Atomic bool *left = rank->arg;
    struct standin_stream *stream = device_open(rank->me);
    struct tensor t = tensor_make(stream, REIGEN_FLOAT32, 100, rank->me);
    int r, bad = check(reigen_init(NULL) == 0) || check(sum("x", t.at, 100) == 0);

    if (rank->me == 0)
        bad |= check(standin_put(stream, hold, left) == 0);
    r = sum("x", t.at, 100);
    if (rank->me == 1) {
        bad |= check(r == 0);
        standin_break(stream, 719, "a kernel that fails");
        reigen_shutdown();
        atomic_store(left, true);
        return bad;
    }
    bad |= check(r < 0 || sum("x", t.at, 100) < 0);
    bad |= check(unit_until(cuStreamQuery(stream) == 0, "a free stream"));
    reigen_shutdown();
    return bad;
}

static void a_rank_that_leaves_with_a_broken_device_holds_nobody(void **state)
{
    _Atomic bool *left = mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    (void) state;
    assert_true(left != MAP_FAILED);
    assert_int_equal(ranks_run(2, ranks_port(), leaves_broken, left), 0);
    munmap(left, sizeof(*left));
}

/* NCCL hears of a death by its connections, before anybody else does: the verdict is the same. */
static void a_death_is_one_though_nccl_hears_of_it_first(void **state)
{
    static const struct harm harm = { "STANDIN_NCCL_KILL_AFTER", "3", true, -ECONNRESET, NULL,
                                      NULL };

    (void) state;
    ranks_setenv("STANDIN_NCCL_NOTICES", "1");
    break_all(&harm, 1);
    ranks_setenv("STANDIN_NCCL_NOTICES", NULL);
}

static void what_breaks_on_the_way_through_the_host_is_one_too(void **state)
{
    static const struct harm harms[] = {
        { "TEST_DIES", "1", true, -ECONNRESET, NULL, NULL },
        { "STANDIN_CUDA_ECC_AFTER", "9", false, 0, "CUDA_ERROR_ECC_UNCORRECTABLE", NULL },
        { "STANDIN_CUDA_ECC_AFTER", "9", false, 0, "CUDA_ERROR_LAUNCH_FAILED", "719" },
        { "STANDIN_CUDA_MEMORY", "4000000", false, 0, "CUDA_ERROR_OUT_OF_MEMORY", NULL },
        { "STANDIN_CUDA_PINNED", "1000000", false, 0, "pinned memory: CUDA_ERROR_OUT_OF_MEMORY",
          NULL },
    };

    (void) state;
    ranks_setenv("REIGEN_PLANES", "shm,tcp");
    break_all(harms, sizeof(harms) / sizeof(harms[0]));
    ranks_setenv("REIGEN_PLANES", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_refused_and_the_job_goes_on),
        cmocka_unit_test(bad_streams_are_refused_and_captures_are_left_alone),
        cmocka_unit_test(tensors_of_two_gpus_are_an_error_on_every_rank),
        cmocka_unit_test(a_rank_without_a_gpu_of_use_is_told_of_on_every_rank),
        cmocka_unit_test(a_forked_child_is_told_that_it_cannot_use_the_gpu),
        cmocka_unit_test(ranks_that_nccl_cannot_serve_go_through_the_host),
        cmocka_unit_test(every_nccl_since_2_18_is_taken),
        cmocka_unit_test(whatever_breaks_is_an_error_on_every_rank),
        cmocka_unit_test(a_rank_that_leaves_with_a_broken_device_holds_nobody),
        cmocka_unit_test(a_death_is_one_though_nccl_hears_of_it_first),
        cmocka_unit_test(what_breaks_on_the_way_through_the_host_is_one_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
