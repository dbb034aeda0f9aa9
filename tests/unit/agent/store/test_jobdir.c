/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <utime.h>

#include "agent/store/jobdir.h"
#include "base/fd.h"
#include "unit.h"

static char root[64];

static int set_up(void **state)
{
    (void) state;
    strcpy(root, "/tmp/rg-test-jobdir-XXXXXX");
    assert_non_null(mkdtemp(root));
    return setenv("XDG_RUNTIME_DIR", root, 1);
}

static int tear_down(void **state)
{
    (void) state;
    return rmdir(root); /* whatever is left makes it fail */
}

static void assert_file(const struct rg_jobdir *dir, const char *name, const char *text)
{
    rg_autofree char *path = rg_strf("%s/%s", dir->path, name);
    rg_autofree char *found = NULL;

    assert_int_equal(rg_read_file(path, 4096, &found, NULL), 0);
    assert_string_equal(found, text);
}

static void it_holds_links_and_hosts_and_is_ours_alone(void **state)
{
    rg_autostrv struct rg_strv hosts = RG_STRV_INIT, env = RG_STRV_INIT;
    struct rg_jobdir dir = RG_JOBDIR_INIT, other = RG_JOBDIR_INIT;
    char target[PATH_MAX], self[PATH_MAX];
    struct stat st;

    (void) state;
    rg_strv_add(&hosts, "a:2");
    rg_strv_add(&hosts, "fe80::1:3");
    assert_int_equal(rg_jobdir_make(NULL, &hosts, &dir, NULL), 0);
    assert_int_equal(rg_jobdir_make(NULL, &hosts, &other, NULL), 0);
    assert_string_not_equal(dir.path, other.path);
    assert_int_equal(stat(dir.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_file(&dir, "hosts", "a slots=2\nfe80::1 slots=3\n");
    assert_file(&dir, "hosts.mpich", "a:2\nfe80::1:3\n");
    assert_int_equal(rg_jobdir_env(&dir, &env), 0);
    ssize_t n = readlink(rg_env_get(&env, "REIGEN_RSH"), target, sizeof(target));
    assert_int_equal(readlink("/proc/self/exe", self, sizeof(self)), n);
    assert_memory_equal(target, self, (size_t) n);
    assert_string_equal(rg_env_get(&env, "REIGEN_JOB_DIR"), dir.path);
    rg_jobdir_remove(&dir);
    rg_jobdir_remove(&other);
    rg_jobdir_remove(&other);
}

static void what_others_put_into_it_goes_too_but_nothing_behind_links(void **state)
{
    struct rg_strv hosts = RG_STRV_INIT;
    struct rg_jobdir dir = RG_JOBDIR_INIT;
    rg_autofree char *outside = rg_strf("%s/outside", root);

    (void) state;
    assert_int_equal(mkdir(outside, 0700), 0);
    rg_autofree char *kept = rg_strf("%s/kept", outside);
    assert_int_equal(close(creat(kept, 0600)), 0);
    assert_int_equal(rg_jobdir_make(NULL, &hosts, &dir, NULL), 0);
    rg_autofree char *sub = rg_strf("%s/sub", dir.path);
    rg_autofree char *file = rg_strf("%s/sub/file", dir.path);
    rg_autofree char *link = rg_strf("%s/link", dir.path);
    assert_int_equal(mkdir(sub, 0700), 0);
    assert_int_equal(close(creat(file, 0600)), 0);
    assert_int_equal(symlink(outside, link), 0);
    rg_jobdir_remove(&dir);
    assert_int_equal(access(sub, F_OK), -1);
    assert_int_equal(unlink(kept), 0);
    assert_int_equal(rmdir(outside), 0);
}

static void one_that_a_killed_agent_left_is_swept(void **state)
{
    struct rg_strv hosts = RG_STRV_INIT;
    struct rg_jobdir old = RG_JOBDIR_INIT, held = RG_JOBDIR_INIT, dir = RG_JOBDIR_INIT;
    const struct utimbuf long_ago = { 1000, 1000 };
    rg_autofree char *nameless = NULL, *young = NULL;

    (void) state;
    assert_int_equal(rg_jobdir_make(NULL, &hosts, &old, NULL), 0);
    assert_int_equal(rg_jobdir_make(NULL, &hosts, &held, NULL), 0);
    close(old.fd); /* as its end would have done */
    *strrchr(old.path, '/') = '\0';
    nameless = rg_strf("%s/new-abcdef", old.path);
    young = rg_strf("%s/new-ghijkl", old.path);
    old.path[strlen(old.path)] = '/';
    assert_int_equal(mkdir(nameless, 0700), 0);
    assert_int_equal(mkdir(young, 0700), 0);
    assert_int_equal(utime(nameless, &long_ago), 0);
    assert_int_equal(utime(held.path, &long_ago), 0);
    assert_int_equal(rg_jobdir_make(NULL, &hosts, &dir, NULL), 0);
    assert_int_equal(access(old.path, F_OK), -1);
    assert_int_equal(access(held.path, F_OK), 0);
    assert_int_equal(access(nameless, F_OK), -1);
    assert_int_equal(rmdir(young), 0);
    rg_jobdir_remove(&held);
    rg_jobdir_remove(&dir);
}

static void a_given_one_stays_and_is_emptied(void **state)
{
    struct rg_strv hosts = RG_STRV_INIT;
    struct rg_jobdir dir = RG_JOBDIR_INIT;
    rg_autofree char *given = rg_strf("%s/given", root);

    (void) state;
    assert_int_equal(mkdir(given, 0700), 0);
    assert_int_equal(rg_jobdir_make(given, &hosts, &dir, NULL), 0);
    rg_jobdir_remove(&dir);
    assert_int_equal(rmdir(given), 0);
    assert_int_equal(rg_jobdir_make("/rg-not-there/x", &hosts, &dir, NULL), -ENOENT);
    assert_string_equal(dir.path, "");
}

/* Where the directory of jobs would be, and the next place. */
static void assert_passed_over(const char *next)
{
    struct rg_strv hosts = RG_STRV_INIT;
    struct rg_jobdir dir = RG_JOBDIR_INIT;

    assert_int_equal(rg_jobdir_make(NULL, &hosts, &dir, NULL), 0);
    assert_true(rg_str_starts(dir.path, next));
    rg_jobdir_remove(&dir);
}

static void one_that_is_not_ours_alone_is_passed_over(void **state)
{
    rg_autofree char *base = rg_strf("%s/reigen-%u", root, geteuid());
    rg_autofree char *next = rg_strf("%s/next", root);

    (void) state;
    assert_int_equal(mkdir(next, 0700), 0);
    setenv("TMPDIR", next, 1);
    assert_int_equal(mkdir(base, 0700), 0);
    assert_int_equal(chmod(base, 0777), 0);
    assert_passed_over(next);
    if (geteuid() == 0) {
        assert_int_equal(chmod(base, 0700), 0);
        assert_int_equal(chown(base, 65534, 65534), 0);
        assert_passed_over(next);
    }
    assert_int_equal(rmdir(base), 0);
    assert_int_equal(symlink(next, base), 0);
    assert_passed_over(next);
    unlink(base);
    unsetenv("TMPDIR");
    assert_int_equal(rmdir(next), 0);
}

/* In a mount name space of its own, so that nothing is left of it: 77 where there can be none. */
static int make_one_where_tmpdir_is_full(void)
{
    rg_autofree char *file = rg_strf("%s/full", root), *map = rg_strf("0 %u 1", geteuid());
    rg_autostrv struct rg_strv hosts = RG_STRV_INIT;
    struct rg_jobdir dir = RG_JOBDIR_INIT;
    char page[8192] = "";
    bool is_root = geteuid() == 0;

    if (unshare(CLONE_NEWNS | (is_root ? 0 : CLONE_NEWUSER)) < 0)
        return 77;
    rg_autoclose int map_fd = is_root ? -1 : open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    if (!is_root && rg_write_all(map_fd, map, strlen(map)) < 0)
        return 77;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", root, "tmpfs", 0, "size=4k") < 0)
        return 77;
    rg_autoclose int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (write(fd, page, sizeof(page)) == (ssize_t) sizeof(page))
        return 2; /* it is not full */
    unsetenv("XDG_RUNTIME_DIR");
    setenv("TMPDIR", root, 1);
    rg_strv_add(&hosts, "a:2");
    if (rg_jobdir_make(NULL, &hosts, &dir, NULL) < 0)
        return 3;
    bool elsewhere = !rg_str_starts(dir.path, root);
    rg_jobdir_remove(&dir);
    rg_autofree char *base = rg_strf("%s/reigen-%u", root, geteuid());
    return !elsewhere ? 4 : access(base, F_OK) == 0 ? 5 : 0;
}

static void one_that_is_full_is_passed_over(void **state)
{
    int status;
    pid_t pid = fork();

    (void) state;
    if (pid == 0)
        _exit(make_one_where_tmpdir_is_full());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_holds_links_and_hosts_and_is_ours_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_others_put_into_it_goes_too_but_nothing_behind_links,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_a_killed_agent_left_is_swept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_not_ours_alone_is_passed_over, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_full_is_passed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_given_one_stays_and_is_emptied, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
