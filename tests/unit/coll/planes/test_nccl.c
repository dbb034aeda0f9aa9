/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nccl plane, through the public API, on the stand-ins for the driver and for NCCL: what is in
 * the memory of a device comes out as a plain computation says, in the order of streams, and
 * whatever goes wrong is an error on every rank.
 */
#include "unit.h"

#include <signal.h>

#include "coll/gpu/device.h"
#include "coll/ranks.h"
#include "reigen/reigen.h"

enum { COUNT_MAX = 30000, ESIZE_MAX = 8 };

#define check(condition) do_check(rank, (condition), __LINE__, #condition)

/* Also says what the runtime has last complained of. */
static int do_check(const struct rank *rank, bool good, int line, const char *what)
{
    if (good)
        return 0;
    fprintf(stderr, "last error: %s\n", reigen_last_error());
    return ranks_fail(rank, line, what);
}

/* ------------------------------------------------------------ elements */

static const int esizes[REIGEN_NDTYPES] = { 1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2 };

/* Small multiples of a quarter, which every type but the integers holds exactly. */
static void put_element(void *at, int dtype, size_t i, double value)
{
    float single = (float) value;
    uint32_t bits;

    memcpy(&bits, &single, sizeof(bits));
    switch (dtype) {
    case REIGEN_UINT8: ((uint8_t *) at)[i] = (uint8_t) value; break;
    case REIGEN_INT8: ((int8_t *) at)[i] = (int8_t) value; break;
    case REIGEN_UINT16: ((uint16_t *) at)[i] = (uint16_t) value; break;
    case REIGEN_INT16: ((int16_t *) at)[i] = (int16_t) value; break;
    case REIGEN_INT32: ((int32_t *) at)[i] = (int32_t) value; break;
    case REIGEN_INT64: ((int64_t *) at)[i] = (int64_t) value; break;
    case REIGEN_FLOAT32: ((float *) at)[i] = single; break;
    case REIGEN_FLOAT64: ((double *) at)[i] = value; break;
    case REIGEN_BOOL: ((uint8_t *) at)[i] = value != 0; break;
    case REIGEN_BFLOAT16: ((uint16_t *) at)[i] = (uint16_t) (bits >> 16); break;
    default: /* float16 */
        ((uint16_t *) at)[i] = value == 0 ? 0 : (uint16_t) ((bits >> 31) << 15 |
                               (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023));
    }
}

/* Of element i on a rank: 0 to 3. */
static double value_of(int rank, size_t i)
{
    return (double) ((i * 7 + (size_t) rank * 3) % 4);
}

/* A tensor of the device's: written by work on the stream, read by work on the stream. */
struct tensor {
    int dtype;
    size_t count;
    void *at;
    char *seen;
};

static struct tensor make(struct standin_stream *stream, int dtype, size_t count, int rank)
{
    struct tensor t = { dtype, count, NULL, NULL };
    char *bytes = malloc(count * ESIZE_MAX + 1);

    if (count > 0)
        t.at = device_alloc(count * (size_t) esizes[dtype]);
    t.seen = calloc(count + 1, ESIZE_MAX);
    for (size_t i = 0; i < count; i++)
        put_element(bytes, dtype, i, value_of(rank, i));
    device_write(stream, t.at, bytes, count * (size_t) esizes[dtype]);
    free(bytes);
    return t;
}

static void drop(struct tensor *t)
{
    if (t->at)
        device_free(t->at);
    free(t->seen);
}

/* What is at `at` in the stream's order, against a plain computation. */
static int compare(struct standin_stream *stream, const void *at, int dtype, size_t count,
                   double (*expected)(size_t i, const int *arg), const int *arg)
{
    size_t nbytes = count * (size_t) esizes[dtype];
    char *seen = calloc(1, nbytes + 1), *want = calloc(count + 1, ESIZE_MAX);
    int bad;

    device_read(stream, seen, at, nbytes);
    bad = cuStreamSynchronize(stream) != 0;
    for (size_t i = 0; i < count; i++)
        put_element(want, dtype, i, expected(i, arg));
    for (size_t i = 0; i < count && !bad; i++)
        if (memcmp(seen + i * (size_t) esizes[dtype], want + i * (size_t) esizes[dtype],
                   (size_t) esizes[dtype]) != 0) {
            fprintf(stderr, "type %d: element %zu of %zu is wrong\n", dtype, i, count);
            bad = 1;
        }
    free(seen);
    free(want);
    return bad;
}

