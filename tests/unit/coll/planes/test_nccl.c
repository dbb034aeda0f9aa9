/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nccl plane, through the public API, on the stand-ins for the driver and for NCCL: what is in
 * the memory of a device comes out as a plain computation says, in the order of streams; also what
 * NCCL does not do, and where it is not there.
 */
#include "unit.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "coll/gpu/tensor.h"

#define COUNT_MAX 30000

/* ------------------------------------------------------------ every operation */

/* Of what follows: among whom, and which ranks of the job these are (NULL: all). */
static struct reigen_options of_test = REIGEN_OPTIONS_INIT;
static const int *members_of_test;

static int all_reductions(struct rank *rank, struct standin_stream *stream)
{
    static const size_t counts[] = { 1, 1000, COUNT_MAX, 0 };
    int bad = 0;

    for (int dtype = 0; dtype < REIGEN_NDTYPES && !bad; dtype++)
        for (int op = REIGEN_AVERAGE; op <= REIGEN_PRODUCT && !bad; op++) {
            /* NCCL multiplies by 1/3 before it adds, which is not exact. */
            bool inexact = dtype >= REIGEN_FLOAT16 && rank->n == 3;

            if (op == REIGEN_ADASUM ||
                (op == REIGEN_AVERAGE && (dtype == REIGEN_BOOL || inexact)))
                continue;
            for (int k = 0; k < 4 && !bad; k++)
                bad |= tensor_allreduce(rank, stream, of_test.process_set, dtype, op, counts[k],
                                        k % 2);
        }
    return bad;
}

static int allreduces(struct rank *rank)
{
    struct standin_stream *stream = tensor_stream(rank);
    int bad = check(reigen_init(NULL) == 0) || all_reductions(rank, stream);

    bad |= check(tensors_use_nccl() == !getenv("REIGEN_PLANES"));
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
    return tensor_value((int) r, row * gathered_of.width + i % gathered_of.width);
}

static int check_allgather(struct rank *rank, struct standin_stream *stream, int dtype,
                           const int64_t *rows, int64_t width)
{
    int64_t shape[2] = { rows[rank->me], width }, got[REIGEN_NDIM_MAX], all = 0;
    struct tensor in = tensor_make(stream, dtype, (size_t) (shape[0] * width), rank->me);
    const void *data = NULL;
    size_t nbytes = 0;
    reigen_handle handle;
    int ndim = 0, bad;

    for (int r = 0; r < rank->n; r++)
        all += rows[r];
    bad = check(reigen_allgather_async("g", in.at, dtype, shape, 2, &of_test, &handle) == 0);
    bad = bad || check(reigen_wait(handle, -1) == 0);
    bad = bad || check(reigen_output(handle, &data, &nbytes, got, &ndim) == 0);
    gathered_of = (struct gathered){ rows, (size_t) width };
    bad = bad || check(ndim == 2 && got[0] == all && got[1] == width) ||
          check(tensor_compare(stream, data, dtype, (size_t) (all * width), gathered, NULL) == 0);
    reigen_release(handle);
    tensor_drop(&in);
    return bad;
}

/* arg: root */
static double broadcasted(size_t i, const int *arg)
{
    return tensor_value(arg[0], i);
}

static int check_broadcast(struct rank *rank, struct standin_stream *stream, int dtype, int root)
{
    struct tensor in = tensor_make(stream, dtype, 777, rank->me);
    struct tensor out = tensor_make(stream, dtype, 777, 8);
    struct reigen_options options = of_test;
    int64_t shape[] = { 7, 111 };
    int bad;

    options.root = members_of_test ? members_of_test[root] : root;
    bad = check(reigen_broadcast("b", in.at, out.at, dtype, shape, 2, &options) == 0);
    bad = bad || check(tensor_compare(stream, out.at, dtype, 777, broadcasted, &root) == 0);
    tensor_drop(&in);
    tensor_drop(&out);
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
            return tensor_value(r, before + i);
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
    in = tensor_make(stream, dtype, (size_t) sent, rank->me);
    bad = check(reigen_alltoall_async("a", in.at, dtype, &sent, 1, splits, rank->n, &of_test,
                                      &handle) == 0);
    bad = bad || check(reigen_wait(handle, -1) == 0) ||
          check(reigen_received_splits(handle, received, RANKS_MAX) == 0) ||
          check(received[0] == rank->me + 1) ||
          check(reigen_output(handle, &data, &nbytes, got, &ndim) == 0 && got[0] == all) ||
          check(tensor_compare(stream, data, dtype, (size_t) all, exchanged, arg) == 0);
    reigen_release(handle);
    tensor_drop(&in);
    return bad;
}

