/* SPDX-License-Identifier: Apache-2.0 */
/* Why not ask the compiler: cpu.h says it. */
#include "coll/reduce/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <string.h>

#define BIT(n) (UINT32_C(1) << (n))

enum {
    LEAF1_OSXSAVE = 27, LEAF1_AVX = 28, LEAF1_F16C = 29,
    LEAF7_AVX2 = 5, LEAF7_AVX512F = 16, LEAF7_AVX512DQ = 17, LEAF7_AVX512BW = 30,
    LEAF7_AVX512VL = 31,
};

/* The halves of ymm; with the masks and both parts of zmm. */
#define XCR0_YMM (BIT(1) | BIT(2))
#define XCR0_ZMM (XCR0_YMM | BIT(5) | BIT(6) | BIT(7))

struct rg_isa rg_isa_read(void)
{
    struct rg_isa cpu = { 0 };
#if defined(__x86_64__)
    unsigned eax, ebx, ecx, edx;

    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx))
        cpu.leaf1_ecx = ecx;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        cpu.leaf7_ebx = ebx;
    /* The instruction exists only where the kernel has allowed it. */
    if (cpu.leaf1_ecx & BIT(LEAF1_OSXSAVE)) {
        __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
        cpu.xcr0 = eax;
    }
#endif
    return cpu;
}

static bool all(uint32_t word, uint32_t bits)
{
    return (word & bits) == bits;
}

static bool can_avx2(const struct rg_isa *cpu)
{
    return all(cpu->leaf1_ecx, BIT(LEAF1_OSXSAVE) | BIT(LEAF1_AVX) | BIT(LEAF1_F16C)) &&
           all(cpu->leaf7_ebx, BIT(LEAF7_AVX2)) && all(cpu->xcr0, XCR0_YMM);
}

static bool can_avx512(const struct rg_isa *cpu)
{
    return can_avx2(cpu) && all(cpu->xcr0, XCR0_ZMM) &&
           all(cpu->leaf7_ebx, BIT(LEAF7_AVX512F) | BIT(LEAF7_AVX512DQ) | BIT(LEAF7_AVX512BW) |
                                   BIT(LEAF7_AVX512VL));
}

bool rg_isa_can(const struct rg_isa *cpu, const char *variant)
{
    if (!strcmp(variant, "avx512"))
        return can_avx512(cpu);
    return !strcmp(variant, "avx2") && can_avx2(cpu);
}