/* arg: reduction, number of ranks, dtype */
static double reduced(size_t i, const int *arg)
{
    double value = value_of(0, i);
    bool logical = arg[2] == REIGEN_BOOL;

    for (int r = 1; r < arg[1]; r++) {
        double next = value_of(r, i);

        if (arg[0] == REIGEN_MIN || (logical && arg[0] == REIGEN_PRODUCT))
            value = logical ? value && next : next < value ? next : value;
        else if (arg[0] == REIGEN_MAX || logical)
            value = logical ? value || next : next > value ? next : value;
        else
            value = arg[0] == REIGEN_PRODUCT ? value * next : value + next;
    }
    return arg[0] == REIGEN_AVERAGE ? value / arg[1] : value;
}

/* ------------------------------------------------------------ every operation */

static bool is_float(int dtype)
{
    return dtype == REIGEN_FLOAT16 || dtype == REIGEN_FLOAT32 || dtype == REIGEN_FLOAT64 ||
           dtype == REIGEN_BFLOAT16;
}

static bool is_short(int dtype)
{
    return dtype == REIGEN_INT16 || dtype == REIGEN_UINT16;
}

static int check_allreduce(struct rank *rank, struct standin_stream *stream, int dtype, int op,
                           size_t count, bool in_place)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    struct tensor in = make(stream, dtype, count, rank->me), out = make(stream, dtype, count, 9);
    int64_t shape = (int64_t) count;
    int arg[] = { op, rank->n, dtype }, bad = 0;
    void *to = in_place ? in.at : out.at;
    reigen_handle handle;

    options.op = op;
    bad |= check(reigen_allreduce_async("x", in.at, to, dtype, &shape, 1, &options, &handle) == 0);
    if (!bad)
        bad |= check(reigen_wait(handle, -1) == 0);
    if (!bad)
        bad |= check(compare(stream, to, dtype, count, reduced, arg) == 0);
    if (!bad)
        bad |= check(reigen_poll(handle) == 1);
    reigen_release(handle);
    drop(&in);
    drop(&out);
    return bad;
}

static int allreduces(struct rank *rank)
{
    static const size_t counts[] = { 1, 1000, COUNT_MAX, 0 };
    struct standin_stream *stream = device_open(rank->me);
    int bad = check(reigen_init(NULL) == 0);

    for (int dtype = 0; dtype < REIGEN_NDTYPES && !bad; dtype++)
        for (int op = REIGEN_AVERAGE; op <= REIGEN_PRODUCT && !bad; op++) {
            if (op == REIGEN_ADASUM || is_short(dtype) ||
                (op == REIGEN_AVERAGE && !is_float(dtype)))
                continue;
            for (int k = 0; k < 4 && !bad; k++)
                bad |= check_allreduce(rank, stream, dtype, op, counts[k], k % 2);
        }
    bad |= check(strstr(reigen_describe(), "boot:") != NULL);
    reigen_shutdown();
    return bad;
}

static void every_type_and_reduction_is_exact(void **state)
{
    (void) state;
    for (int n = 1; n <= 4; n *= 2)
        assert_int_equal(ranks_run(n, ranks_port(), allreduces, NULL), 0);
}

/* arg: first rank, elements of each rank before it ... */
struct gathered {
    const int64_t *rows;
    size_t width;
};
static struct gathered gathered_of;

static double gathered(size_t i, const int *arg)
{
    size_t row = i / gathered_of.width, r = 0;

    (void) arg;
    while (row >= (size_t) gathered_of.rows[r])
        row -= (size_t) gathered_of.rows[r++];
    return value_of((int) r, row * gathered_of.width + i % gathered_of.width);
}

