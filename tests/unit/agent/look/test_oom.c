/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "agent/look/oom.h"
#include "base/fd.h"
#include "base/str.h"
#include "unit.h"

static char dir[64];

static int make_dir(void **state)
{
    (void) state;
    strcpy(dir, "/tmp/reigen-oom-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    rg_autofree char *command = rg_strf("rm -rf '%s'", dir);

    (void) state;
    return system(command);
}

static void write_file(const char *name, const char *text)
{
    rg_autofree char *path = rg_strf("%s/%s", dir, name);
    rg_autofree char *folder = strdup(path);

    *strrchr(folder, '/') = '\0';
    assert_int_equal(rg_mkdir_all(folder, 0700, NULL), 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void start(struct rg_oom *oom)
{
    rg_autofree char *group = rg_strf("%s/cgroup", dir);
    rg_autofree char *mount = rg_strf("%s/fs", dir);

    rg_oom_init(oom, group, mount);
}

static void version_2_counter_grows_by_one_per_death(void **state)
{
    struct rg_oom oom;

    (void) state;
    write_file("cgroup", "0::/a/b\n");
    write_file("fs/a/b/memory.events", "low 0\nhigh 7\nmax 3\noom 2\noom_kill 5\n");
    start(&oom);
    assert_false(rg_oom_happened(&oom));
    write_file("fs/a/b/memory.events", "low 0\noom 4\noom_kill 7\n");
    assert_true(rg_oom_happened(&oom));
    assert_true(rg_oom_happened(&oom));
    assert_false(rg_oom_happened(&oom));
}

static void version_1_counter_is_found_among_others(void **state)
{
    struct rg_oom oom;

    (void) state;
    write_file("cgroup", "9:name=systemd:/\n4:memory:/x\n0::/\n");
    write_file("fs/memory/x/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
    start(&oom);
    assert_false(rg_oom_happened(&oom));
    write_file("fs/memory/x/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    assert_true(rg_oom_happened(&oom));
    assert_false(rg_oom_happened(&oom));
}

static void mount_of_a_container_shows_only_its_own_part(void **state)
{
    struct rg_oom oom;

    (void) state;
    write_file("cgroup", "0::/system.slice/docker-1.scope\n");
    write_file("fs/memory.events", "oom_kill 1\n");
    start(&oom);
    write_file("fs/memory.events", "oom_kill 2\n");
    assert_true(rg_oom_happened(&oom));
}

static void without_a_counter_the_answer_is_no(void **state)
{
    struct rg_oom oom;

    (void) state;
    start(&oom);
    assert_false(rg_oom_happened(&oom));
    write_file("cgroup", "garbage\n:::\n4:memory\n0::/nowhere\n");
    start(&oom);
    assert_false(rg_oom_happened(&oom));
    rg_oom_init(&oom, "/proc/self/cgroup", "/sys/fs/cgroup");
    assert_false(rg_oom_happened(&oom));
}

static void the_nearest_limit_that_can_be_meant_is_named(void **state)
{
    struct rg_oom oom;
    char text[RG_OOM_TEXT_MAX];

    (void) state;
    write_file("cgroup", "0::/job/step\n");
    write_file("fs/job/step/memory.events", "oom_kill 0\n");
    write_file("fs/job/step/memory.max", "max\n");
    start(&oom);
    rg_oom_limit(&oom, text, sizeof(text));
    assert_string_equal(text, "no limit is set: all of the host's memory was in use");
    write_file("fs/job/memory.max", "1610612736\n");
    rg_oom_limit(&oom, text, sizeof(text));
    assert_string_equal(text, "limit 1.5 GiB of the control group /job");
    write_file("fs/job/step/memory.max", "67108864\n");
    rg_oom_limit(&oom, text, sizeof(text));
    assert_string_equal(text, "limit 64 MiB of the control group /job/step");

    write_file("cgroup", "4:memory:/docker/1\n");
    write_file("fs/memory/memory.oom_control", "oom_kill 0\n");
    write_file("fs/memory/memory.limit_in_bytes", "2147483648\n");
    start(&oom);
    rg_oom_limit(&oom, text, sizeof(text));
    assert_string_equal(text, "limit 2 GiB of this container");
    write_file("fs/memory/memory.limit_in_bytes", "9223372036854771712\n");
    rg_oom_limit(&oom, text, sizeof(text));
    assert_contains(text, "no limit is set");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(version_2_counter_grows_by_one_per_death, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(version_1_counter_is_found_among_others, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(mount_of_a_container_shows_only_its_own_part, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(the_nearest_limit_that_can_be_meant_is_named, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(without_a_counter_the_answer_is_no, make_dir, remove_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