/* Each rank's device has room for its tensor, and for little more. */
static int broadcast_most(struct rank *rank)
{
    struct standin_stream *stream = tensor_stream(rank);
    struct tensor t = tensor_make(stream, REIGEN_FLOAT32, 150000, rank->me);
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { 150000 };
    int bad = check(reigen_init(NULL) == 0);

    options.root = 1;
    bad = bad ||
          check(reigen_broadcast("b", t.at, t.at, REIGEN_FLOAT32, shape, 1, &options) == 0) ||
          check(tensor_compare(stream, t.at, REIGEN_FLOAT32, 150000, broadcasted,
                               &options.root) == 0);
    tensor_drop(&t);
    reigen_shutdown();
    return bad;
}

static void a_broadcast_takes_no_more_memory(void **state)
{
    (void) state;
    ranks_setenv("STANDIN_CUDA_MEMORY", "700000");
    assert_int_equal(ranks_run(2, ranks_port(), broadcast_most, NULL), 0);
    ranks_setenv("STANDIN_CUDA_MEMORY", NULL);
}

/* arg: reduction, ranks, dtype, first element of this rank's part */
static double part(size_t i, const int *arg)
{
    return tensor_reduced(i + (size_t) arg[3], arg);
}

static int check_reducescatter(struct rank *rank, struct standin_stream *stream, int dtype,
                               int64_t rows)
{
    int64_t shape[] = { rows, 5 }, got[REIGEN_NDIM_MAX], n = rank->n;
    int64_t mine = rows / n + (rank->me < rows % n);
    int64_t first = rows / n * rank->me + (rank->me < rows % n ? rank->me : rows % n);
    int arg[] = { REIGEN_SUM, rank->n, dtype, (int) first * 5 }, ndim, bad;
    struct tensor in = tensor_make(stream, dtype, (size_t) rows * 5, rank->me);
    const void *data;
    reigen_handle handle;
    size_t nbytes;

    bad = check(reigen_reducescatter_async("s", in.at, dtype, shape, 2, &of_test, &handle) == 0);
    bad = bad || check(reigen_wait(handle, -1) == 0) ||
          check(reigen_output(handle, &data, &nbytes, got, &ndim) == 0 && got[0] == mine) ||
          check(tensor_compare(stream, data, dtype, (size_t) mine * 5, part, arg) == 0);
    reigen_release(handle);
    tensor_drop(&in);
    return bad;
}

static int all_kinds(struct rank *rank, struct standin_stream *stream)
{
    static const int64_t unequal[] = { 3, 0, 40, 1 }, equal[] = { 6, 6, 6, 6 };
    int bad = 0;

    for (int dtype = 0; dtype < REIGEN_NDTYPES && !bad; dtype++) {
        bad |= check_allgather(rank, stream, dtype, unequal, 11);
        bad |= bad || check_allgather(rank, stream, dtype, equal, 3);
        for (int root = 0; root < rank->n && !bad; root++)
            bad |= check_broadcast(rank, stream, dtype, root);
        bad |= bad || check_alltoall(rank, stream, dtype);
        bad |= bad || check_reducescatter(rank, stream, dtype, 4 * rank->n) ||
               check_reducescatter(rank, stream, dtype, 4 * rank->n + 1);
    }
    return bad;
}

static int other_kinds(struct rank *rank)
{
    struct standin_stream *stream = tensor_stream(rank);
    int bad = check(reigen_init(NULL) == 0) || all_kinds(rank, stream);

    reigen_shutdown();
    return bad;
}

