/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once per CPU variant; RG_KERNELS is the name of its table. */
#include "coll/reduce/kernels.h"

#include <string.h>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#if defined(__clang__)
#define RG_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define RG_LOOP _Pragma("GCC ivdep")
#endif
#define RG_DOT_LANES 16 /* sums side by side, the same on every CPU so that the bits are too */
#define RG_ANY __attribute__((aligned(1), may_alias))

typedef uint8_t u8 RG_ANY;
typedef int8_t i8 RG_ANY;
typedef uint16_t u16 RG_ANY;
typedef int16_t i16 RG_ANY;
typedef int32_t i32 RG_ANY;
typedef uint32_t u32 RG_ANY;
typedef int64_t i64 RG_ANY;
typedef float f32 RG_ANY;
typedef double f64 RG_ANY;

/* The name of a function for type T. */
#define FN(x) NAME(T, x)
#define NAME(type, x) PASTED(type, x)
#define PASTED(type, x) type##_##x

#define T u8
#define V uint32_t
#define LIMIT UINT8_MAX
#include "coll/reduce/kernels_type.inc"

#define T i8
#define V uint32_t
#define LIMIT INT8_MAX
#include "coll/reduce/kernels_type.inc"

#define T u16
#define V uint32_t
#define LIMIT UINT16_MAX
#include "coll/reduce/kernels_type.inc"

#define T i16
#define V uint32_t
#define LIMIT INT16_MAX
#include "coll/reduce/kernels_type.inc"

#define T i32
#define V uint32_t
#define LIMIT INT32_MAX
#include "coll/reduce/kernels_type.inc"

#define T i64
#define V uint64_t
#define LIMIT INT64_MAX
#include "coll/reduce/kernels_type.inc"

#define T f32
#define V float
#include "coll/reduce/kernels_type.inc"

#define T f64
#define V double
#include "coll/reduce/kernels_type.inc"

/* bool: any byte but 0 is true; results are 0 and 1. Factors and divisors mean nothing here. */
static void bool_or(void *dst, const void *a, const void *b, size_t n)
{
    const u8 *x = a, *y = b;
    u8 *d = dst;

    RG_LOOP
    for (size_t i = 0; i < n; i++)
        d[i] = (x[i] | y[i]) != 0;
}

static void bool_and(void *dst, const void *a, const void *b, size_t n)
{
    const u8 *x = a, *y = b;
    u8 *d = dst;

    RG_LOOP
    for (size_t i = 0; i < n; i++)
        d[i] = (x[i] != 0) & (y[i] != 0);
}

static void bool_load(void *acc, const void *src, size_t n, double pre)
{
    (void) pre;
    memmove(acc, src, n);
}

static void bool_store(void *dst, const void *acc, size_t n, const struct rg_scale *scale)
{
    (void) scale;
    memmove(dst, acc, n);
}

/* float32 whose bits are given, and back. */
static inline float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* bfloat16 is the upper half of a float32. Rounding to nearest even: add half of the last place,
 * less one when that place is even; a NaN is cut and kept one by its quiet bit. */
static void bf16_load(void *acc, const void *src, size_t n, double pre)
{
    const u16 *x = src;
    f32 *d = acc;

    RG_LOOP
    for (size_t i = 0; i < n; i++)
        d[i] = float_of((uint32_t) x[i] << 16) * (float) pre;
}

