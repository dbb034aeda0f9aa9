/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the kernels for this processor, and cuts work into pieces that stay in its cache. */
#include "coll/reduce/reduce.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "coll/reduce/kernels.h"

/* Work that passes through an accumulator is cut into blocks that stay in the first-level cache. */
enum { BLOCK_COUNT = 1024, ACC_NBYTES_MAX = 8 };

/* ---- the choice */

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

static const struct variant {
    const char *name;
    const struct rg_kernels *kernels;
} variants[] = {
#if defined(__x86_64__)
    { "avx512", &rg_kernels_avx512 },
    { "avx2", &rg_kernels_avx2 },
#endif
    { "scalar", &rg_kernels_scalar },
};

/* The best that this CPU has, or the best up to the one that REIGEN_CPU names. */
static const struct variant *choose(void)
{
    const struct rg_isa cpu = rg_isa_read();
    const char *wanted = getenv("REIGEN_CPU");
    size_t first = 0;

    for (size_t i = 0; wanted && i < rg_array_len(variants); i++) {
        if (!strcmp(variants[i].name, wanted))
            first = i;
    }
    for (size_t i = first; i < rg_array_len(variants); i++) {
        if (rg_isa_can(&cpu, variants[i].name))
            return &variants[i];
    }
    return &variants[rg_array_len(variants) - 1];
}

/* Chosen at first use; several threads that come first at once choose the same. */
static const struct variant *current(void)
{
    static _Atomic(const struct variant *) chosen;
    const struct variant *variant = atomic_load_explicit(&chosen, memory_order_acquire);

    if (!variant) {
        variant = choose();
        atomic_store_explicit(&chosen, variant, memory_order_release);
    }
    return variant;
}

const char *rg_reduce_variant(void)
{
    return current()->name;
}

/* ---- the work */

/* An average is a sum that is scaled. */
static const uint8_t kernel_ops[REIGEN_PRODUCT + 1] = {
    [REIGEN_MIN] = RG_KERNEL_MIN,
    [REIGEN_MAX] = RG_KERNEL_MAX,
    [REIGEN_PRODUCT] = RG_KERNEL_PRODUCT,
};

struct job {
    const struct rg_kernels *kernels;
    int dtype;
    rg_combine_fn combine;
    size_t nbytes; /* of an element */
    const struct rg_scale *scale;
    bool widened;  /* accumulated in another type */
    bool pre, post;
};

/* One block, from sources that all exist. The last step writes dst, so that dst may be any of
 * them. */
static void reduce_block(const struct job *job, char *dst, const char *const *srcs, int nsrcs,
                         size_t n)
{
    _Alignas(64) char acc[BLOCK_COUNT * ACC_NBYTES_MAX], term[BLOCK_COUNT * ACC_NBYTES_MAX];
    bool load = job->widened || job->pre, store = job->widened || job->post;
    rg_load_fn load_fn = job->kernels->load[job->dtype];
    const void *left = srcs[0];

    if (load) {
        load_fn(acc, srcs[0], n, job->scale->pre);
        left = acc;
    }
    for (int k = 1; k < nsrcs; k++) {
        const void *right = srcs[k];

        if (load) {
            load_fn(term, srcs[k], n, job->scale->pre);
            right = term;
        }
        job->combine(k + 1 == nsrcs && !store ? (void *) dst : acc, left, right, n);
        left = acc;
    }
    if (store)
        job->kernels->store[job->dtype](dst, left, n, job->scale);
    else if (nsrcs == 1)
        memmove(dst, left, n * job->nbytes);
}

static void reduce_blocks(const struct job *job, char *dst, const void *const *srcs, int nsrcs,
                          size_t count)
{
    static const char zeros[BLOCK_COUNT * ACC_NBYTES_MAX];
    const char *block[RG_REDUCE_SOURCES_MAX];

    for (size_t i = 0; i < count; i += BLOCK_COUNT) {
        size_t n = count - i < BLOCK_COUNT ? count - i : BLOCK_COUNT;

        for (int k = 0; k < nsrcs; k++)
            block[k] = srcs[k] ? (const char *) srcs[k] + i * job->nbytes : zeros;
        reduce_block(job, dst + i * job->nbytes, block, nsrcs, n);
    }
}

static bool all_exist(const void *const *srcs, int nsrcs)
{
    for (int k = 0; k < nsrcs; k++) {
        if (!srcs[k])
            return false;
    }
    return true;
}

void rg_reduce(int dtype, int op, void *dst, const void *const *srcs, int nsrcs, size_t count,
               const struct rg_scale *scale)
{
    const struct rg_kernels *kernels = current()->kernels;
    bool integer = dtype <= REIGEN_INT64;
    const struct job job = {
        .kernels = kernels,
        .dtype = dtype,
        .combine = kernels->combine[dtype][kernel_ops[op]],
        .nbytes = rg_dtype_nbytes(dtype),
        .scale = scale,
        .widened = dtype == REIGEN_FLOAT16 || dtype == REIGEN_BFLOAT16,
        .pre = scale->pre != 1.0,
        .post = scale->post != 1.0 || (integer && scale->divisor > 1),
    };

    if (count == 0)
        return;
    if (!job.pre && nsrcs > 1 && all_exist(srcs, nsrcs)) {
        rg_sum_fn sum = op == REIGEN_SUM && nsrcs <= 4 ? kernels->sum[dtype][nsrcs] : NULL;

        if (sum) {
            sum(dst, srcs, count, scale->post);
            return;
        }
        if (nsrcs == 2 && !job.widened && !job.post) {
            job.combine(dst, srcs[0], srcs[1], count);
            return;
        }
    }
    if (nsrcs == 1 && !job.pre && !job.post && srcs[0]) {
        if (dst != srcs[0])
            memcpy(dst, srcs[0], count * job.nbytes);
        return;
    }
    reduce_blocks(&job, dst, srcs, nsrcs, count);
}

void rg_dots(int dtype, const void *a, const void *b, size_t count, double dots[3])
{
    current()->kernels->dots[dtype](a, b, count, dots);
}

void rg_blend(int dtype, void *dst, const void *a, const void *b, size_t count, double u,
              double v)
{
    current()->kernels->blend[dtype](dst, a, b, count, u, v);
}

void rg_widen(int dtype, void *acc, const void *src, size_t count, double factor)
{
    current()->kernels->load[dtype](acc, src, count, factor);
}

void rg_narrow(int dtype, void *dst, const void *acc, size_t count, double factor)
{
    const struct rg_scale scale = { 1.0, factor, 1 };

    current()->kernels->store[dtype](dst, acc, count, &scale);
}