/* The same in sets that overlap: ranks are numbered by their places there. */
static int kinds_in_sets(struct rank *rank)
{
    static const int members[2][3] = { { 0, 2 }, { 1, 2, 3 } }, sizes[2] = { 2, 3 };
    struct standin_stream *stream = tensor_stream(rank);
    int sets[2], bad = check(reigen_init(NULL) == 0);

    for (int s = 0; s < 2; s++)
        bad = bad || check(reigen_process_set_add(members[s], sizes[s], &sets[s]) == 0);
    for (int s = 0; s < 2; s++)
        for (int m = 0; m < sizes[s] && !bad; m++) {
            struct rank inside = { .me = m, .n = sizes[s] };

            if (members[s][m] != rank->me)
                continue;
            of_test.process_set = sets[s];
            members_of_test = members[s];
            bad = all_reductions(&inside, stream) || all_kinds(&inside, stream);
        }
    reigen_shutdown();
    return bad;
}

static void every_kind_works_in_process_sets(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(4, ranks_port(), kinds_in_sets, NULL), 0);
    ranks_setenv("REIGEN_PLANES", "shm,tcp");
    ranks_setenv("TEST_ONE_DEVICE", "1");
    assert_int_equal(ranks_run(4, ranks_port(), kinds_in_sets, NULL), 0);
    ranks_setenv("TEST_ONE_DEVICE", NULL);
    ranks_setenv("REIGEN_PLANES", NULL);
}

static void every_kind_moves_every_type(void **state)
{
    (void) state;
    for (int n = 1; n <= 4; n++)
        assert_int_equal(ranks_run(n, ranks_port(), other_kinds, NULL), 0);
}

/* arg: as tensor_reduced, then the factor in quarters */
static double scaled(size_t i, const int *arg)
{
    return tensor_reduced(i, arg) * arg[3] / 4;
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
        tensors[i] = tensor_make(stream, dtype, (size_t) (100 * i), rank->me);
        ins[i] = outs[i] = tensors[i].at;
        shape[i] = 100 * i;
        shapes[i] = &shape[i];
        ndims[i] = 1;
    }
    bad = check(reigen_grouped_async(REIGEN_ALLREDUCE, MEMBERS, names, ins, outs, dtype, shapes,
                                     ndims, &options, handles) == 0);
    bad = bad || check(reigen_wait_all(MEMBERS, handles, -1) == 0);
    for (int i = 0; i < MEMBERS && !bad; i++)
        bad |= check(tensor_compare(stream, outs[i], dtype, (size_t) shape[i], scaled, arg) == 0);
    reigen_release_all(MEMBERS, handles);
    for (int i = 0; i < MEMBERS; i++)
        tensor_drop(&tensors[i]);
    return bad;
}

static int groups_and_sets(struct rank *rank)
{
    struct standin_stream *stream = tensor_stream(rank);
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
    struct standin_stream *stream = tensor_stream(rank);
    struct tensor tensors[N];
    reigen_handle handles[N];
    int64_t shape = 500;
    int arg[] = { REIGEN_SUM, rank->n, REIGEN_FLOAT32 }, bad = check(reigen_init(NULL) == 0);

    for (int i = 0; i < N && !bad; i++) {
        char name[16];

        snprintf(name, sizeof(name), "grad%d", rank->me ? N - 1 - i : i);
        tensors[i] = tensor_make(stream, REIGEN_FLOAT32, 500, rank->me);
        bad |= check(reigen_allreduce_async(name, tensors[i].at, tensors[i].at, REIGEN_FLOAT32,
                                            &shape, 1, NULL, &handles[i]) == 0);
    }
    for (int i = 0; i < N && !bad; i++) {
        bad |= check(reigen_wait(handles[i], -1) == 0);
        bad = bad || check(tensor_compare(stream, tensors[i].at, REIGEN_FLOAT32, 500,
                                          tensor_reduced, arg) == 0);
        reigen_release(handles[i]);
        tensor_drop(&tensors[i]);
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
        sum += tensor_value(r, i);
    return sum;
}

/* The last rank has none of its own: it takes part by zeros on a stream of the plane's. Perhaps it
 * has never spoken of a device. */
static int joins(struct rank *rank)
{
    bool bare = getenv("TEST_BARE") && rank->me == rank->n - 1;
    struct standin_stream *stream = bare ? NULL : tensor_stream(rank);
    int64_t shape = 300;
    int arg[] = { rank->n - 1 }, bad = check(reigen_init(NULL) == 0);
    reigen_handle joined;

    for (int i = 0; i < 5 && !bad && rank->me < rank->n - 1; i++) {
        struct tensor t = tensor_make(stream, REIGEN_FLOAT32, 300, rank->me);

        bad |= check(reigen_allreduce("j", t.at, t.at, REIGEN_FLOAT32, &shape, 1, NULL) == 0);
        bad = bad || check(tensor_compare(stream, t.at, REIGEN_FLOAT32, 300, without, arg) == 0);
        tensor_drop(&t);
    }
    bad = bad || check(reigen_join_async(&joined) == 0) || check(reigen_wait(joined, -1) >= 1);
    reigen_shutdown();
    return bad;
}

static void who_has_joined_supplies_zeros(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), joins, NULL), 0);
    ranks_setenv("TEST_BARE", "1");
    assert_int_equal(ranks_run(3, ranks_port(), joins, NULL), 0);
    ranks_setenv("REIGEN_PLANES", "shm,tcp");
    assert_int_equal(ranks_run(3, ranks_port(), joins, NULL), 0);
    ranks_setenv("REIGEN_PLANES", NULL);
    ranks_setenv("TEST_BARE", NULL);
}

