/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives of the public API, by ranks that are processes of one job, each result against
 * one computed here. */
#include "coll/api/api_check.h"

#include <math.h>

enum { ELEMENTS_MAX = 300000 };

/* ThreadSanitizer looks at each byte that the planes touch. There one type and operation has all
 * sizes; of the others no tensor is larger than what is just cut into chunks. */
static size_t count_max(int dtype, int op)
{
#ifdef __SANITIZE_THREAD__
    enum { CUT_NBYTES = 80000 };

    if (dtype != REIGEN_FLOAT32 || op != REIGEN_SUM)
        return CUT_NBYTES / rg_dtype_nbytes(dtype);
#else
    (void) dtype;
    (void) op;
#endif
    return ELEMENTS_MAX;
}

/* ---- elements of any type, as doubles */

static void put(void *data, int dtype, size_t i, double v)
{
    float f = (float) v;
    uint32_t bits;
    _Float16 half = (_Float16) v;

    memcpy(&bits, &f, sizeof(bits));
    switch (dtype) {
    case REIGEN_UINT8:
    case REIGEN_INT8: ((int8_t *) data)[i] = (int8_t) v; break;
    case REIGEN_BOOL: ((uint8_t *) data)[i] = v != 0; break;
    case REIGEN_UINT16:
    case REIGEN_INT16: ((int16_t *) data)[i] = (int16_t) v; break;
    case REIGEN_INT32: ((int32_t *) data)[i] = (int32_t) v; break;
    case REIGEN_INT64: ((int64_t *) data)[i] = (int64_t) v; break;
    case REIGEN_FLOAT16: memcpy((char *) data + 2 * i, &half, 2); break;
    case REIGEN_BFLOAT16: ((uint16_t *) data)[i] = (uint16_t) (bits >> 16); break;
    case REIGEN_FLOAT32: ((float *) data)[i] = f; break;
    default: ((double *) data)[i] = v;
    }
}

static double value(int op, int rank, size_t i)
{
    if (op == REIGEN_PRODUCT)
        return 1 + (double) ((i + (size_t) rank) % 2);
    return (double) ((i * 7 + (size_t) rank * 3) % 11);
}

static double expected(int op, int dtype, int n, size_t i)
{
    double acc = value(op, 0, i);

    for (int r = 1; r < n; r++) {
        double v = value(op, r, i);

        if (op == REIGEN_MIN)
            acc = v < acc ? v : acc;
        else if (op == REIGEN_MAX)
            acc = v > acc ? v : acc;
        else
            acc = op == REIGEN_PRODUCT ? acc * v : acc + v;
    }
    if (dtype != REIGEN_BOOL)
        return acc;
    acc = op == REIGEN_MIN || op == REIGEN_PRODUCT;
    for (int r = 0; r < n; r++) {
        bool v = value(op, r, i) != 0;

        acc = op == REIGEN_MIN || op == REIGEN_PRODUCT ? acc && v : acc || v;
    }
    return acc;
}

/* ---- allreduce */

/* The values repeat: 11 for sums, minima and maxima, 2 for products. */
enum { PERIOD = 22 };

/* count elements, of which each PERIOD are those of once; a sanitizer looks at no single one. */
static void *repeated(const void *once, int dtype, size_t count)
{
    size_t nbytes = count * rg_dtype_nbytes(dtype), period = PERIOD * rg_dtype_nbytes(dtype);
    char *data = buffer(count);

    for (size_t at = 0; at < nbytes; at += period)
        memcpy(data + at, once, nbytes - at < period ? nbytes - at : period);
    return data;
}

