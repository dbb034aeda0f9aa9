/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: adasum [LARGEST_COUNT]
 * Adasum of every type, of one tensor and of groups, against a tree computed here in double; its
 * properties; what it refuses; a rank that has joined. Prints "adasum HASH": equal on all ranks.
 */
#include <math.h>

#include "elements.h"

#define TENSORS_MAX 5

static const int dtypes[] = { REIGEN_FLOAT16, REIGEN_BFLOAT16, REIGEN_FLOAT32, REIGEN_FLOAT64 };
static uint64_t hash = HASH_START;

static double of_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double x = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);

    return bits & 0x8000 ? -x : x;
}

static double element(int dtype, const void *data, size_t i)
{
    uint32_t bits;
    float x;

    if (dtype == REIGEN_FLOAT64)
        return ((const double *) data)[i];
    if (dtype == REIGEN_FLOAT32)
        return (double) ((const float *) data)[i];
    if (dtype == REIGEN_FLOAT16)
        return of_half(((const uint16_t *) data)[i]);
    bits = (uint32_t) ((const uint16_t *) data)[i] << 16;
    memcpy(&x, &bits, sizeof(x));
    return (double) x;
}

static double rounding(int dtype)
{
    return dtype == REIGEN_FLOAT64 ? 0x1p-53 : dtype == REIGEN_FLOAT32 ? 0x1p-24
           : dtype == REIGEN_FLOAT16 ? 0x1p-11 : 0x1p-8;
}

/* a = adasum(a, b) */
static void combine(double *a, const double *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0, u, v;

    for (size_t i = 0; i < n; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    u = aa > 0 ? 1 - ab / (2 * aa) : 1;
    v = bb > 0 ? 1 - ab / (2 * bb) : 1;
    for (size_t i = 0; i < n; i++)
        a[i] = u * a[i] + v * b[i];
}

/* The tree over all ranks, into vectors[0]. */
static void tree(double **vectors, int nranks, size_t n)
{
    int p = 1;

    while (p * 2 <= nranks)
        p *= 2;
    for (int i = 0; p + i < nranks; i++)
        combine(vectors[i], vectors[p + i], n);
    for (int d = 1; d < p; d *= 2)
        for (int i = 0; i + d < p; i += 2 * d)
            combine(vectors[i], vectors[i + d], n);
}

static uint64_t seed_of(int rank, uint64_t number)
{
    return mix((uint64_t) rank * 1000003 + number + 17) | 1;
}

/* got against the tree over the ranks' tensors of this number; absent ranks supply zeros. */
static void check(int dtype, uint64_t number, size_t n, double pre, double post, unsigned absent,
                  const void *got, const char *what)
{
    int nranks = reigen_size();
    double *vectors[RANKS_MAX], most = 0;
    void *raw = allocate(n * 8 + 1);

    for (int r = 0; r < nranks; r++) {
        vectors[r] = allocate(n * sizeof(double) + 1);
        elements_fill(dtype, seed_of(r, number), 0, n, raw);
        for (size_t i = 0; i < n; i++) {
            vectors[r][i] = absent >> r & 1 ? 0 : pre * element(dtype, raw, i);
            most = fmax(most, fabs(vectors[r][i]));
        }
    }
    tree(vectors, nranks, n);
    for (size_t i = 0; i < n; i++) {
        double want = post * vectors[0][i], x = element(dtype, got, i);

        if (!(fabs(x - want) <= 16 * rounding(dtype) * most * nranks * post + 1e-7 * 1e-3))
            fail("%s: element %zu of %zu is %.17g, not %.17g", what, i, n, x, want);
    }
    for (int r = 0; r < nranks; r++)
        free(vectors[r]);
    free(raw);
    hash = hash_bytes(hash, got, n * dtype_nbytes(dtype));
}

static void one(int dtype, size_t n, double pre, double post, bool in_place)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { (int64_t) n };
    char *in = allocate(n * 8 + 8), *out = in_place ? in : allocate(n * 8 + 8), what[64];

    options.op = REIGEN_ADASUM;
    options.prescale = pre;
    options.postscale = post;
    snprintf(what, sizeof(what), "%s[%zu] %g %g", dtype_name(dtype), n, pre, post);
    elements_fill(dtype, seed_of(reigen_rank(), n), 0, n, in);
    expect(reigen_allreduce(what, in, out, dtype, shape, 1, &options), 0, what);
    check(dtype, n, n, pre, post, 0, out, what);
    if (out != in)
        free(out);
    free(in);
}