static void bf16_store(void *dst, const void *acc, size_t n, const struct rg_scale *scale)
{
    const float post = (float) scale->post;
    const f32 *x = acc;
    u16 *d = dst;

    RG_LOOP
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = bits_of(x[i] * post);
        uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
        uint32_t quiet = (bits >> 16) | 0x40;

        d[i] = (uint16_t) ((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
    }
}

#if defined(__F16C__)
static inline float float_of_half(uint16_t h)
{
    return _cvtsh_ss(h);
}

static inline uint16_t half_of_float(float x)
{
    return (uint16_t) _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}
#else
/* IEEE 754 binary16. Subnormals by an exact multiplication: the bits as an integer times 2^-24. */
static inline float float_of_half(uint16_t h)
{
    uint32_t sign = (uint32_t) (h & 0x8000) << 16, mant = h & 0x3ff, exponent = (h >> 10) & 0x1f;

    if (exponent == 0)
        return float_of(bits_of((float) mant * 0x1p-24f) | sign);
    if (exponent == 31)
        return float_of(sign | 0x7f800000 | mant << 13 | (mant ? 0x400000u : 0));
    return float_of(sign | (exponent + 112) << 23 | mant << 13);
}

/* Below 2^-14 the float adder rounds for us: 0.5 has its last place where a subnormal half has
 * it. */
static inline uint16_t half_of_float(float x)
{
    uint32_t bits = bits_of(x), sign = (bits >> 16) & 0x8000, size = bits & 0x7fffffff;

    if (size > 0x7f800000)
        return (uint16_t) (sign | 0x7e00 | ((size >> 13) & 0x3ff));
    if (size >= 0x47800000)
        return (uint16_t) (sign | 0x7c00);
    if (size < 0x38800000)
        return (uint16_t) (sign | (bits_of(float_of(size) + 0.5f) - 0x3f000000));
    return (uint16_t) (sign | ((size - 0x38000000 + 0xfff + ((size >> 13) & 1)) >> 13));
}
#endif

static void f16_load(void *acc, const void *src, size_t n, double pre)
{
    const float p = (float) pre;
    const u16 *x = src;
    f32 *d = acc;
    size_t i = 0;

#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *) (x + i)));

        _mm256_storeu_ps((float *) (void *) (d + i), _mm256_mul_ps(v, _mm256_set1_ps(p)));
    }
#endif
    for (; i < n; i++)
        d[i] = float_of_half(x[i]) * p;
}

static void f16_store(void *dst, const void *acc, size_t n, const struct rg_scale *scale)
{
    const float p = (float) scale->post;
    const f32 *x = acc;
    u16 *d = dst;
    size_t i = 0;

#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_loadu_ps((const float *) (const void *) (x + i));

        _mm_storeu_si128((__m128i_u *) (d + i),
                         _mm256_cvtps_ph(_mm256_mul_ps(v, _mm256_set1_ps(p)),
                                         _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    for (; i < n; i++)
        d[i] = half_of_float(x[i] * p);
}

#define ROW(type) { type##_sum, type##_min, type##_max, type##_product }

const struct rg_kernels RG_KERNELS = {
    .combine = {
        [REIGEN_UINT8] = ROW(u8),    [REIGEN_INT8] = ROW(i8),     [REIGEN_UINT16] = ROW(u16),
        [REIGEN_INT16] = ROW(i16),   [REIGEN_INT32] = ROW(i32),   [REIGEN_INT64] = ROW(i64),
        [REIGEN_FLOAT16] = ROW(f32), [REIGEN_FLOAT32] = ROW(f32), [REIGEN_FLOAT64] = ROW(f64),
        [REIGEN_BFLOAT16] = ROW(f32), [REIGEN_BOOL] = { bool_or, bool_and, bool_or, bool_and },
    },
    .load = { u8_load, i8_load, u16_load, i16_load, i32_load, i64_load, f16_load, f32_load,
              f64_load, bool_load, bf16_load },
    .store = { u8_store, i8_store, u16_store, i16_store, i32_store, i64_store, f16_store,
               f32_store, f64_store, bool_store, bf16_store },
    .sum = {
        [REIGEN_FLOAT32] = { NULL, NULL, f32_sum2, f32_sum3, f32_sum4 },
        [REIGEN_FLOAT64] = { NULL, NULL, f64_sum2, f64_sum3, f64_sum4 },
    },
    .dots = { [REIGEN_FLOAT32] = f32_dots, [REIGEN_FLOAT64] = f64_dots },
    .blend = { [REIGEN_FLOAT32] = f32_blend, [REIGEN_FLOAT64] = f64_blend },
};