static void allreduce_once(int dtype, int op, size_t count, bool in_place)
{
    struct reigen_options o = REIGEN_OPTIONS_INIT;
    double mine[PERIOD], sum[PERIOD];
    int64_t shape[] = { (int64_t) count };
    char name[64];

    for (size_t i = 0; i < PERIOD; i++) {
        put(mine, dtype, i, value(op, reigen_rank(), i));
        put(sum, dtype, i, expected(op, dtype, reigen_size(), i));
    }
    void *in = repeated(mine, dtype, count), *all = repeated(sum, dtype, count);
    void *out = in_place ? in : buffer(count);
    o.op = op;
    snprintf(name, sizeof(name), "all.%d.%d.%d", dtype, op, in_place);
    check(reigen_allreduce(name, in, out, dtype, shape, 1, &o) == 0);
    check(memcmp(out, all, count * rg_dtype_nbytes(dtype)) == 0);
    if (!in_place)
        free(out);
    free(all);
    free(in);
}

/* Under one name the size changes each time: one-shot, streamed, and back. */
static int reduce_everything(struct rank *rank)
{
    static const size_t counts[] = { 0, 1, 5, 1000, 70000, 3, 33333, 2, ELEMENTS_MAX };
    static const int ops[] = { REIGEN_SUM, REIGEN_MIN, REIGEN_MAX, REIGEN_PRODUCT };

    (void) rank;
    check(reigen_init(NULL) == 0);
    for (int dtype = 0; dtype < REIGEN_NDTYPES; dtype++) {
        for (size_t o = 0; o < rg_array_len(ops); o++) {
            size_t most = count_max(dtype, ops[o]);

            for (size_t c = 0; c < rg_array_len(counts); c++)
                allreduce_once(dtype, ops[o], counts[c] > most ? most : counts[c], c % 2);
        }
    }
    reigen_shutdown();
    return bad;
}

static void allreduce_reduces_all_types_operations_and_sizes(void **state)
{
    (void) state;
    for (int n = 1; n <= 5; n += 2)
        assert_int_equal(ranks_run(n, ranks_port(), reduce_everything, NULL), 0);
}

static int scale_and_average(struct rank *rank)
{
    int n = rank->n, me = rank->me;
    struct reigen_options o = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { 2 };

    check(reigen_init(NULL) == 0);
    o.op = REIGEN_AVERAGE;
    int32_t ints[] = { -1 - me, 7 }, sum = 0;
    for (int r = 0; r < n; r++)
        sum += -1 - r;
    check(reigen_allreduce("i", ints, ints, REIGEN_INT32, shape, 1, &o) == 0);
    check(ints[0] == (int) trunc((double) sum / n) && ints[1] == 7);
    /* The factor and the average are one division, truncated once: 7 n / n, not 3 n. */
    int32_t odd[] = { 7, -7 };
    o.postscale = 2.5;
    check(reigen_allreduce("o", odd, odd, REIGEN_INT32, shape, 1, &o) == 0);
    check(odd[0] == 17 && odd[1] == -17);
    o.prescale = 0.5;
    o.postscale = 4;
    double d[] = { me, 1 };
    check(reigen_allreduce("d", d, d, REIGEN_FLOAT64, shape, 1, &o) == 0);
    check(fabs(d[0] - (n - 1)) < 1e-12 && fabs(d[1] - 2) < 1e-12);
    uint8_t flags[2] = { 1, 0 };
    check(reigen_allreduce("b", flags, flags, REIGEN_BOOL, shape, 1, &o) == -EINVAL);
    reigen_shutdown();
    return bad;
}

static void averages_and_factors_are_applied(void **state)
{
    (void) state;
    for (int n = 1; n <= 4; n++)
        assert_int_equal(ranks_run(n, ranks_port(), scale_and_average, NULL), 0);
}

/* ---- the other kinds */

