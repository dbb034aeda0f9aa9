/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/process/cpus.h"
#include "unit.h"

static void write_topology(const char *root, int cpu, const char *core, const char *socket)
{
    const struct { const char *name, *value; } files[] = { { "thread_siblings_list", core },
                                                           { "physical_package_id", socket } };

    for (int i = 0; i < 2; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/cpu%d/topology", root, cpu);
        assert_int_equal(rg_mkdir_all(path, 0777, NULL), 0);
        snprintf(path, sizeof path, "%s/cpu%d/topology/%s", root, cpu, files[i].name);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        assert_true(fd >= 0);
        assert_int_equal(rg_write_all(fd, files[i].value, strlen(files[i].value)), 0);
        close(fd);
    }
}

static void cores_and_sockets_are_those_of_the_kernel(void **state)
{
    static const int cpus[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    static const char *const siblings[] = { "0,4\n", "1,5\n", "2,6\n", "3,7\n" };
    char root[] = "/tmp/rg-cpus-XXXXXX", command[64];
    struct rg_cpus found;
    int count;

    (void) state;
    assert_non_null(mkdtemp(root));
    /* Two sockets of two cores of two threads: i and i + 4 share a core. */
    for (int i = 0; i < 8; i++)
        write_topology(root, i, siblings[i % 4], i % 4 < 2 ? "0\n" : "1\n");
    assert_int_equal(rg_cpus_make(root, cpus, 8, &found), 0);
    assert_int_equal(found.ncores, 4);
    assert_int_equal(found.nsockets, 2);
    rg_autofree int *core = rg_cpus_pick(&found, false, 2, &count);
    assert_int_equal(count, 2);
    assert_int_equal(core[0], 2);
    assert_int_equal(core[1], 6);
    rg_autofree int *socket = rg_cpus_pick(&found, true, 3, &count);
    assert_int_equal(count, 4);
    assert_int_equal(socket[0], 2);
    rg_cpus_fini(&found);
    snprintf(command, sizeof command, "rm -rf %s", root);
    assert_int_equal(system(command), 0);
    assert_int_equal(rg_cpus_make("/rg-not-there", cpus, 8, &found), 0);
    assert_int_equal(found.ncores, 8);
    assert_int_equal(found.nsockets, 1);
    rg_cpus_fini(&found);
}

static void a_list_of_cpus_is_written_as_the_kernel_writes_it(void **state)
{
    static const int numbers[] = { 0, 1, 2, 3, 8, 10, 11 };
    rg_autofree char *all = rg_cpus_text(numbers, 7);
    rg_autofree char *one = rg_cpus_text(numbers + 4, 1);
    rg_autofree char *none = rg_cpus_text(numbers, 0);

    (void) state;
    assert_string_equal(all, "0-3,8,10-11");
    assert_string_equal(one, "8");
    assert_string_equal(none, "");
}

/* The process's own affinity against what is said to be online. */
static void a_limit_is_what_is_less_than_all_that_is_online(void **state)
{
    char root[] = "/tmp/rg-cpus-XXXXXX", path[64], command[64];
    struct rg_cpus mine;

    (void) state;
    assert_non_null(mkdtemp(root));
    assert_int_equal(rg_cpus_read(root, &mine), 0);
    rg_autofree int *numbers = calloc((size_t) mine.count, sizeof *numbers);
    for (int i = 0; i < mine.count; i++)
        numbers[i] = mine.v[i].cpu; /* without files, in the kernel's order */
    rg_autofree char *text = rg_cpus_text(numbers, mine.count);
    rg_autofree char *unknown = rg_cpus_limit(root);
    assert_null(unknown);
    snprintf(path, sizeof path, "%s/online", root);
    const char *const online[] = { text, "0-8000" };
    for (int i = 0; i < 2; i++) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        assert_int_equal(rg_write_all(fd, online[i], strlen(online[i])), 0);
        assert_int_equal(rg_write_all(fd, "\n", 1), 0);
        close(fd);
        rg_autofree char *limit = rg_cpus_limit(root);
        if (i == 0)
            assert_null(limit);
        else
            assert_string_equal(limit, text);
    }
    rg_cpus_fini(&mine);
    snprintf(command, sizeof command, "rm -rf %s", root);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_and_sockets_are_those_of_the_kernel),
        cmocka_unit_test(a_list_of_cpus_is_written_as_the_kernel_writes_it),
        cmocka_unit_test(a_limit_is_what_is_less_than_all_that_is_online),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