static int check_allgather(struct rank *rank, struct standin_stream *stream, int dtype,
                           const int64_t *rows, int64_t width)
{
    int64_t shape[2] = { rows[rank->me], width }, got[REIGEN_NDIM_MAX], all = 0;
    struct tensor in = make(stream, dtype, (size_t) (shape[0] * width), rank->me);
    const void *data = NULL;
    size_t nbytes = 0;
    reigen_handle handle;
    int ndim = 0, bad;

    for (int r = 0; r < rank->n; r++)
        all += rows[r];
    bad = check(reigen_allgather_async("g", in.at, dtype, shape, 2, NULL, &handle) == 0);
    bad = bad || check(reigen_wait(handle, -1) == 0);
    bad = bad || check(reigen_output(handle, &data, &nbytes, got, &ndim) == 0);
    gathered_of = (struct gathered){ rows, (size_t) width };
    bad = bad || check(ndim == 2 && got[0] == all && got[1] == width) ||
          check(compare(stream, data, dtype, (size_t) (all * width), gathered, NULL) == 0);
    reigen_release(handle);
    drop(&in);
    return bad;
}

/* arg: root */
static double broadcasted(size_t i, const int *arg)
{
    return value_of(arg[0], i);
}

static int check_broadcast(struct rank *rank, struct standin_stream *stream, int dtype, int root)
{
    struct tensor in = make(stream, dtype, 777, rank->me), out = make(stream, dtype, 777, 8);
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { 7, 111 };
    int bad;

    options.root = root;
    bad = check(reigen_broadcast("b", in.at, out.at, dtype, shape, 2, &options) == 0);
    bad = bad || check(compare(stream, out.at, dtype, 777, broadcasted, &root) == 0);
    drop(&in);
    drop(&out);
    return bad;
}

/* arg: my rank, ranks: rank r sends r + k + 1 rows to k. */
static double exchanged(size_t i, const int *arg)
{
    for (int r = 0; r < arg[1]; r++) {
        size_t mine = (size_t) (r + arg[0] + 1), before = 0;

        for (int k = 0; k < arg[0]; k++)
            before += (size_t) (r + k + 1);
        if (i < mine)
            return value_of(r, before + i);
        i -= mine;
    }
    return -1;
}

static int check_alltoall(struct rank *rank, struct standin_stream *stream, int dtype)
{
    int32_t splits[RANKS_MAX], received[RANKS_MAX];
    int64_t sent = 0, got[REIGEN_NDIM_MAX], all = 0;
    int arg[] = { rank->me, rank->n }, ndim, bad;
    const void *data = NULL;
    struct tensor in;
    reigen_handle handle;
    size_t nbytes;

    for (int r = 0; r < rank->n; r++) {
        splits[r] = rank->me + r + 1;
        sent += splits[r];
        all += r + rank->me + 1;
    }
    in = make(stream, dtype, (size_t) sent, rank->me);
    bad = check(reigen_alltoall_async("a", in.at, dtype, &sent, 1, splits, rank->n, NULL,
                                      &handle) == 0);
    bad = bad || check(reigen_wait(handle, -1) == 0) ||
          check(reigen_received_splits(handle, received, RANKS_MAX) == 0) ||
          check(received[0] == rank->me + 1) ||
          check(reigen_output(handle, &data, &nbytes, got, &ndim) == 0 && got[0] == all) ||
          check(compare(stream, data, dtype, (size_t) all, exchanged, arg) == 0);
    reigen_release(handle);
    drop(&in);
    return bad;
}

/* arg: reduction, ranks, dtype, first element of this rank's part */
static double part(size_t i, const int *arg)
{
    return reduced(i + (size_t) arg[3], arg);
}

