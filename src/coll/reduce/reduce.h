/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduction kernels: by element type, operation and CPU, chosen once at load time (scalar, AVX2 +
 * F16C, AVX-512). Every variant gives the same bits as the scalar one: elements are combined in the
 * order of the sources, one rounding per step (float16 and bfloat16: summed in float32 over all
 * sources, rounded to nearest even once). NaN: min and max return NaN if any source is NaN.
 * Integers wrap.
 *
 * Thread rule: pure functions of their arguments; any thread; never fail or block.
 */
#ifndef RG_COLL_REDUCE_REDUCE_H
#define RG_COLL_REDUCE_REDUCE_H

#include <stddef.h>

#include "coll/ground/types.h"

#define RG_REDUCE_SOURCES_MAX 1024

/* dst[i] = post * (op over k of (pre * srcs[k][i])) / divisor for i < count. dst may equal
 * one of srcs (same start); otherwise they must not overlap. 1 <= nsrcs <= RG_REDUCE_SOURCES_MAX; a
 * NULL source counts as zeros. Alignment: any. Factors are applied in the type of accumulation
 * (float32; float64 for float64), to integers in double, truncated and held at the type's limits;
 * bool ignores them. */
void rg_reduce(int dtype, int op, void *dst, const void *const *srcs, int nsrcs, size_t count,
               const struct rg_scale *scale);

/* The parts of Adasum, on float32 and float64; every variant gives the same bits. dots[0..2] +=
 * a.b, a.a, b.b, summed in float64. */
void rg_dots(int dtype, const void *a, const void *b, size_t count, double dots[3]);
/* dst[i] = u * a[i] + v * b[i], in float64, rounded once; dst may equal a or b. */
void rg_blend(int dtype, void *dst, const void *a, const void *b, size_t count, double u,
              double v);
/* acc[i] = factor * src[i], and dst[i] = factor * acc[i], for floating types: acc is float32 for
 * float16 and bfloat16, else of the type itself. dst may equal acc where the types do. */
void rg_widen(int dtype, void *acc, const void *src, size_t count, double factor);
void rg_narrow(int dtype, void *dst, const void *acc, size_t count, double factor);

/* Name of the CPU variant in use ("avx512"), for describe. REIGEN_CPU=scalar|avx2|avx512 forces
 * one, for tests. */
const char *rg_reduce_variant(void);

#endif
