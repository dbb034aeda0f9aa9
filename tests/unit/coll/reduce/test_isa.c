/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels a processor and its kernel permit, from the words that they answer with. */
#include "unit.h"

#include <stdio.h>

#include "coll/reduce/kernels.h"
#include "coll/reduce/reduce.h"

/* Registers as a server of 2017 answers them. */
static const struct rg_isa SERVER = { .leaf1_ecx = 0x38000000, .leaf7_ebx = 0xc0030020,
                                      .xcr0 = 0xe7 };

static void a_processor_with_everything_can_do_both(void **state)
{
    (void) state;
    assert_true(rg_isa_can(&SERVER, "avx2"));
    assert_true(rg_isa_can(&SERVER, "avx512"));
    assert_false(rg_isa_can(&SERVER, "neon"));
    assert_false(rg_isa_can(&(struct rg_isa) { 0 }, "avx2"));
}

static void each_missing_bit_counts(void **state)
{
    /* OSXSAVE, AVX, F16C; AVX2; ymm: without them neither. */
    struct rg_isa cpu;

    (void) state;
    for (int bit = 27; bit <= 29; bit++) {
        cpu = SERVER;
        cpu.leaf1_ecx &= ~(UINT32_C(1) << bit);
        assert_false(rg_isa_can(&cpu, "avx2") || rg_isa_can(&cpu, "avx512"));
    }
    cpu = SERVER;
    cpu.leaf7_ebx &= ~UINT32_C(0x20);
    assert_false(rg_isa_can(&cpu, "avx2") || rg_isa_can(&cpu, "avx512"));
    cpu = SERVER;
    cpu.xcr0 &= ~UINT32_C(4);
    assert_false(rg_isa_can(&cpu, "avx2") || rg_isa_can(&cpu, "avx512"));
    /* AVX512F, DQ, BW, VL; the kernel's saving of zmm: without them avx2. */
    for (int i = 0; i < 4; i++) {
        cpu = SERVER;
        cpu.leaf7_ebx &= ~(UINT32_C(1) << (int[]) { 16, 17, 30, 31 }[i]);
        assert_true(rg_isa_can(&cpu, "avx2"));
        assert_false(rg_isa_can(&cpu, "avx512"));
    }
    cpu = SERVER;
    cpu.xcr0 = 7;
    assert_true(rg_isa_can(&cpu, "avx2"));
    assert_false(rg_isa_can(&cpu, "avx512"));
}

/* Whether /proc/cpuinfo has a flag: the kernel leaves out what it does not let programs use. */
static bool kernel_says(const char *flag)
{
    char *line = NULL, want[32];
    size_t room = 0;
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "r");

    snprintf(want, sizeof want, " %s ", flag);
    while (file && !found && getline(&line, &room, file) > 0) {
        if (strncmp(line, "flags", 5) == 0) {
            line[strcspn(line, "\n")] = ' ';
            found = strstr(line, want) != NULL;
        }
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

static void this_processor_has_what_its_kernel_says(void **state)
{
    struct rg_isa cpu = rg_isa_read();
    bool avx2 = kernel_says("avx2") && kernel_says("f16c");
    bool avx512 = avx2 && kernel_says("avx512f") && kernel_says("avx512dq") &&
                  kernel_says("avx512bw") && kernel_says("avx512vl");

    (void) state;
    assert_int_equal(rg_isa_can(&cpu, "avx2"), avx2);
    assert_int_equal(rg_isa_can(&cpu, "avx512"), avx512);
    unsetenv("REIGEN_CPU");
    assert_string_equal(rg_reduce_variant(), avx512 ? "avx512" : avx2 ? "avx2" : "scalar");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_processor_with_everything_can_do_both),
        cmocka_unit_test(each_missing_bit_counts),
        cmocka_unit_test(this_processor_has_what_its_kernel_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
