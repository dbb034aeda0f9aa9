/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "unit.h"

#define STRANGER 54321

static char dir[64], path[128], other[128];

static int make_dir(void **state)
{
    (void) state;
    strcpy(dir, "/tmp/reigen-trust-XXXXXX");
    if (!mkdtemp(dir) || chmod(dir, 01777) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/file", dir);
    snprintf(other, sizeof(other), "%s/other", dir);
    return 0;
}

static int remove_dir(void **state)
{
    rg_autofree char *command = rg_strf("rm -rf '%s'", dir);

    (void) state;
    return system(command);
}

static void write_file(const char *file, mode_t mode)
{
    rg_autoclose int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_int_equal(rg_write_all(fd, "text", 4), 0);
    assert_int_equal(fchmod(fd, mode), 0);
}

static int try_to_read(mode_t forbidden, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    int r = rg_read_trusted("the plan", path, forbidden, 10, &text, NULL, err);

    if (r == 0)
        assert_string_equal(text, "text");
    return r;
}

static void what_others_can_change_is_not_read(void **state)
{
    static const struct { mode_t mode; int unchanged, secret; } cases[] = {
        { 0600, 0, 0 }, { 0400, 0, 0 }, { 0644, 0, -EPERM }, { 0640, 0, -EPERM },
        { 0666, -EPERM, -EPERM }, { 0620, -EPERM, -EPERM }, { 0602, -EPERM, -EPERM },
    };
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        write_file(path, cases[i].mode);
        assert_int_equal(try_to_read(RG_TRUST_UNCHANGED, &err), cases[i].unchanged);
        assert_int_equal(try_to_read(RG_TRUST_SECRET, &err), cases[i].secret);
        unlink(path);
    }
    assert_contains(err.text, "the plan ");
    assert_contains(err.text, "chmod");
    assert_int_equal(try_to_read(RG_TRUST_SECRET, &err), -ENOENT);
    assert_int_equal(mkfifo(path, 0600), 0); /* which nobody writes to */
    assert_int_equal(try_to_read(RG_TRUST_UNCHANGED, &err), -EINVAL);
    unlink(path);
}

static void what_belongs_to_a_stranger_is_not_read(void **state)
{
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    write_file(path, 0600);
    if (chown(path, STRANGER, STRANGER) < 0)
        skip();
    assert_int_equal(try_to_read(RG_TRUST_UNCHANGED, &err), -EPERM);
    assert_contains(err.text, "54321");
    unlink(path);
}

/* As a shell's `>`. 0 or -errno. */
static int try_to_write(const char *file)
{
    rg_autoclose int fd = rg_open_to_write(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    return fd < 0 ? fd : rg_write_all(fd, "new", 3);
}

static off_t size_of(const char *file)
{
    struct stat st;

    return stat(file, &st) < 0 ? -1 : st.st_size;
}

static void what_is_written_goes_where_it_was_meant_to(void **state)
{
    (void) state;
    assert_int_equal(try_to_write(path), 0);
    assert_int_equal(size_of(path), 3);
    write_file(path, 0600);
    assert_int_equal(try_to_write(path), 0);
    assert_int_equal(size_of(path), 3);
    assert_int_equal(symlink(path, other), 0); /* one of ours */
    write_file(path, 0600);
    assert_int_equal(try_to_write(other), 0);
    assert_int_equal(size_of(path), 3);
    assert_int_equal(chmod(dir, 0777), 0); /* where others could exchange the link meanwhile */
    write_file(path, 0600);
    assert_int_equal(try_to_write(other), -EPERM);
    assert_int_equal(size_of(path), 4);
    assert_int_equal(try_to_write(path), 0);
    assert_int_equal(chmod(dir, 01777), 0);
    unlink(other);
    assert_int_equal(link(path, other), 0);
    write_file(path, 0600);
    assert_int_equal(try_to_write(other), -EPERM);
    assert_int_equal(size_of(path), 4);
    unlink(other);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(try_to_write(path), -ENXIO); /* nobody reads it: no wait */
    assert_contains(rg_open_to_write_why(-ENXIO), "fifo");
    assert_contains(rg_open_to_write_why(-EPERM), "somebody else");
    assert_string_equal(rg_open_to_write_why(-ENOENT), strerror(ENOENT));
    unlink(path);
    assert_int_equal(try_to_write("/rg-not-there/file"), -ENOENT);
    assert_int_equal(try_to_write("/dev/null"), 0);
}

static void a_strangers_link_or_file_leads_nowhere(void **state)
{
    (void) state;
    write_file(path, 0600);
    assert_int_equal(symlink(path, other), 0);
    if (lchown(other, STRANGER, STRANGER) < 0)
        skip();
    assert_int_equal(try_to_write(other), -EPERM);
    assert_int_equal(size_of(path), 4);
    unlink(other);
    write_file(other, 0666);
    assert_int_equal(chown(other, STRANGER, STRANGER), 0);
    assert_int_equal(try_to_write(other), -EPERM);
    assert_int_equal(size_of(other), 4);
    /* In a folder that others cannot write, whose it is does not matter. */
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(try_to_write(other), 0);
    assert_int_equal(chmod(dir, 01777), 0);
    unlink(other);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_others_can_change_is_not_read),
        cmocka_unit_test(what_belongs_to_a_stranger_is_not_read),
        cmocka_unit_test(what_is_written_goes_where_it_was_meant_to),
        cmocka_unit_test(a_strangers_link_or_file_leads_nowhere),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
