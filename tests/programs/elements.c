/* SPDX-License-Identifier: Apache-2.0 */
#include "elements.h"

#include <math.h>

enum { BLOCK = 1024 };

size_t dtype_nbytes(int dtype)
{
    static const size_t nbytes[REIGEN_NDTYPES] = { 1, 1, 2, 2, 4, 8, 2, 4, 8, 1, 2 };

    return nbytes[dtype];
}

const char *dtype_name(int dtype)
{
    static const char *const names[REIGEN_NDTYPES] = {
        "uint8",   "int8",    "uint16",  "int16", "int32",   "int64",
        "float16", "float32", "float64", "bool",  "bfloat16",
    };

    return names[dtype];
}

bool dtype_is_floating(int dtype)
{
    return dtype == REIGEN_FLOAT16 || dtype == REIGEN_FLOAT32 || dtype == REIGEN_FLOAT64 ||
           dtype == REIGEN_BFLOAT16;
}

/* A number of fraction_bits below the point with an exponent of [-8, 0]; one in 64 is subnormal. */
static uint16_t half_bits(uint64_t x, int fraction_bits, int bias)
{
    unsigned fraction = x & ((1u << fraction_bits) - 1), sign = (x >> 16) & 1;
    unsigned exponent = ((x >> 20) & 63) ? (unsigned) bias - (unsigned) ((x >> 32) % 9) : 0;

    return (uint16_t) (sign << 15 | exponent << fraction_bits | fraction);
}

static void fill_block(int dtype, uint64_t seed, size_t first, size_t n, void *dst)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t x = mix(seed + (first + i) * 0x9e3779b97f4a7c15u);

        if (dtype == REIGEN_BOOL)
            ((uint8_t *) dst)[i] = x & 1;
        else if (dtype == REIGEN_FLOAT16)
            ((uint16_t *) dst)[i] = half_bits(x, 10, 15);
        else if (dtype == REIGEN_BFLOAT16)
            ((uint16_t *) dst)[i] = half_bits(x, 7, 127);
        else if (dtype == REIGEN_FLOAT32)
            ((float *) dst)[i] = (float) ((int32_t) (x >> 40) - (1 << 23)) * 0x1p-22f;
        else if (dtype == REIGEN_FLOAT64)
            ((double *) dst)[i] = (double) ((int64_t) (x >> 11) - (1ll << 52)) * 0x1p-51;
        else if (dtype_nbytes(dtype) == 1)
            ((uint8_t *) dst)[i] = (uint8_t) x;
        else if (dtype_nbytes(dtype) == 2)
            ((uint16_t *) dst)[i] = (uint16_t) x;
        else if (dtype_nbytes(dtype) == 4)
            ((uint32_t *) dst)[i] = (uint32_t) x;
        else
            ((uint64_t *) dst)[i] = x;
    }
}

void elements_fill(int dtype, uint64_t seed, size_t first, size_t count, void *dst)
{
    uint64_t block[BLOCK];
    size_t nbytes = dtype_nbytes(dtype);

    for (size_t i = 0; i < count; i += BLOCK) {
        size_t n = count - i < BLOCK ? count - i : BLOCK;

        fill_block(dtype, seed, first + i, n, block);
        memcpy((char *) dst + i * nbytes, block, n * nbytes);
    }
}

static double half_value(uint16_t bits, int fraction_bits, int bias)
{
    int exponent = (bits & 0x7fff) >> fraction_bits;
    double fraction = bits & ((1 << fraction_bits) - 1);
    double size;

    if (exponent == 2 * bias + 1)
        size = fraction != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        size = ldexp(fraction, 1 - bias - fraction_bits);
    else
        size = ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return bits & 0x8000 ? -size : size;
}

static double float_at(int dtype, const void *data, size_t i)
{
    switch (dtype) {
    case REIGEN_FLOAT16:
        return half_value(((const uint16_t *) data)[i], 10, 15);
    case REIGEN_BFLOAT16:
        return half_value(((const uint16_t *) data)[i], 7, 127);
    case REIGEN_FLOAT32:
        return (double) ((const float *) data)[i];
    default:
        return ((const double *) data)[i];
    }
}

static int64_t integer_at(int dtype, const void *data, size_t i)
{
    switch (dtype) {
    case REIGEN_INT8:
        return ((const int8_t *) data)[i];
    case REIGEN_UINT16:
        return ((const uint16_t *) data)[i];
    case REIGEN_INT16:
        return ((const int16_t *) data)[i];
    case REIGEN_INT32:
        return ((const int32_t *) data)[i];
    case REIGEN_INT64:
        return ((const int64_t *) data)[i];
    default:
        return ((const uint8_t *) data)[i];
    }
}

/* Cut down to the type, as its arithmetic wraps. */
static int64_t wrapped(int dtype, uint64_t x)
{
    return integer_at(dtype, &x, 0);
}

/* Truncated, and held at the type's limits. */
static int64_t held(int dtype, double v)
{
    int nbits = (int) dtype_nbytes(dtype) * 8;
    bool is_signed = dtype != REIGEN_UINT8 && dtype != REIGEN_UINT16;
    double above = ldexp(1.0, is_signed ? nbits - 1 : nbits), below = is_signed ? -above : 0.0;

    v = trunc(v);
    if (v >= above)
        return nbits == 64 ? INT64_MAX : (int64_t) above - 1;
    return v < below ? (int64_t) below : (int64_t) v;
}