static int check_reducescatter(struct rank *rank, struct standin_stream *stream, int dtype,
                               int64_t rows)
{
    int64_t shape[] = { rows, 5 }, got[REIGEN_NDIM_MAX], n = rank->n;
    int64_t mine = rows / n + (rank->me < rows % n);
    int64_t first = rows / n * rank->me + (rank->me < rows % n ? rank->me : rows % n);
    int arg[] = { REIGEN_SUM, rank->n, dtype, (int) first * 5 }, ndim, bad;
    struct tensor in = make(stream, dtype, (size_t) rows * 5, rank->me);
    const void *data;
    reigen_handle handle;
    size_t nbytes;

    bad = check(reigen_reducescatter_async("s", in.at, dtype, shape, 2, NULL, &handle) == 0);
    bad = bad || check(reigen_wait(handle, -1) == 0) ||
          check(reigen_output(handle, &data, &nbytes, got, &ndim) == 0 && got[0] == mine) ||
          check(compare(stream, data, dtype, (size_t) mine * 5, part, arg) == 0);
    reigen_release(handle);
    drop(&in);
    return bad;
}

static int other_kinds(struct rank *rank)
{
    static const int64_t unequal[] = { 3, 0, 40, 1 }, equal[] = { 6, 6, 6, 6 };
    struct standin_stream *stream = device_open(rank->me);
    int bad = check(reigen_init(NULL) == 0);

    for (int dtype = 0; dtype < REIGEN_NDTYPES && !bad; dtype++) {
        bad |= check_allgather(rank, stream, dtype, unequal, 11);
        bad |= bad || check_allgather(rank, stream, dtype, equal, 3);
        for (int root = 0; root < rank->n && !bad; root++)
            bad |= check_broadcast(rank, stream, dtype, root);
        bad |= bad || check_alltoall(rank, stream, dtype);
        if (!is_short(dtype))
            bad |= bad || check_reducescatter(rank, stream, dtype, 4 * rank->n) ||
                   check_reducescatter(rank, stream, dtype, 4 * rank->n + 1);
    }
    reigen_shutdown();
    return bad;
}

static void every_kind_moves_every_type(void **state)
{
    (void) state;
    for (int n = 1; n <= 4; n++)
        assert_int_equal(ranks_run(n, ranks_port(), other_kinds, NULL), 0);
}

/* arg: as reduced, then the factor in quarters */
static double scaled(size_t i, const int *arg)
{
    return reduced(i, arg) * arg[3] / 4;
}

enum { MEMBERS = 5 };

static int check_group(struct rank *rank, struct standin_stream *stream, int process_set, int n,
                       int dtype)
{
    struct reigen_options options = { REIGEN_SUM, 0, 0.5, 0.5, process_set, 0 };
    struct tensor tensors[MEMBERS];
    const char *names[MEMBERS] = { "v", "w", "x", "y", "z" };
    const void *ins[MEMBERS];
    void *outs[MEMBERS];
    int64_t shape[MEMBERS];
    const int64_t *shapes[MEMBERS];
    int ndims[MEMBERS], arg[] = { REIGEN_SUM, n, dtype, 1 }, bad;
    reigen_handle handles[MEMBERS];

    for (int i = 0; i < MEMBERS; i++) {
        tensors[i] = make(stream, dtype, (size_t) (100 * i), rank->me);
        ins[i] = outs[i] = tensors[i].at;
        shape[i] = 100 * i;
        shapes[i] = &shape[i];
        ndims[i] = 1;
    }
    bad = check(reigen_grouped_async(REIGEN_ALLREDUCE, MEMBERS, names, ins, outs, dtype, shapes,
                                     ndims, &options, handles) == 0);
    bad = bad || check(reigen_wait_all(MEMBERS, handles, -1) == 0);
    for (int i = 0; i < MEMBERS && !bad; i++)
        bad |= check(compare(stream, outs[i], dtype, (size_t) shape[i], scaled, arg) == 0);
    reigen_release_all(MEMBERS, handles);
    for (int i = 0; i < MEMBERS; i++)
        drop(&tensors[i]);
    return bad;
}