static void gather(int me, int n, int64_t unit)
{
    int64_t rows = me == 1 ? 0 : (me + 1) * unit, shape[] = { rows, 3 }, got[REIGEN_NDIM_MAX];
    int32_t *in = buffer((size_t) rows * 3);
    const int32_t *out = NULL;
    const void *data = NULL;
    size_t nbytes = 0, at = 0, wrong = 0;
    int ndim = 0;
    void *copied;
    reigen_handle h = 0;

    for (int64_t i = 0; i < rows * 3; i++)
        in[i] = (int32_t) (me * 100000 + i);
    check(reigen_allgather_async("g", in, REIGEN_INT32, shape, 2, NULL, &h) == 0);
    check(reigen_wait(h, -1) == 0);
    check(reigen_output(h, &data, &nbytes, got, &ndim) == 0);
    out = data;
    for (int r = 0; r < n; r++) {
        for (int64_t i = 0; i < (r == 1 ? 0 : (r + 1) * unit * 3); i++)
            wrong += out[at++] != (int32_t) (r * 100000 + i);
    }
    check(wrong == 0 && nbytes == at * 4 && ndim == 2 && got[0] == (int64_t) at / 3 && got[1] == 3);
    copied = malloc(nbytes + 1);
    check(copied && reigen_output_copy(h, copied, nbytes) == 0 && !memcmp(copied, data, nbytes));
    check(reigen_output_copy(h, copied, nbytes + 1) == -EINVAL);
    reigen_release(h);
    check(reigen_output_copy(h, copied, nbytes) == -EINVAL);
    free(copied);
    free(in);
}

static void spread(int me, int root, size_t count, const char *name)
{
    struct reigen_options o = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { (int64_t) count };
    int64_t *data = buffer(count);
    size_t wrong = 0;

    o.root = root;
    for (size_t i = 0; i < count; i++)
        data[i] = me == root ? (int64_t) i * 5 : -1;
    check(reigen_broadcast(name, data, data, REIGEN_INT64, shape, 1, &o) == 0);
    for (size_t i = 0; i < count; i++)
        wrong += data[i] != (int64_t) i * 5;
    check(wrong == 0);
    free(data);
}

static void exchange(int me, int n, int unit)
{
    int32_t splits[RANKS_MAX], received[RANKS_MAX];
    int64_t rows = 0, shape[REIGEN_NDIM_MAX], at = 0;
    int32_t *in;
    const int32_t *out;
    const void *data = NULL;
    size_t nbytes = 0, wrong = 0;
    int ndim = 0;
    reigen_handle h = 0;

    for (int r = 0; r < n; r++)
        rows += splits[r] = (me * 2 + r) % 3 * unit;
    in = buffer((size_t) rows);
    for (int r = 0; r < n; r++) {
        for (int k = 0; k < splits[r]; k++)
            in[at++] = me * 1000000 + r * 10000 + k;
    }
    shape[0] = rows;
    check(reigen_alltoall_async("x", in, REIGEN_INT32, shape, 1, splits, n, NULL, &h) == 0);
    check(reigen_wait(h, -1) == 0);
    check(reigen_output(h, &data, &nbytes, shape, &ndim) == 0);
    check(reigen_received_splits(h, received, n) == 0);
    out = data;
    at = 0;
    for (int r = 0; r < n; r++) {
        check(received[r] == (r * 2 + me) % 3 * unit);
        for (int k = 0; k < received[r]; k++)
            wrong += out[at++] != r * 1000000 + me * 10000 + k;
    }
    check(wrong == 0 && shape[0] == at);
    reigen_release(h);
    free(in);
}

static void scatter(int me, int n, int64_t rows)
{
    struct reigen_options o = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { rows, 2 }, got[REIGEN_NDIM_MAX], first = 0;
    double *in = buffer((size_t) rows * 2);
    const double *out;
    const void *data = NULL;
    size_t nbytes = 0, wrong = 0;
    int ndim = 0;
    reigen_handle h = 0;

    o.op = REIGEN_AVERAGE;
    for (int64_t i = 0; i < rows * 2; i++)
        in[i] = (double) (i + me);
    check(reigen_reducescatter_async("s", in, REIGEN_FLOAT64, shape, 2, &o, &h) == 0);
    check(reigen_wait(h, -1) == 0);
    check(reigen_output(h, &data, &nbytes, got, &ndim) == 0);
    out = data;
    for (int r = 0; r < me; r++)
        first += rows / n + (r < rows % n);
    check(got[0] == rows / n + (me < rows % n));
    for (int64_t i = 0; i < got[0] * 2; i++)
        wrong += fabs(out[i] - ((double) (first * 2 + i) + (n - 1) / 2.0)) > 1e-9;
    check(wrong == 0);
    reigen_release(h);
    free(in);
}

