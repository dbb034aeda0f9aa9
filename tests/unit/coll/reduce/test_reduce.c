/* SPDX-License-Identifier: Apache-2.0 */
/* Reduction against a plain reference that knows the types one element at a time, and the CPU
 * variants against each other. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/reduce/kernels.h"
#include "coll/reduce/reduce.h"

enum { COUNT_MAX = 5003, NSRCS_MAX = 9 };

static const int OPS[] = { REIGEN_SUM, REIGEN_MIN, REIGEN_MAX, REIGEN_PRODUCT };
static const struct rg_scale NO_SCALE = { 1.0, 1.0, 1 };

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* ------------------------------------------------------------ one element at a time */

static float half_to_float(uint16_t h)
{
    int exponent = (h >> 10) & 31, mant = h & 1023;
    float size = exponent == 31  ? (mant ? NAN : INFINITY)
                 : exponent == 0 ? ldexpf((float) mant, -24)
                                 : ldexpf((float) (mant + 1024), exponent - 25);

    return h & 0x8000 ? -size : size;
}

/* The nearest of all 65,536 candidates would be the definition; the nearest of both neighbours is
 * the same. */
static uint16_t float_to_half(float x)
{
    float size = fabsf(x);
    uint16_t sign = signbit(x) ? 0x8000 : 0, low = 0;

    if (isnan(x))
        return sign | 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    for (int bit = 14; bit >= 0; bit--) {
        if ((low | 1 << bit) < 0x7c00 && half_to_float((uint16_t) (low | 1 << bit)) <= size)
            low = (uint16_t) (low | 1 << bit);
    }

    double down = (double) size - half_to_float(low);
    double up = (low + 1 == 0x7c00 ? 65536.0 : half_to_float((uint16_t) (low + 1))) - (double) size;

    return (uint16_t) (sign | (low + (up < down || (up == down && (low & 1)))));
}

static float brain_to_float(uint16_t b)
{
    uint32_t bits = (uint32_t) b << 16;
    float x;

    memcpy(&x, &bits, 4);
    return x;
}

static uint16_t float_to_brain(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, 4);
    if (isnan(x))
        return (uint16_t) (bits >> 16 | 0x40);

    uint32_t low = bits & 0xffff, up = bits >> 16;

    return (uint16_t) (up + (low > 0x8000 || (low == 0x8000 && (up & 1))));
}

/* Floating types in double that hold what float or double arithmetic gives at each step. */
static double combine_float(int op, double a, double b, bool single)
{
    double r = op == REIGEN_SUM       ? a + b
               : op == REIGEN_PRODUCT ? a * b
               : isnan(a) || isnan(b) ? (double) NAN
               : op == REIGEN_MIN     ? (a < b ? a : b)
                                      : (a > b ? a : b);

    return single ? (double) (float) r : r;
}

static double get_float(int dtype, const char *at)
{
    uint16_t h;
    float f;
    double d;

    switch (dtype) {
    case REIGEN_FLOAT16:
        memcpy(&h, at, 2);
        return half_to_float(h);
    case REIGEN_BFLOAT16:
        memcpy(&h, at, 2);
        return brain_to_float(h);
    case REIGEN_FLOAT32:
        memcpy(&f, at, 4);
        return f;
    default:
        memcpy(&d, at, 8);
        return d;
    }
}

static void put_float(int dtype, char *at, double x)
{
    float f = (float) x;
    uint16_t h = dtype == REIGEN_FLOAT16 ? float_to_half(f) : float_to_brain(f);

    if (dtype == REIGEN_FLOAT64)
        memcpy(at, &x, 8);
    else if (dtype == REIGEN_FLOAT32)
        memcpy(at, &f, 4);
    else
        memcpy(at, &h, 2);
}

static bool is_float(int dtype)
{
    return dtype >= REIGEN_FLOAT16 && dtype != REIGEN_BOOL;
}

static int64_t get_int(int dtype, const char *at)
{
    int64_t v = 0;
    size_t nbytes = rg_dtype_nbytes(dtype), shift = 64 - 8 * nbytes;
    bool is_signed = dtype == REIGEN_INT8 || dtype == REIGEN_INT16 || dtype == REIGEN_INT32 ||
                     dtype == REIGEN_INT64;

    memcpy(&v, at, nbytes);
    return is_signed ? (int64_t) ((uint64_t) v << shift) >> shift : v;
}