static int64_t scaled(int dtype, int64_t x, double factor)
{
    return factor == 1.0 ? x : held(dtype, (double) x * factor);
}

static int64_t combine_integers(int dtype, int op, int64_t a, int64_t b)
{
    bool is_bool = dtype == REIGEN_BOOL;

    switch (op) {
    case REIGEN_MIN:
        return a < b ? a : b;
    case REIGEN_MAX:
        return a > b ? a : b;
    case REIGEN_PRODUCT:
        return wrapped(dtype, (uint64_t) a * (uint64_t) b);
    default:
        return is_bool ? a | b : wrapped(dtype, (uint64_t) a + (uint64_t) b);
    }
}

static void check_integers(const struct reduction *red, void *const *blocks, size_t first, size_t n,
                           const void *got, const char *what)
{
    int dtype = red->dtype;
    double pre = dtype == REIGEN_BOOL ? 1.0 : red->pre;
    double post = dtype == REIGEN_BOOL ? 1.0 : red->post;

    for (size_t i = 0; i < n; i++) {
        int64_t want = scaled(dtype, integer_at(dtype, blocks[0], i), pre);

        for (int r = 1; r < red->nranks; r++)
            want = combine_integers(dtype, red->op, want,
                                    scaled(dtype, integer_at(dtype, blocks[r], i), pre));
        /* Truncated once; without a factor also where double is not exact. */
        if (red->op == REIGEN_AVERAGE && post == 1.0)
            want /= red->nranks;
        else if (red->op == REIGEN_AVERAGE)
            want = held(dtype, (double) want * post / red->nranks);
        else
            want = scaled(dtype, want, post);
        if (integer_at(dtype, got, i) != want)
            fail("%s: element %zu is %lld, not %lld", what, first + i,
                 (long long) integer_at(dtype, got, i), (long long) want);
    }
}

/* Relative size of one rounding, and the smallest step. */
static void precision(int dtype, double *ret_unit, double *ret_step)
{
    *ret_unit = dtype == REIGEN_FLOAT16    ? 0x1p-10
                : dtype == REIGEN_BFLOAT16 ? 0x1p-7
                : dtype == REIGEN_FLOAT32  ? 0x1p-23
                                           : 0x1p-52;
    *ret_step = dtype == REIGEN_FLOAT16    ? 0x1p-24
                : dtype == REIGEN_BFLOAT16 ? 0x1p-133
                : dtype == REIGEN_FLOAT32  ? 0x1p-149
                                           : 0x1p-1074;
}

static void check_floats(const struct reduction *red, void *const *blocks, size_t first, size_t n,
                         const void *got, const char *what)
{
    bool exact = (red->op == REIGEN_MIN || red->op == REIGEN_MAX) && red->pre == 1 &&
                 red->post == 1;
    double post = red->op == REIGEN_AVERAGE ? red->post / red->nranks : red->post, unit, step;

    precision(red->dtype, &unit, &step);
    for (size_t i = 0; i < n; i++) {
        double want = float_at(red->dtype, blocks[0], i) * red->pre, size = fabs(want), bound;

        for (int r = 1; r < red->nranks; r++) {
            double x = float_at(red->dtype, blocks[r], i) * red->pre;

            want = red->op == REIGEN_MIN       ? fmin(want, x)
                   : red->op == REIGEN_MAX     ? fmax(want, x)
                   : red->op == REIGEN_PRODUCT ? want * x
                                               : want + x;
            size = red->op == REIGEN_PRODUCT ? fabs(want) : size + fabs(x);
        }
        want *= post;
        bound = (2 * red->nranks + 4) * unit * size * fabs(post) +
                step * ldexp(1.0, 2 * red->nranks) * fmax(1.0, fabs(post));
        double x = float_at(red->dtype, got, i);

        if (exact ? x != want : !(fabs(x - want) <= bound))
            fail("%s: element %zu is %.17g, not %.17g within %g", what, first + i, x, want,
                 exact ? 0.0 : bound);
    }
}

void elements_check_reduced(const struct reduction *red, size_t first, size_t count,
                            const void *got, const char *what)
{
    uint64_t space[RANKS_MAX][BLOCK], mine[BLOCK];
    void *blocks[RANKS_MAX];
    size_t nbytes = dtype_nbytes(red->dtype);

    for (size_t i = 0; i < count; i += BLOCK) {
        size_t n = count - i < BLOCK ? count - i : BLOCK;

        for (int r = 0; r < red->nranks; r++) {
            blocks[r] = space[r];
            if (red->seeds[r])
                fill_block(red->dtype, red->seeds[r], first + i, n, blocks[r]);
            else
                memset(blocks[r], 0, n * nbytes);
        }
        memcpy(mine, (const char *) got + i * nbytes, n * nbytes);
        if (dtype_is_floating(red->dtype))
            check_floats(red, blocks, first + i, n, mine, what);
        else
            check_integers(red, blocks, first + i, n, mine, what);
    }
}

void elements_check_copied(int dtype, uint64_t seed, size_t first, size_t count, const void *got,
                           const char *what)
{
    uint64_t want[BLOCK];
    size_t nbytes = dtype_nbytes(dtype);

    for (size_t i = 0; i < count; i += BLOCK) {
        size_t n = count - i < BLOCK ? count - i : BLOCK;

        fill_block(dtype, seed, first + i, n, want);
        if (memcmp(want, (const char *) got + i * nbytes, n * nbytes) != 0)
            fail("%s: elements %zu to %zu are not those that were sent", what, first + i,
                 first + i + n - 1);
    }
}