static int other_kinds(struct rank *rank)
{
    check(reigen_init(NULL) == 0);
    for (int round = 0; round < 3; round++) {
        gather(rank->me, rank->n, 1);
        gather(rank->me, rank->n, 20000);
        gather(rank->me, rank->n, 0);
        for (int root = 0; root < rank->n; root++) {
            spread(rank->me, root, 10, "small");
            spread(rank->me, root, 100000, "large");
        }
        exchange(rank->me, rank->n, 1);
        exchange(rank->me, rank->n, 5000);
        exchange(rank->me, rank->n, 0);
        scatter(rank->me, rank->n, 7);
        scatter(rank->me, rank->n, 50001);
        scatter(rank->me, rank->n, 0);
        check(reigen_barrier() == 0);
    }
    reigen_shutdown();
    return bad;
}

static void the_other_collectives_move_what_they_should(void **state)
{
    (void) state;
    for (int n = 1; n <= 5; n += 2)
        assert_int_equal(ranks_run(n, ranks_port(), other_kinds, NULL), 0);
}

/* ---- groups */

enum { GROUP = 40 };

static void reduce_group(int me, int n, int64_t count, bool named)
{
    static char texts[GROUP][32];
    const char *names[GROUP];
    float *data[GROUP];
    const void *ins[GROUP];
    void *outs[GROUP];
    const int64_t *shapes[GROUP];
    int64_t shape[GROUP][1];
    int ndims[GROUP];
    reigen_handle h[GROUP];
    size_t wrong = 0;

    for (int i = 0; i < GROUP; i++) {
        snprintf(texts[i], sizeof(texts[i]), "m%d.%lld", i, (long long) count);
        names[i] = texts[i];
        shape[i][0] = count + i;
        shapes[i] = shape[i];
        ndims[i] = 1;
        data[i] = buffer((size_t) shape[i][0]);
        for (int64_t k = 0; k < shape[i][0]; k++)
            data[i][k] = (float) (me + i);
        ins[i] = outs[i] = data[i];
    }
    check(reigen_grouped_async(REIGEN_ALLREDUCE, GROUP, named ? names : NULL, ins, outs,
                               REIGEN_FLOAT32, shapes, ndims, NULL, h) == 0);
    for (int i = 0; i < GROUP; i++) {
        check(wait_release(h[i]) == 0);
        for (int64_t k = 0; k < shape[i][0]; k++)
            wrong += data[i][k] != (float) (n * i + n * (n - 1) / 2);
        free(data[i]);
    }
    check(wrong == 0);
}

static int groups(struct rank *rank)
{
    check(reigen_init(NULL) == 0);
    for (int round = 0; round < 3; round++) {
        for (int named = 0; named < 2; named++) {
            reduce_group(rank->me, rank->n, 4, named);
            reduce_group(rank->me, rank->n, 3000, named);
            reduce_group(rank->me, rank->n, 30000, named);
        }
    }
    int64_t one[] = { rank->me + 1 }, two[] = { 2 };
    const int64_t *shapes[] = { one, two };
    int32_t a[RANKS_MAX] = { 0 }, b[2] = { 1, 2 };
    const void *ins[] = { a, b }, *data = NULL;
    int ndims[] = { 1, 1 }, ndim = 0;
    int64_t got[REIGEN_NDIM_MAX];
    size_t nbytes = 0;
    reigen_handle h[2];

    check(reigen_grouped_async(REIGEN_ALLGATHER, 2, NULL, ins, NULL, REIGEN_INT32, shapes, ndims,
                               NULL, h) == 0);
    check(reigen_wait(h[0], -1) == 0 && reigen_wait(h[1], -1) == 0);
    check(reigen_output(h[1], &data, &nbytes, got, &ndim) == 0 && got[0] == 2 * rank->n);
    check(reigen_output(h[0], &data, &nbytes, got, &ndim) == 0 &&
          got[0] == rank->n * (rank->n + 1) / 2);
    reigen_release(h[0]);
    reigen_release(h[1]);
    reigen_shutdown();
    return bad;
}