static void group(int dtype, size_t largest, bool in_place)
{
    size_t counts[TENSORS_MAX] = { 3, 0, largest, 1, largest / 3 + 7 };
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    void *ins[TENSORS_MAX], *outs[TENSORS_MAX];
    const int64_t *shapes[TENSORS_MAX];
    int64_t lengths[TENSORS_MAX];
    int ndims[TENSORS_MAX];
    reigen_handle handles[TENSORS_MAX];

    options.op = REIGEN_ADASUM;
    for (int i = 0; i < TENSORS_MAX; i++) {
        lengths[i] = (int64_t) counts[i];
        shapes[i] = &lengths[i];
        ndims[i] = 1;
        ins[i] = allocate(counts[i] * 8 + 8);
        outs[i] = in_place ? ins[i] : allocate(counts[i] * 8 + 8);
        elements_fill(dtype, seed_of(reigen_rank(), (uint64_t) i + 50), 0, counts[i], ins[i]);
    }
    expect(reigen_grouped_async(REIGEN_ALLREDUCE, TENSORS_MAX, NULL,
                                (const void *const *) (const void *) ins, outs, dtype, shapes,
                                ndims, &options, handles),
           0, "group");
    for (int i = 0; i < TENSORS_MAX; i++) {
        finish(handles[i], 0, "group");
        check(dtype, (uint64_t) i + 50, counts[i], 1, 1, 0, outs[i], "group");
        if (outs[i] != ins[i])
            free(outs[i]);
        free(ins[i]);
    }
}

/* Of equal vectors: the vector, to the bit. Of orthogonal ones: the sum. */
static void properties(size_t n)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { (int64_t) n };
    float *in = allocate(n * sizeof(*in)), *out = allocate(n * sizeof(*out));

    options.op = REIGEN_ADASUM;
    elements_fill(REIGEN_FLOAT32, 99, 0, n, in);
    expect(reigen_allreduce("equal", in, out, REIGEN_FLOAT32, shape, 1, &options), 0, "equal");
    if (memcmp(in, out, n * sizeof(*in)) != 0)
        fail("adasum of equal vectors of %zu is another one", n);
    for (size_t i = 0; i < n; i++)
        in[i] = i % (size_t) reigen_size() == (size_t) reigen_rank() ? (float) (i + 1) : 0;
    expect(reigen_allreduce("orthogonal", in, out, REIGEN_FLOAT32, shape, 1, &options), 0, "o");
    for (size_t i = 0; i < n; i++)
        if (out[i] != (float) (i + 1))
            fail("orthogonal vectors of %zu: element %zu is %g", n, i, (double) out[i]);
    free(in);
    free(out);
}

static void refusals(void)
{
    struct reigen_options options = REIGEN_OPTIONS_INIT;
    int64_t shape[] = { 3 };
    float x[3] = { 1, 2, 3 };

    options.op = REIGEN_ADASUM;
    expect(reigen_allreduce("int", x, x, REIGEN_INT32, shape, 1, &options), -EINVAL, "int");
    expect_text(reigen_last_error(), "Adasum takes float16");
    if (reigen_size() == 1)
        return;
    if (reigen_rank() == 0)
        options.op = REIGEN_SUM;
    expect(reigen_allreduce("mixed", x, x, REIGEN_FLOAT32, shape, 1, &options), -EINVAL, "mixed");
    expect_text(reigen_last_error(), "Mismatched reduction operation");
}

/* Rank 0 joins at once; the others reduce, and those of a group may be refused. */
static void joined(size_t n)
{
    reigen_handle handle;

    if (reigen_rank() != 0 && reigen_size() > 1) {
        struct reigen_options options = REIGEN_OPTIONS_INIT;
        int64_t shape[] = { (int64_t) n };
        float *x = allocate(n * sizeof(*x));

        options.op = REIGEN_ADASUM;
        elements_fill(REIGEN_FLOAT32, seed_of(reigen_rank(), 7), 0, n, x);
        expect(reigen_allreduce("joined", x, x, REIGEN_FLOAT32, shape, 1, &options), 0, "joined");
        check(REIGEN_FLOAT32, 7, n, 1, 1, 1, x, "joined");
        free(x);
    }
    expect(reigen_join_async(&handle), 0, "join");
    if (reigen_wait(handle, -1) < 1)
        fail("join: %s", reigen_handle_error(handle));
    reigen_release(handle);
}

int main(int argc, char **argv)
{
    size_t largest = (size_t) argument(argc, argv, 1, 100003);
    const size_t counts[] = { 0, 1, 2, 5, 64, 1000, 4099, 33333, largest };

    begin();
    for (size_t d = 0; d < COUNT_OF(dtypes); d++) {
        for (size_t i = 0; i < COUNT_OF(counts); i++)
            one(dtypes[d], counts[i], 1, 1, i % 2);
        one(dtypes[d], 1000, 0.5, 0.25, false);
        one(dtypes[d], largest, 0.5, 2, true);
        group(dtypes[d], 100, true);
        group(dtypes[d], largest, false);
    }
    properties(7);
    properties(largest);
    refusals();
    say("adasum %016llx", (unsigned long long) hash);
    joined(5);
    joined(largest);
    goes_on();
    reigen_shutdown();
    return 0;
}
