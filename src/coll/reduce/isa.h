/* SPDX-License-Identifier: Apache-2.0 */
/* Which vector instructions this process may use, asked of the processor itself.
 *
 * The compilers' own question (__builtin_cpu_supports) is answered by their support library, and
 * that of zig, which links the wheels, answers "none" to all of it. The bits are those of Intel's
 * "Architectures Software Developer's Manual", volume 2, CPUID, and volume 1, chapter 13, XCR0. */
#ifndef RG_COLL_REDUCE_ISA_H
#define RG_COLL_REDUCE_ISA_H

#include <stdbool.h>
#include <stdint.h>

/* What was read. All 0 on a processor of another kind than x86-64. */
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