static int groups_and_sets(struct rank *rank)
{
    struct standin_stream *stream = device_open(rank->me);
    const int first[] = { 0, 1 };
    int set = 0, bad = check(reigen_init(NULL) == 0);

    for (int round = 0; round < 3 && !bad; round++)
        bad |= check_group(rank, stream, 0, rank->n, REIGEN_FLOAT32) ||
               check_group(rank, stream, 0, rank->n, REIGEN_BFLOAT16) ||
               check_group(rank, stream, 0, rank->n, REIGEN_FLOAT16);
    bad = bad || check(reigen_process_set_add(first, 2, &set) == 0);
    if (!bad && rank->me < 2)
        bad |= check_group(rank, stream, set, 2, REIGEN_FLOAT64) ||
               check_group(rank, stream, set, 2, REIGEN_FLOAT32);
    bad = bad || check(reigen_process_set_remove(set) == 0);
    bad = bad || check_group(rank, stream, 0, rank->n, REIGEN_FLOAT32);
    reigen_shutdown();
    return bad;
}

static void groups_factors_and_process_sets_work(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), groups_and_sets, NULL), 0);
}

/* Many in flight, on one stream that is written between them; nobody waits for the host. */
static int overlaps(struct rank *rank)
{
    enum { N = 40 };
    struct standin_stream *stream = device_open(rank->me);
    struct tensor tensors[N];
    reigen_handle handles[N];
    int64_t shape = 500;
    int arg[] = { REIGEN_SUM, rank->n, REIGEN_FLOAT32 }, bad = check(reigen_init(NULL) == 0);

    for (int i = 0; i < N && !bad; i++) {
        char name[16];

        snprintf(name, sizeof(name), "grad%d", rank->me ? N - 1 - i : i);
        tensors[i] = make(stream, REIGEN_FLOAT32, 500, rank->me);
        bad |= check(reigen_allreduce_async(name, tensors[i].at, tensors[i].at, REIGEN_FLOAT32,
                                            &shape, 1, NULL, &handles[i]) == 0);
    }
    for (int i = 0; i < N && !bad; i++) {
        bad |= check(reigen_wait(handles[i], -1) == 0);
        bad = bad || check(compare(stream, tensors[i].at, REIGEN_FLOAT32, 500, reduced, arg) == 0);
        reigen_release(handles[i]);
        drop(&tensors[i]);
    }
    reigen_shutdown();
    return bad;
}

static void many_at_once_keep_the_order_of_streams(void **state)
{
    (void) state;
    ranks_setenv("STANDIN_DELAY_US", "500");
    for (int seed = 1; seed <= 3; seed++) {
        char text[16];

        snprintf(text, sizeof(text), "%d", seed);
        ranks_setenv("STANDIN_SEED", text);
        assert_int_equal(ranks_run(2, ranks_port(), overlaps, NULL), 0);
    }
    ranks_setenv("STANDIN_SEED", NULL);
    ranks_setenv("STANDIN_DELAY_US", NULL);
}

/* arg: ranks that have not joined */
static double without(size_t i, const int *arg)
{
    double sum = 0;

    for (int r = 0; r < arg[0]; r++)
        sum += value_of(r, i);
    return sum;
}

/* The last rank has none of its own: it takes part by zeros on a stream of the plane's. */
static int joins(struct rank *rank)
{
    struct standin_stream *stream = device_open(rank->me);
    int64_t shape = 300;
    int arg[] = { rank->n - 1 }, bad = check(reigen_init(NULL) == 0);
    reigen_handle joined;

    for (int i = 0; i < 5 && !bad && rank->me < rank->n - 1; i++) {
        struct tensor t = make(stream, REIGEN_FLOAT32, 300, rank->me);

        bad |= check(reigen_allreduce("j", t.at, t.at, REIGEN_FLOAT32, &shape, 1, NULL) == 0);
        bad = bad || check(compare(stream, t.at, REIGEN_FLOAT32, 300, without, arg) == 0);
        drop(&t);
    }
    bad = bad || check(reigen_join_async(&joined) == 0) || check(reigen_wait(joined, -1) >= 1);
    reigen_shutdown();
    return bad;
}

static void who_has_joined_supplies_zeros(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), joins, NULL), 0);
}

/* ------------------------------------------------------------ what is refused */

static int sum(const char *name, void *at, int64_t count)
{
    return reigen_allreduce(name, at, at, REIGEN_FLOAT32, &count, 1, NULL);
}