static void groups_are_reduced_whatever_their_size(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), groups, NULL), 0);
}

/* ---- mismatches */

static void differ(int me, size_t base)
{
    int odd = me == 1;
    struct reigen_options o = REIGEN_OPTIONS_INIT;
    double *x = buffer(base + 8);
    int64_t count[] = { (int64_t) base }, more[] = { (int64_t) base + odd };
    int64_t matrix[] = { 1, (int64_t) base };
    reigen_handle h = 0;

    expect_mismatch(reigen_allreduce_async("t", x, x, odd ? REIGEN_INT32 : REIGEN_FLOAT32, count, 1,
                                           NULL, &h), &h, "rank 1: int32");
    expect_mismatch(reigen_allreduce_async("t", x, x, odd ? REIGEN_INT32 : REIGEN_FLOAT32, count, 1,
                                           NULL, &h), &h, "Mismatched data types");
    expect_mismatch(reigen_allreduce_async("s", x, x, REIGEN_FLOAT32, more, 1, NULL, &h), &h,
                    "Mismatched ALLREDUCE tensor shapes");
    expect_mismatch(reigen_allreduce_async("d", x, x, REIGEN_FLOAT32, odd ? matrix : count,
                                           odd ? 2 : 1, NULL, &h), &h,
                    "Mismatched ALLREDUCE tensor shapes");
    o.op = odd ? REIGEN_MAX : REIGEN_MIN;
    expect_mismatch(reigen_allreduce_async("o", x, x, REIGEN_FLOAT32, count, 1, &o, &h), &h,
                    "Mismatched reduction operation");
    o = (struct reigen_options) REIGEN_OPTIONS_INIT;
    o.prescale = odd ? 2 : 1;
    expect_mismatch(reigen_allreduce_async("f", x, x, REIGEN_FLOAT32, count, 1, &o, &h), &h,
                    "Mismatched prescale and/or postscale factors");
    o = (struct reigen_options) REIGEN_OPTIONS_INIT;
    o.root = odd;
    expect_mismatch(reigen_broadcast_async("r", x, x, REIGEN_FLOAT32, count, 1, &o, &h), &h,
                    "root ranks");
    int64_t rows[] = { 2, 3 + odd };
    expect_mismatch(reigen_allgather_async("g", x, REIGEN_FLOAT32, rows, 2, NULL, &h), &h,
                    "Mismatched ALLGATHER tensor shapes");
    float y = 1;
    int64_t single[] = { 1 };
    check(reigen_allreduce("after", &y, &y, REIGEN_FLOAT32, single, 1, NULL) == 0);
    check(y == (float) reigen_size());
    /* The same name is fine again, too. */
    check(reigen_allreduce("t", x, x, REIGEN_FLOAT32, count, 1, NULL) == 0);
    free(x);
}