static int64_t combine_int(int dtype, int op, int64_t a, int64_t b)
{
    bool both = dtype == REIGEN_BOOL;
    uint64_t r;

    switch (op) {
    case REIGEN_SUM:
        r = both ? (a | b) != 0 : (uint64_t) a + (uint64_t) b;
        break;
    case REIGEN_PRODUCT:
        r = both ? a && b : (uint64_t) a * (uint64_t) b;
        break;
    case REIGEN_MIN:
        r = both ? a && b : (uint64_t) (a < b ? a : b);
        break;
    default:
        r = both ? (a | b) != 0 : (uint64_t) (a > b ? a : b);
    }
    return get_int(dtype, (const char *) &r);
}

static int64_t hold_int(int dtype, double x)
{
    static const double low[] = { 0, -128, 0, -32768, -0x1p31, -0x1p63 };
    static const double high[] = { 255, 127, 65535, 32767, 0x1p31 - 1, 0x1p63 };

    x = trunc(x);
    return x <= low[dtype]    ? (int64_t) low[dtype]
           : x >= high[dtype] ? (dtype == REIGEN_INT64 ? INT64_MAX : (int64_t) high[dtype])
                              : (int64_t) x;
}

static int64_t scale_int(int dtype, int64_t v, double factor)
{
    return factor == 1.0 ? v : hold_int(dtype, (double) v * factor);
}

/* The reciprocal of a number that float32 has no reciprocal of: rounded once, as a quotient. */
static bool averages(double post)
{
    return post < 1 && (double) (float) post != post && 1 / nearbyint(1 / post) == post;
}

static void reference(int dtype, int op, char *dst, const char *const *srcs, int nsrcs, size_t i,
                      const struct rg_scale *scale)
{
    size_t at = i * rg_dtype_nbytes(dtype);
    static const char zeros[8];

    if (is_float(dtype)) {
        bool single = dtype != REIGEN_FLOAT64;
        double pre = single ? (float) scale->pre : scale->pre;
        double post = single ? (float) scale->post : scale->post, r = 0;

        for (int k = 0; k < nsrcs; k++) {
            double x = get_float(dtype, srcs[k] ? srcs[k] + at : zeros) * pre;

            x = single ? (double) (float) x : x;
            r = k == 0 ? x : combine_float(op, r, x, single);
        }
        r = dtype == REIGEN_FLOAT32 && averages(scale->post) ? r / nearbyint(1 / scale->post)
                                                             : r * post;
        put_float(dtype, dst + at, single ? (double) (float) r : r);
        return;
    }

    int64_t r = 0;

    for (int k = 0; k < nsrcs; k++) {
        int64_t x = get_int(dtype, srcs[k] ? srcs[k] + at : zeros);

        x = dtype == REIGEN_BOOL ? x : scale_int(dtype, x, scale->pre);
        r = k == 0 ? x : combine_int(dtype, op, r, x);
    }
    if (dtype != REIGEN_BOOL) {
        if (scale->post == 1.0)
            r /= scale->divisor;
        else
            r = hold_int(dtype, (double) r * scale->post / (double) scale->divisor);
    }
    memcpy(dst + at, &r, rg_dtype_nbytes(dtype));
}

/* ------------------------------------------------------------ inputs */

static char *sources[NSRCS_MAX];
static char *result, *expected;

static int setup(void **state)
{
    (void) state;
    for (int k = 0; k < NSRCS_MAX; k++)
        sources[k] = malloc(COUNT_MAX * 8 + 8);
    result = malloc(COUNT_MAX * 8 + 8);
    expected = malloc(COUNT_MAX * 8 + 8);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    for (int k = 0; k < NSRCS_MAX; k++)
        free(sources[k]);
    free(result);
    free(expected);
    return 0;
}

