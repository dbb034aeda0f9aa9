/* SPDX-License-Identifier: Apache-2.0 */
/* Binding to the cores near a GPU, by a tree of files that passes for the kernel's. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coll/gpu/near.h"

static char root[] = "/tmp/reigen-near-XXXXXX";
static char list[128];

static int make_tree(void **state)
{
    static const char *const folders[] = { "bus", "bus/pci", "bus/pci/devices",
                                           "bus/pci/devices/0000:3b:00.0" };
    char path[128];

    (void) state;
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    snprintf(list, sizeof(list), "%s/%s/local_cpulist", root, folders[3]);
    return 0;
}

static int remove_tree(void **state)
{
    char path[128];

    (void) state;
    snprintf(path, sizeof(path), "%s", list);
    unlink(path);
    for (char *end; strlen(path) > strlen(root) && (end = strrchr(path, '/'));) {
        *end = '\0';
        rmdir(path);
    }
    return 0;
}

static int bind_with(const char *cpus)
{
    struct rg_error err = RG_ERROR_INIT;
    FILE *file = fopen(list, "w");
    int r;

    assert_non_null(file);
    fputs(cpus, file);
    fclose(file);
    r = rg_near_bind(root, "0000:3B:00.0", &err);
    assert_true(r > 0 || strstr(err.text, "local_cpulist does not tell"));
    return r;
}

static _Atomic int phase;

/* A thread that is there already: how many cores it may use in the end. */
static void *other(void *arg)
{
    cpu_set_t cpus;

    atomic_store(&phase, 1);
    unit_until(atomic_load(&phase) >= 2, "the test");
    sched_getaffinity(0, sizeof(cpus), &cpus);
    *(int *) arg = CPU_COUNT(&cpus);
    return NULL;
}

static void all_threads_get_the_cores_that_are_near(void **state)
{
    cpu_set_t before, after;
    int first = 0, nother = 0;
    pthread_t thread;
    char text[64];

    (void) state;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    while (!CPU_ISSET(first, &before))
        first++;
    assert_int_equal(pthread_create(&thread, NULL, other, &nother), 0);
    assert_true(unit_until(atomic_load(&phase) != 0, "the thread"));
    /* Cores that this process may not use do not make it lose those that it has. */
    assert_int_equal(bind_with("1000-1003\n"), 4);
    sched_getaffinity(0, sizeof(after), &after);
    assert_true(CPU_EQUAL(&before, &after));
    snprintf(text, sizeof(text), "%d,1000-1003\n", first);
    assert_int_equal(bind_with(text), 5);
    sched_getaffinity(0, sizeof(after), &after);
    assert_true(CPU_COUNT(&after) == 1 && CPU_ISSET(first, &after));
    atomic_store(&phase, 2);
    pthread_join(thread, NULL);
    assert_int_equal(nother, 1);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

static void what_the_kernel_does_not_tell_is_an_error(void **state)
{
    static const char *const broken[] = { "", "\n", "none\n", "0;1\n", "5-3\n", "-1\n" };
    struct rg_error err = RG_ERROR_INIT;
    cpu_set_t before, after;

    (void) state;
    sched_getaffinity(0, sizeof(before), &before);
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
        assert_int_equal(bind_with(broken[i]), -ENOENT);
    assert_int_equal(rg_near_bind(root, "0000:99:00.0", &err), -ENOENT);
    assert_int_equal(rg_near_bind(root, "", &err), -ENOENT);
    sched_getaffinity(0, sizeof(after), &after);
    assert_true(CPU_EQUAL(&before, &after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_kernel_does_not_tell_is_an_error),
        cmocka_unit_test(all_threads_get_the_cores_that_are_near),
    };

    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