static int mismatches(struct rank *rank)
{
    check(reigen_init(NULL) == 0);
    for (int round = 0; round < 4; round++) {
        differ(rank->me, 5);
        differ(rank->me, 100000);
    }
    int64_t four[] = { 4 }, five[] = { 5 };
    const int64_t *shapes[] = { four, four, rank->me == 2 ? five : four };
    float x[3][8] = { { 0 } };
    const void *ins[] = { x[0], x[1], x[2] };
    void *outs[] = { x[0], x[1], x[2] };
    int ndims[] = { 1, 1, 1 };
    const char *names[] = { "ga", "gb", "gc" };
    reigen_handle h[3];

    check(reigen_grouped_async(REIGEN_ALLREDUCE, 3, names, ins, outs, REIGEN_FLOAT32, shapes, ndims,
                               NULL, h) == 0);
    expect_mismatch(0, &h[0],
                    getenv("REIGEN_PLANES") ? "a group of 1" : "allreduce.gc: Mismatched");
    expect_mismatch(0, &h[2], "rank 2: ");
    reigen_release(h[1]);
    reigen_shutdown();
    return bad;
}

static void mismatches_are_told_to_all_ranks_and_the_job_goes_on(void **state)
{
    (void) state;
    for (int n = 2; n <= 4; n++) {
        if (n > 2)
            assert_int_equal(ranks_run(n, ranks_port(), mismatches, NULL), 0);
    }
}

/* ---- types of the caller's own */

static int type_of(const char *name, size_t nbytes, int parts)
{
    int dtype = 0;

    check(reigen_type_add(name, nbytes, parts, &dtype) == 0 && dtype >= REIGEN_TYPE_ADDED);
    return dtype;
}

/* Elements of five bytes, in each way that moves them. */
static void move(int dtype, size_t rows)
{
    size_t me = (size_t) reigen_rank(), n = (size_t) reigen_size(), nbytes = rows * n * 5;
    struct reigen_options o = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { (int64_t) rows * (int64_t) n, 1 }, got[REIGEN_NDIM_MAX];
    char *in = malloc(nbytes), *out = malloc(nbytes * n);
    reigen_handle h = 0;
    const void *at = NULL;
    size_t found = 0;
    int ndim = 0;

    memset(in, 'a' + (int) me, nbytes);
    o.root = (int) n - 1;
    check(reigen_broadcast("moved", in, out, dtype, shape, 2, &o) == 0);
    check(out[0] == 'a' + o.root && memcmp(out, out + 1, nbytes - 1) == 0);
    check(reigen_into_async(REIGEN_ALLGATHER, "into", in, out, dtype, rows * n, NULL, &h) == 0);
    check(reigen_wait(h, -1) == 0 && out[0] == 'a' && out[nbytes * n - 1] == 'a' + (int) n - 1);
    reigen_release(h);
    check(reigen_allgather_async("gathered", in, dtype, shape, 2, NULL, &h) == 0);
    check(reigen_wait(h, -1) == 0);
    check(reigen_output(h, &at, &found, got, &ndim) == 0 && found == nbytes * n && ndim == 2 &&
          got[0] == (int64_t) (rows * n * n) && got[1] == 1 && memcmp(at, out, found) == 0);
    reigen_release(h);
    check(reigen_alltoall_async("all to all", in, dtype, shape, 2, NULL, 0, NULL, &h) == 0);
    check(reigen_wait(h, -1) == 0);
    check(reigen_output(h, &at, &found, got, &ndim) == 0 && found == nbytes && got[0] == shape[0]);
    for (size_t r = 0; r < n; r++)
        check(((const char *) at)[r * rows * 5] == 'a' + (int) r);
    reigen_release(h);
    free(out);
    free(in);
}

