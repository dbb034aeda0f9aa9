/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops of reduction. kernels.c is compiled once per CPU variant, with that CPU's
 * compiler options, and fills one table; reduce.c chooses among the tables and cuts work into
 * blocks. Only these two include this.
 *
 * Every element type has an accumulator type: itself, but float32 for float16 and bfloat16. All
 * pointers may have any alignment; dst may equal a source exactly, else nothing overlaps.
 */
#ifndef RG_COLL_REDUCE_KERNELS_H
#define RG_COLL_REDUCE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/ground/types.h"

enum { RG_KERNEL_SUM, RG_KERNEL_MIN, RG_KERNEL_MAX, RG_KERNEL_PRODUCT, RG_KERNEL_NOPS };

/* dst[i] = a[i] op b[i], all of one accumulator type. */
typedef void (*rg_combine_fn)(void *dst, const void *a, const void *b, size_t n);
/* acc[i] = pre * src[i], converted to the accumulator type. */
typedef void (*rg_load_fn)(void *acc, const void *src, size_t n, double pre);
/* dst[i] = post * acc[i] / divisor, rounded (integers: truncated) to the element type. */
typedef void (*rg_store_fn)(void *dst, const void *acc, size_t n, const struct rg_scale *scale);
/* dst[i] = post * (srcs[0][i] + srcs[1][i] + ...), 2 to 4 sources, in their order. */
typedef void (*rg_sum_fn)(void *dst, const void *const *srcs, size_t n, double post);
/* dots[0..2] += a.b, a.a, b.b, in float64. */
typedef void (*rg_dots_fn)(const void *a, const void *b, size_t n, double dots[3]);
/* dst[i] = u * a[i] + v * b[i]. */
typedef void (*rg_blend_fn)(void *dst, const void *a, const void *b, size_t n, double u, double v);

struct rg_kernels {
    rg_combine_fn combine[REIGEN_NDTYPES][RG_KERNEL_NOPS]; /* by type of the elements */
    rg_load_fn load[REIGEN_NDTYPES];
    rg_store_fn store[REIGEN_NDTYPES];
    rg_sum_fn sum[REIGEN_NDTYPES][5]; /* [2..4]; NULL where there is no short cut */
    rg_dots_fn dots[REIGEN_NDTYPES];       /* float32 and float64 only, as is blend */
    rg_blend_fn blend[REIGEN_NDTYPES];
};

extern const struct rg_kernels rg_kernels_scalar;
extern const struct rg_kernels rg_kernels_avx2;   /* x86-64 only */
extern const struct rg_kernels rg_kernels_avx512;

/* ---- reduce.c: which of them this process may use, asked of the processor itself. The compilers'
 * own question (__builtin_cpu_supports) is answered by their support library, and that of zig,
 * which links the wheels, answers "none" to all of it. The bits are those of Intel's "Architectures
 * Software Developer's Manual", volume 2, CPUID, and volume 1, chapter 13, XCR0.
 *
 * What was read. All 0 on a processor of another kind than x86-64. */
struct rg_isa {
    uint32_t leaf1_ecx; /* CPUID 1, ECX */
    uint32_t leaf7_ebx; /* CPUID 7, subleaf 0, EBX; 0 where there is no such leaf */
    uint32_t xcr0;      /* registers that the kernel saves; 0 where it has not said */
};

/* Ask this processor. Any thread; does not block. */
struct rg_isa rg_isa_read(void);

/* Whether kernels compiled for "avx2" (AVX2, F16C) or "avx512" (F, BW, DQ and VL besides) can run:
 * the processor has the instructions, and the kernel saves their registers. Other names: false. */
bool rg_isa_can(const struct rg_isa *cpu, const char *variant);

#endif
