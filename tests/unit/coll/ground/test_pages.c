/* SPDX-License-Identifier: Apache-2.0 */
/* Whether it was asked for is looked up in the kernel's list of this process's memory, so nothing
 * here depends on how many huge pages there are. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "coll/ground/pages.h"
#include "unit.h"

#define NBYTES (8u << 20)

static char *map(int flags)
{
    char *at = mmap(NULL, NBYTES, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

/* The flags of the mapping with this address have "hg": VmFlags of proc_pid_smaps(5). */
static bool is_wanted(const char *at)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[512];
    bool here = false, wanted = false;

    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        unsigned long from, to;

        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = from <= (unsigned long) at && (unsigned long) at < to;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            wanted = strstr(line, " hg") != NULL;
    }
    fclose(file);
    return wanted;
}

/* A kernel without huge pages refuses, and there is nothing to see. */
static void skip_without_huge_pages(void)
{
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) < 0)
        skip();
}

static void fresh_memory_is_asked_for_between_its_ends(void **state)
{
    char *at = map(MAP_PRIVATE);
    long page = sysconf(_SC_PAGESIZE);

    (void) state;
    skip_without_huge_pages();
    assert_true(rg_pages_want_huge(at + 100, NBYTES - 200));
    assert_false(is_wanted(at));
    assert_true(is_wanted(at + page));
    assert_true(is_wanted(at + NBYTES - page - 1));
    assert_false(is_wanted(at + NBYTES - 1));
    for (size_t i = 0; i < NBYTES; i += 4096)
        assert_int_equal(at[i], 0);
    munmap(at, NBYTES);
}

static void memory_that_is_in_use_is_left_alone(void **state)
{
    char *at = map(MAP_PRIVATE);

    (void) state;
    memset(at, 1, NBYTES);
    assert_false(rg_pages_want_huge(at, NBYTES));
    assert_false(is_wanted(at + NBYTES / 2));
    munmap(at, NBYTES);
}

static void small_memory_is_left_alone(void **state)
{
    char *at = map(MAP_PRIVATE);

    (void) state;
    assert_false(rg_pages_want_huge(at, RG_PAGES_HUGE_MIN - 1));
    assert_false(rg_pages_want_huge(NULL, 0));
    assert_false(is_wanted(at + RG_PAGES_HUGE_MIN / 2));
    munmap(at, NBYTES);
}

static void addresses_without_memory_are_no_error(void **state)
{
    char *at = map(MAP_PRIVATE);

    (void) state;
    munmap(at, NBYTES);
    assert_false(rg_pages_want_huge(at, NBYTES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_memory_is_asked_for_between_its_ends),
        cmocka_unit_test(memory_that_is_in_use_is_left_alone),
        cmocka_unit_test(small_memory_is_left_alone),
        cmocka_unit_test(addresses_without_memory_are_no_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