/* Numbers of types are each rank's own. */
static int own_types(struct rank *rank)
{
    int me = rank->me, n = rank->n, again = 0;
    struct reigen_options o = REIGEN_OPTIONS_INIT;
    float z[] = { 1, -2, (float) me, 4 };
    int64_t two[] = { 2 };
    reigen_handle h = 0;

    check(reigen_init(NULL) == 0);
    for (int i = 0; i < me; i++)
        type_of(i ? "this rank's" : "and that", 3, -1);
    int five = type_of("five", 5, -1), pair = type_of("complex64", 8, REIGEN_FLOAT32);
    check(reigen_type_add("five", 5, -1, &again) == 0 && again == five);
    move(five, 1);
    move(five, 30000);
    check(reigen_allreduce("pairs", z, z, pair, two, 1, NULL) == 0);
    check(z[1] == -2.f * (float) n && z[2] == (float) (n * (n - 1) / 2));
    o.op = REIGEN_AVERAGE;
    check(reigen_reducescatter_async("rows", z, pair, two, 1, &o, &h) == 0);
    check(reigen_wait(h, -1) == 0);
    reigen_release(h);
    o.op = REIGEN_MAX;
    check(reigen_allreduce_async("max", z, z, pair, two, 1, &o, &h) == -EINVAL);
    check(strstr(reigen_last_error(), "there is no max of them") != NULL);
    check(reigen_allreduce_async("sum", z, z, five, two, 1, NULL, &h) == -EINVAL);
    check(strstr(reigen_last_error(), "five cannot be reduced, only moved") != NULL);
    expect_mismatch(reigen_broadcast_async("b", z, z, me ? pair : REIGEN_FLOAT64, two, 1, NULL, &h),
                    &h, "One rank had type ");
    expect_mismatch(reigen_broadcast_async("b", z, z, me ? pair : REIGEN_FLOAT64, two, 1, NULL, &h),
                    &h, "complex64");
    expect_mismatch(reigen_allgather_async("size", z, type_of("text", me ? 4 : 2, -1), two, 1, NULL,
                                           &h), &h, "text of 4 bytes");
    int part = me ? type_of("BARRIER()", 1, REIGEN_UINT8) : REIGEN_UINT8;
    expect_mismatch(reigen_allreduce_async("part", z, z, part, two, 1, NULL, &h), &h,
                    "Mismatched operations: One rank did an ");
    part = type_of(me ? "ALLGATHER()int8" : "ALLGATHER()float32", 1, REIGEN_UINT8);
    expect_mismatch(reigen_allreduce_async("same", z, z, part, two, 1, NULL, &h), &h,
                    "had type float32");
    reigen_shutdown();
    return bad;
}

static void types_that_are_added_are_moved_and_told_apart(void **state)
{
    int dtype;

    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), own_types, NULL), 0);
    ranks_setenv("REIGEN_PLANES", "tcp");
    assert_int_equal(ranks_run(3, ranks_port(), own_types, NULL), 0);
    ranks_setenv("REIGEN_PLANES", NULL);
    assert_int_equal(reigen_type_add("", 1, -1, &dtype), -EINVAL);
    assert_int_equal(reigen_type_add("a\"b", 1, -1, &dtype), -EINVAL);
    assert_int_equal(reigen_type_add("none", 0, -1, &dtype), -EINVAL);
    assert_int_equal(reigen_type_add("odd", 6, REIGEN_FLOAT32, &dtype), -EINVAL);
}

/* Without shared memory every rank is a node of its own. */
static void between_nodes_it_is_all_the_same(void **state)
{
    int (*const jobs[])(struct rank *) = { reduce_everything, other_kinds, groups, mismatches };

    (void) state;
    ranks_setenv("REIGEN_PLANES", "tcp");
    for (size_t i = 0; i < rg_array_len(jobs); i++) {
        if (ranks_run(3, ranks_port(), jobs[i], NULL) != 0)
            fail_msg("job %zu", i);
    }
    ranks_setenv("REIGEN_PLANES", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_reduces_all_types_operations_and_sizes),
        cmocka_unit_test(averages_and_factors_are_applied),
        cmocka_unit_test(the_other_collectives_move_what_they_should),
        cmocka_unit_test(groups_are_reduced_whatever_their_size),
        cmocka_unit_test(mismatches_are_told_to_all_ranks_and_the_job_goes_on),
        cmocka_unit_test(types_that_are_added_are_moved_and_told_apart),
        cmocka_unit_test(between_nodes_it_is_all_the_same),
    };

    ranks_clearenv();
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