/* Any bits for integers; numbers around 1, some infinite or not a number, for floats. */
static void fill(int dtype, uint64_t seed)
{
    for (int k = 0; k < NSRCS_MAX; k++) {
        for (size_t i = 0; i < COUNT_MAX; i++) {
            uint64_t bits = next(&seed) << 32 | next(&seed);
            char *at = sources[k] + i * rg_dtype_nbytes(dtype);
            double x = (double) (bits % 4001) / 1000.0 - 2.0;

            if (bits % 997 == 0)
                x = bits & 4096 ? NAN : INFINITY;
            if (dtype == REIGEN_BOOL)
                *at = (char) (bits & 1);
            else if (is_float(dtype))
                put_float(dtype, at, x);
            else
                memcpy(at, &bits, rg_dtype_nbytes(dtype));
        }
    }
}

/* Equal bits; of two NaNs only that they are NaN, as which of two is kept is not said. */
static void check(int dtype, const char *got, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = i * rg_dtype_nbytes(dtype);

        if (memcmp(got + at, expected + at, rg_dtype_nbytes(dtype)) == 0)
            continue;
        if (is_float(dtype) && isnan(get_float(dtype, got + at)) &&
            isnan(get_float(dtype, expected + at)))
            continue;
        fail_msg("%s %s: element %zu of %zu", rg_dtype_name(dtype), what, i, count);
    }
}

static void try(int dtype, int op, int nsrcs, size_t count, const struct rg_scale *scale,
                bool null)
{
    const char *srcs[NSRCS_MAX];

    for (int k = 0; k < nsrcs; k++)
        srcs[k] = null && k == nsrcs / 2 ? NULL : sources[k];
    for (size_t i = 0; i < count; i++)
        reference(dtype, op, expected, srcs, nsrcs, i, scale);
    memset(result, 0x77, COUNT_MAX * 8 + 8);
    rg_reduce(dtype, op, result, (const void *const *) srcs, nsrcs, count, scale);
    check(dtype, result, count, rg_op_name(op));
    assert_int_equal(result[count * rg_dtype_nbytes(dtype)], 0x77);
}

/* ------------------------------------------------------------ tests */

static void reductions_equal_the_reference(void **state)
{
    static const size_t counts[] = { 0, 1, 7, 33, 1025, COUNT_MAX };

    (void) state;
    for (int dtype = 0; dtype < REIGEN_NDTYPES; dtype++) {
        fill(dtype, (uint64_t) dtype + 1);
        for (int op = 0; op < 4; op++) {
            for (int nsrcs = 1; nsrcs <= NSRCS_MAX; nsrcs++) {
                for (size_t i = 0; i < 6; i++)
                    try(dtype, OPS[op], nsrcs, nsrcs > 5 ? counts[i] % 1500 : counts[i],
                        &NO_SCALE, false);
            }
            try(dtype, OPS[op], 3, 1500, &NO_SCALE, true);
            try(dtype, OPS[op], 1, 1500, &NO_SCALE, true);
        }
    }
}

static void factors_and_averages_equal_the_reference(void **state)
{
    static const struct rg_scale scales[] = { { 1.0, 0.5, 1 },  { 1.0, 1.0 / 3, 1 },
                                              { 1.0, 1.0 / 6, 1 }, { 1.0, 1.0 / 7, 1 },
                                              { 0.25, 1.0, 1 }, { 1.7, 0.3, 1 },
                                              { 1.0, 1.0, 3 },  { 0.5, 2.0, 7 } };

    (void) state;
    for (int dtype = 0; dtype < REIGEN_NDTYPES; dtype++) {
        fill(dtype, (uint64_t) dtype + 100);
        for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++) {
            for (int nsrcs = 1; nsrcs <= 5; nsrcs++)
                try(dtype, REIGEN_SUM, nsrcs, 1100, &scales[i], nsrcs == 3);
        }
    }
}

static void destination_may_be_any_source(void **state)
{
    static const struct rg_scale scaled = { 2.0, 0.5, 1 };
    const void *srcs[NSRCS_MAX];

    (void) state;
    for (int dtype = 0; dtype < REIGEN_NDTYPES; dtype++) {
        for (int nsrcs = 1; nsrcs <= 6; nsrcs++) {
            for (int k = 0; k < nsrcs * 2; k++) {
                const struct rg_scale *scale = k % 2 ? &scaled : &NO_SCALE;

                fill(dtype, 7);
                memcpy(srcs, sources, sizeof(srcs));
                for (size_t i = 0; i < 1500; i++)
                    reference(dtype, REIGEN_SUM, expected, (const char *const *) srcs, nsrcs, i,
                              scale);
                rg_reduce(dtype, REIGEN_SUM, sources[k / 2], srcs, nsrcs, 1500, scale);
                check(dtype, sources[k / 2], 1500, "in place");
            }
        }
    }
}