static int refusals(struct rank *rank)
{
    struct standin_stream *stream = device_open(rank->me);
    struct tensor t = make(stream, REIGEN_FLOAT32, 100, rank->me);
    struct reigen_options adasum = REIGEN_OPTIONS_INIT;
    struct reigen_request *request;
    float host[100] = { 0 };
    int64_t shape = 100;
    int arg[] = { REIGEN_SUM, rank->n, REIGEN_FLOAT32 }, bad = check(reigen_init(NULL) == 0);
    void *graph, *other;

    /* On one rank in the host's memory, on the other on its device. */
    bad |= check(sum("m", rank->me ? host : t.at, 100) == -EINVAL);
    bad |= check(strstr(reigen_last_error(), "Mismatched ALLREDUCE CPU/GPU device selection: ") !=
                 NULL);
    bad |= check(reigen_allreduce("p", t.at, host, REIGEN_FLOAT32, &shape, 1, NULL) == -EINVAL);
    bad |= check(strstr(reigen_last_error(), "its tensors are in different places: one is in GPU")
                 != NULL);
    adasum.op = REIGEN_ADASUM;
    bad |= check(reigen_allreduce("q", t.at, t.at, REIGEN_FLOAT32, &shape, 1, &adasum) ==
                 -ENOTSUP);
    bad |= check(cuStreamBeginCapture_v2(stream, 0) == 0 && sum("c", t.at, 100) == -EINVAL);
    bad |= check(strstr(reigen_last_error(), "captured into a CUDA graph") != NULL);
    bad |= check(cuStreamEndCapture(stream, &graph) == 0);
    bad |= check(reigen_request_create(REIGEN_ALLREDUCE, "r", REIGEN_FLOAT32, &shape, 1, NULL,
                                       &request) == 0);
    bad |= check(reigen_request_run(request, t.at, t.at, -1) == -ENOTSUP);
    bad |= check(reigen_request_run(request, host, host, -1) == 0);
    reigen_request_free(request);
    bad |= check(reigen_use_device(99, NULL) == -EINVAL);
    /* The job has taken no harm. */
    bad |= check(sum("x", host, 100) == 0);
    bad |= check(sum("x", t.at, 100) == 0);
    bad = bad || check(compare(stream, t.at, REIGEN_FLOAT32, 100, reduced, arg) == 0);
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

/* What of rank 1 is not as it should be. */
struct flaw {
    const char *name, *value; /* a variable, of rank 1 */
    bool same;                /* both ranks on one device */
    const char *said;         /* by all ranks */
};

static int flawed(struct rank *rank)
{
    const struct flaw *flaw = rank->arg;
    struct standin_stream *stream;
    struct tensor t;
    int bad;

    if (rank->me == 1 && flaw->name)
        setenv(flaw->name, flaw->value, 1);
    stream = device_open(flaw->same ? 0 : rank->me);
    t = make(stream, REIGEN_FLOAT32, 100, rank->me);
    bad = check(reigen_init(NULL) == 0);
    bad = bad || check(sum("x", t.at, 100) == -ENOTSUP) ||
          check(strstr(reigen_last_error(), "no plane between 2 ranks can do this: allreduce (sum) "
                                            "of float32 in cuda memory") != NULL) ||
          check(strstr(reigen_last_error(), flaw->said) != NULL);
    reigen_shutdown();
    return bad;
}

static void ranks_that_do_not_go_together_are_told_why(void **state)
{
    static struct flaw flaws[] = {
        { "STANDIN_NCCL_VERSION", "22304", false, "nccl cannot be used: rank 0 has NCCL 2.21.5, "
                                                  "but rank 1 has 2.23.4" },
        { "STANDIN_NCCL_VERSION", "21700", false, "rank 1: libnccl.so.2 is version 2.17.0; Reigen "
                                                  "needs 2.18" },
        { "REIGEN_NCCL", "/nowhere/libnccl.so", false, "rank 1: there is no NCCL: REIGEN_NCCL=" },
        { NULL, NULL, true, "ranks 0 and 1 are on the same GPU" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof(flaws) / sizeof(flaws[0]); i++)
        assert_int_equal(ranks_run(2, ranks_port(), flawed, &flaws[i]), 0);
}

/* ------------------------------------------------------------ what breaks in the middle */

struct harm {
    const char *name, *value; /* a variable, of rank 1 */
    bool dies;                /* rank 1 */
    int status;               /* of the operation that fails; 0: any */
    const char *said;         /* by rank 1; NULL: nothing more is asked */
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
    stream = device_open(rank->me);
    t = make(stream, REIGEN_FLOAT32, 400000, rank->me);
    bad = check(reigen_init(NULL) == 0);
    for (int i = 0; i < 300 && r == 0 && !bad; i++) {
        const void *data;
        int64_t got[REIGEN_NDIM_MAX];
        reigen_handle handle;
        size_t nbytes;
        int ndim;

        r = reigen_allgather_async("x", t.at, REIGEN_FLOAT32, shape, 2, NULL, &handle);
        if (r == 0) {
            r = reigen_wait(handle, 15000);
            if (r == 0)
                r = reigen_output(handle, &data, &nbytes, got, &ndim);
            reigen_release(handle);
        }
        usleep(10000);
    }
    bad |= check(r < 0 && r != -EAGAIN && (!harm->status || r == harm->status));
    if (rank->me == 1 && harm->said)
        bad |= check(strstr(reigen_last_error(), harm->said) != NULL);
    cuStreamSynchronize(stream); /* nothing holds it for ever */
    reigen_shutdown();
    return bad;
}

static void whatever_breaks_is_an_error_on_every_rank(void **state)
{
    static struct harm harms[] = {
        { "STANDIN_NCCL_KILL_AFTER", "0", true, -ECONNRESET, NULL },
        { "STANDIN_NCCL_KILL_AFTER", "3", true, -ECONNRESET, NULL },
        { "STANDIN_NCCL_ERROR_AFTER", "2", false, 0, "NCCL failed: remote process exited" },
        { "STANDIN_CUDA_ECC_AFTER", "9", false, 0, "CUDA_ERROR_ECC_UNCORRECTABLE" },
        { "STANDIN_CUDA_MEMORY", "4000000", false, 0, "CUDA_ERROR_OUT_OF_MEMORY" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof(harms) / sizeof(harms[0]); i++)
        assert_int_equal(ranks_run(2, ranks_port(), harmed, &harms[i]), harms[i].dies ? 99 : 0);
}

/* ------------------------------------------------------------ on the host nothing changes */

static int host_only(struct rank *rank)
{
    float data[100] = { 1.0f };
    char *planes;
    int bad = check(reigen_init(NULL) == 0);

    bad |= check(sum("x", data, 100) == 0 && data[0] == (float) rank->n);
    bad |= check(reigen_planes(&planes) == 0 && !strstr(planes, "cuda") && !strstr(planes, "nccl"));
    bad |= check(!strstr(reigen_describe(), "nccl"));
    reigen_free(planes);
    reigen_shutdown();
    return bad;
}

static void without_a_device_nothing_is_heard_of_it(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), host_only, NULL), 0);
}

/* Each rank a host of its own: all operations go over the group of all ranks. */
static void several_hosts_use_it_too(void **state)
{
    (void) state;
    ranks_setenv("REIGEN_PLANES", "tcp,nccl");
    assert_int_equal(ranks_run(2, ranks_port(), other_kinds, NULL), 0);
    assert_int_equal(ranks_run(3, ranks_port(), groups_and_sets, NULL), 0);
    ranks_setenv("REIGEN_PLANES", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_reduction_is_exact),
        cmocka_unit_test(every_kind_moves_every_type),
        cmocka_unit_test(groups_factors_and_process_sets_work),
        cmocka_unit_test(many_at_once_keep_the_order_of_streams),
        cmocka_unit_test(who_has_joined_supplies_zeros),
        cmocka_unit_test(what_cannot_be_is_refused_and_the_job_goes_on),
        cmocka_unit_test(ranks_that_do_not_go_together_are_told_why),
        cmocka_unit_test(whatever_breaks_is_an_error_on_every_rank),
        cmocka_unit_test(without_a_device_nothing_is_heard_of_it),
        cmocka_unit_test(several_hosts_use_it_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
