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

#include "coll/types.h"

#define RG_REDUCE_SOURCES_MAX 1024

/* dst[i] = post * floordiv(op over k of (pre * srcs[k][i]), divisor) for i < count. dst may equal
 * one of srcs (same start); otherwise they must not overlap. 1 <= nsrcs <= RG_REDUCE_SOURCES_MAX; a
 * NULL source counts as zeros. Alignment: any. Factors are applied in the type of accumulation
 * (float32; float64 for float64), to integers in double, truncated and held at the type's limits;
 * bool ignores them. */
void rg_reduce(int dtype, int op, void *dst, const void *const *srcs, int nsrcs, size_t count,
               const struct rg_scale *scale);

/* Name of the CPU variant in use ("avx512"), for describe. REIGEN_CPU=scalar|avx2|avx512 forces
 * one, for tests. */
const char *rg_reduce_variant(void);

#endif