/* The same tensors in the host's memory and on the device: the results have the same bits. */
static int check_adasum(struct rank *rank, struct standin_stream *stream, int dtype, size_t count)
{
    enum { N = 3 };
    struct reigen_options options = { REIGEN_ADASUM, 0, 0.5, 2.0, 0, 0 };
    size_t each = (size_t) tensor_esizes[dtype];
    const char *names[2][N] = { { "h0", "h1", "h2" }, { "d0", "d1", "d2" } };
    void *tensors[2][N];
    char *seen = malloc((count + N) * each);
    int64_t shape[N];
    const int64_t *shapes[N];
    int ndims[N] = { 1, 1, 1 }, bad = 0;
    reigen_handle handles[N];

    for (int i = 0; i < N; i++) {
        shape[i] = i ? (int64_t) count + i : 1;
        shapes[i] = &shape[i];
        tensors[0][i] = malloc((size_t) shape[i] * each);
        for (size_t k = 0; k < (size_t) shape[i]; k++)
            tensor_put(tensors[0][i], dtype, k, tensor_value(rank->me + i, k));
        tensors[1][i] = device_alloc((size_t) shape[i] * each);
        device_write(stream, tensors[1][i], tensors[0][i], (size_t) shape[i] * each);
    }
    for (int k = 0; k < 2 && !bad; k++) {
        const void *const *ins = (const void *const *) tensors[k];

        bad |= check(reigen_grouped_async(REIGEN_ALLREDUCE, N, names[k], ins, tensors[k], dtype,
                                          shapes, ndims, &options, handles) == 0);
        bad = bad || check(reigen_wait_all(N, handles, -1) == 0);
        reigen_release_all(N, handles);
    }
    for (int i = 0; i < N; i++) {
        device_read(stream, seen, tensors[1][i], (size_t) shape[i] * each);
        bad = bad || check(cuStreamSynchronize(stream) == 0) ||
              check(memcmp(seen, tensors[0][i], (size_t) shape[i] * each) == 0);
        device_free(tensors[1][i]);
        free(tensors[0][i]);
    }
    free(seen);
    return bad;
}

static int adasums(struct rank *rank)
{
    static const int dtypes[] = { REIGEN_FLOAT16, REIGEN_BFLOAT16, REIGEN_FLOAT32, REIGEN_FLOAT64 };
    struct standin_stream *stream = tensor_stream(rank);
    int bad = check(reigen_init(NULL) == 0);

    for (int i = 0; i < 4 && !bad; i++)
        bad = check_adasum(rank, stream, dtypes[i], 200) ||
              check_adasum(rank, stream, dtypes[i], 50000);
    reigen_shutdown();
    return bad;
}

static void adasum_is_that_of_the_host(void **state)
{
    (void) state;
    for (int n = 1; n <= 4; n++)
        assert_int_equal(ranks_run(n, ranks_port(), adasums, NULL), 0);
}