static void buffers_may_have_any_alignment(void **state)
{
    (void) state;
    for (int dtype = 0; dtype < REIGEN_NDTYPES; dtype++) {
        const char *srcs[3] = { sources[0] + 1, sources[1] + 3, sources[2] };

        fill(dtype, 11);
        for (int k = 0; k < 2; k++)
            memmove(sources[k] + 1 + 2 * k, sources[k], 700 * rg_dtype_nbytes(dtype));
        for (size_t i = 0; i < 700; i++)
            reference(dtype, REIGEN_SUM, expected, srcs, 3, i, &NO_SCALE);
        rg_reduce(dtype, REIGEN_SUM, result + 1, (const void *const *) srcs, 3, 700, &NO_SCALE);
        check(dtype, result + 1, 700, "misaligned");
    }
}

/* All 65,536 halves and all roundings between neighbours. */
static void float16_converts_exactly(void **state)
{
    static const struct rg_scale eighth = { 1.0, 0.125, 1 };
    uint16_t *in = malloc(65536 * 2), *out = malloc(65536 * 2);
    const void *src = in;

    (void) state;
    for (int i = 0; i < 65536; i++)
        in[i] = (uint16_t) i;
    rg_reduce(REIGEN_FLOAT16, REIGEN_SUM, out, &src, 1, 65536, &eighth);
    for (int i = 0; i < 65536; i++) {
        float x = half_to_float(in[i]) * 0.125f;

        if (isnan(x))
            assert_true(isnan(half_to_float(out[i])));
        else
            assert_int_equal(out[i], float_to_half(x));
    }
    free(in);
    free(out);
}

static void cpu_variants_give_equal_bits(void **state)
{
#if defined(__x86_64__)
    const struct rg_kernels *others[] = {
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? &rg_kernels_avx2 : NULL,
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") ? &rg_kernels_avx512 : NULL,
    };
    static const struct rg_scale scale = { 1.0, 0.37, 1 };
    char *widened = malloc(COUNT_MAX * 8);

    for (int v = 0; v < 2; v++) {
        for (int dtype = 0; others[v] && dtype < REIGEN_NDTYPES; dtype++) {
            fill(dtype, 5);
            for (int op = 0; op < 4; op++) {
                const struct rg_kernels *all[] = { &rg_kernels_scalar, others[v] };
                char *outs[] = { expected, result };

                for (int i = 0; i < 2; i++) {
                    all[i]->load[dtype](widened, sources[0], 1001, 1.25);
                    all[i]->combine[dtype][op](widened, widened, widened, 1001);
                    all[i]->store[dtype](outs[i], widened, 1001, &scale);
                }
                check(dtype, result, 1001, "variant");
            }
            if (rg_kernels_scalar.dots[dtype]) {
                double dots[2][3] = { { 0 } };

                others[v]->dots[dtype](sources[0], sources[1], 1001, dots[0]);
                rg_kernels_scalar.dots[dtype](sources[0], sources[1], 1001, dots[1]);
                assert_memory_equal(dots[0], dots[1], sizeof(dots[0]));
                assert_true(dots[0][1] > 0);
                others[v]->blend[dtype](result, sources[0], sources[1], 1001, 0.3, 1e3);
                rg_kernels_scalar.blend[dtype](expected, sources[0], sources[1], 1001, 0.3, 1e3);
                check(dtype, result, 1001, "blend");
            }
        }
    }
    free(widened);
#endif
    (void) state;
    assert_true(strlen(rg_reduce_variant()) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_equal_the_reference),
        cmocka_unit_test(factors_and_averages_equal_the_reference),
        cmocka_unit_test(destination_may_be_any_source),
        cmocka_unit_test(buffers_may_have_any_alignment),
        cmocka_unit_test(float16_converts_exactly),
        cmocka_unit_test(cpu_variants_give_equal_bits),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