/* More than a piece of what is staged, in several tensors, and a few bytes more. */
static int pieces(struct rank *rank)
{
    enum { N = 3 };
    static const size_t counts[N] = { 700001, 1, 2500000 };
    struct standin_stream *stream = tensor_stream(rank);
    struct tensor tensors[N];
    const void *ins[N];
    void *outs[N];
    int64_t shape[N];
    const int64_t *shapes[N];
    int ndims[N] = { 1, 1, 1 }, arg[] = { REIGEN_SUM, rank->n, REIGEN_FLOAT32 };
    reigen_handle handles[N];
    int bad = check(reigen_init(NULL) == 0);

    for (int i = 0; i < N; i++) {
        tensors[i] = tensor_make(stream, REIGEN_FLOAT32, counts[i], rank->me);
        ins[i] = outs[i] = tensors[i].at;
        shape[i] = (int64_t) counts[i];
        shapes[i] = &shape[i];
    }
    bad = bad || check(reigen_grouped_async(REIGEN_ALLREDUCE, N, NULL, ins, outs, REIGEN_FLOAT32,
                                            shapes, ndims, NULL, handles) == 0);
    bad = bad || check(reigen_wait_all(N, handles, -1) == 0);
    for (int i = 0; i < N && !bad; i++)
        bad |= check(tensor_compare(stream, outs[i], REIGEN_FLOAT32, counts[i],
                                    tensor_reduced, arg) == 0);
    reigen_shutdown();
    return bad;
}

/* Whether rank 0 lets rank 1's stream go on; between the ranks. */
static _Atomic bool *may_go;

static void stand(void *arg)
{
    (void) arg;
    unit_until(atomic_load(may_go), "rank 0");
}

/* Rank 1's stream stands, so rank 0's first piece waits for it among the planes for the host: the
 * pieces after it are copied meanwhile. When it has come, copies go both ways at once. */
static int overlapped(struct rank *rank)
{
    enum { COUNT = 6 << 20 }; /* six pieces */
    struct standin_stream *stream = tensor_stream(rank);
    struct tensor t = tensor_make(stream, REIGEN_FLOAT32, COUNT, rank->me);
    int64_t shape = COUNT;
    int arg[] = { REIGEN_SUM, rank->n, REIGEN_FLOAT32 }, bad = check(reigen_init(NULL) == 0);
    reigen_handle handle;

    cuStreamSynchronize(stream);
    bad |= check(reigen_barrier() == 0);
    if (rank->me == 1)
        bad |= check(standin_put(stream, stand, NULL) == 0);
    bad |= check(reigen_allreduce_async("o", t.at, t.at, REIGEN_FLOAT32, &shape, 1, NULL,
                                        &handle) == 0);
    if (rank->me == 0) {
        bad |= check(unit_until(standin_copies(STANDIN_COPIES_FROM) == 3, "copies"));
        bad |= check(standin_copies(STANDIN_COPIES_TO) == 0);
        atomic_store(may_go, true);
    }
    bad |= check(reigen_wait(handle, -1) == 0);
    bad = bad || check(tensor_compare(stream, t.at, REIGEN_FLOAT32, COUNT, tensor_reduced,
                                      arg) == 0);
    bad |= check(standin_copies(STANDIN_COPIES_TO) == 6);
#ifndef __SANITIZE_THREAD__ /* it makes the planes slower than the copies are */
    bad |= check(standin_copies(STANDIN_COPIES_BESIDE) > 0);
#endif
    reigen_release(handle);
    tensor_drop(&t);
    reigen_shutdown();
    return bad;
}

static void copies_both_ways_and_the_planes_work_at_the_same_time(void **state)
{
    (void) state;
    may_go = mmap(NULL, sizeof(*may_go), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(may_go != MAP_FAILED);
    ranks_setenv("REIGEN_PLANES", "shm,tcp");
    ranks_setenv("STANDIN_COPY_US", "200000"); /* longer than the planes are at a piece */
    assert_int_equal(ranks_run(2, ranks_port(), overlapped, NULL), 0);
    munmap((void *) may_go, sizeof(*may_go));
    ranks_setenv("STANDIN_COPY_US", NULL);
    ranks_setenv("REIGEN_PLANES", NULL);
}

/* Rank 0's stream stands once all is submitted: what waits for a name has marked where the stream
 * was at its submission, and goes on when its turn comes. */
static int in_line(struct rank *rank)
{
    enum { DEEP = 3 };
    static _Atomic bool goes;
    struct standin_stream *stream = tensor_stream(rank), *other = NULL;
    struct tensor tensors[DEEP];
    reigen_handle handles[DEEP];
    void *unused;
    int64_t shape = 500;
    int arg[] = { REIGEN_SUM, rank->n, REIGEN_FLOAT32 }, bad = check(reigen_init(NULL) == 0);

    if (rank->me != 0)
        bad |= check(reigen_barrier() == 0);
    for (int i = 0; i < DEEP; i++) {
        tensors[i] = tensor_make(stream, REIGEN_FLOAT32, 500, rank->me);
        bad |= check(reigen_allreduce_async("n", tensors[i].at, tensors[i].at, REIGEN_FLOAT32,
                                            &shape, 1, NULL, &handles[i]) == 0);
        bad |= check(reigen_wait_all(0, NULL, -1) == 0);
    }
    may_go = &goes;
    if (rank->me == 0) {
        bad |= check(standin_put(stream, stand, NULL) == 0);
        bad |= check(reigen_barrier() == 0);
    }
    bad |= check(cuStreamCreate(&other, 1) == 0);
    bad |= check(reigen_use_device(reigen_used_device(&unused), other) == 0);
    for (int i = DEEP - 1; i >= 0 && !bad; i--) {
        bad |= check(reigen_wait(handles[i], -1) == 0);
        bad = bad || check(tensor_compare(other, tensors[i].at, REIGEN_FLOAT32, 500,
                                          tensor_reduced, arg) == 0);
    }
    bad |= check(rank->me != 0 || cuStreamQuery(stream) != 0);
    atomic_store(&goes, true);
    cuStreamSynchronize(stream);
    for (int i = 0; i < DEEP; i++) {
        reigen_release(handles[i]);
        tensor_drop(&tensors[i]);
    }
    reigen_shutdown();
    return bad;
}

static void a_name_in_use_is_stood_in_line_for(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(2, ranks_port(), in_line, NULL), 0);
    ranks_setenv("REIGEN_PLANES", "shm,tcp");
    assert_int_equal(ranks_run(2, ranks_port(), in_line, NULL), 0);
    ranks_setenv("REIGEN_PLANES", NULL);
}

static void without_nccl_everything_goes_through_the_host(void **state)
{
    (void) state;
    ranks_setenv("REIGEN_PLANES", "shm,tcp");
    ranks_setenv("TEST_ONE_DEVICE", "1");
    for (int n = 1; n <= 4; n *= 2) {
        assert_int_equal(ranks_run(n, ranks_port(), allreduces, NULL), 0);
        assert_int_equal(ranks_run(n, ranks_port(), other_kinds, NULL), 0);
    }
    assert_int_equal(ranks_run(3, ranks_port(), groups_and_sets, NULL), 0);
    assert_int_equal(ranks_run(2, ranks_port(), overlaps, NULL), 0);
    assert_int_equal(ranks_run(3, ranks_port(), joins, NULL), 0);
    assert_int_equal(ranks_run(2, ranks_port(), pieces, NULL), 0);
    ranks_setenv("REIGEN_PLANES", "tcp");
    assert_int_equal(ranks_run(2, ranks_port(), other_kinds, NULL), 0);
    assert_int_equal(ranks_run(3, ranks_port(), pieces, NULL), 0);
    ranks_setenv("TEST_ONE_DEVICE", NULL);
    ranks_setenv("REIGEN_PLANES", NULL);
}

/* ------------------------------------------------------------ on the host nothing changes */

static int host_only(struct rank *rank)
{
    float data[100] = { 1.0f };
    int64_t shape = 100;
    char *planes;
    int bad = check(reigen_init(NULL) == 0);

    bad |= check(reigen_allreduce("x", data, data, REIGEN_FLOAT32, &shape, 1, NULL) == 0);
    bad |= check(data[0] == (float) rank->n);
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
        cmocka_unit_test(every_kind_works_in_process_sets),
        cmocka_unit_test(a_broadcast_takes_no_more_memory),
        cmocka_unit_test(groups_factors_and_process_sets_work),
        cmocka_unit_test(many_at_once_keep_the_order_of_streams),
        cmocka_unit_test(who_has_joined_supplies_zeros),
        cmocka_unit_test(adasum_is_that_of_the_host),
        cmocka_unit_test(copies_both_ways_and_the_planes_work_at_the_same_time),
        cmocka_unit_test(a_name_in_use_is_stood_in_line_for),
        cmocka_unit_test(without_nccl_everything_goes_through_the_host),
        cmocka_unit_test(without_a_device_nothing_is_heard_of_it),
        cmocka_unit_test(several_hosts_use_it_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
