/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "launch/sync/list.h"
#include "launch/sync/marker.h"
#include "launch/sync/sync.h"
#include "unit.h"

static char root[] = "/tmp/reigen-plan-XXXXXX";
static struct rg_strv without;

static char *path_of(const char *name)
{
    static char path[4][512];
    static int next;

    snprintf(path[++next % 4], sizeof(path[0]), "%s/%s", root, name);
    return path[next % 4];
}

static void write_file(const char *name, const char *text)
{
    rg_autoclose int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_int_equal(rg_write_all(fd, text, strlen(text)), 0);
}

static struct rg_sync *look(const char *cwd)
{
    struct rg_sync *sync = NULL;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_sync_create(root, cwd, &without, NULL, NULL, &sync, &err) < 0)
        fail_msg("%s", err.text);
    return sync;
}

/* "file a", "again b", "dir c", "link d", one per line. */
static void put_list(const struct rg_sync *sync, struct rg_buf *text)
{
    static const char *const kinds[] = { "", "file", "again", "dir", "link" };
    struct rg_reader all = rg_reader_make(rg_buf_bytes(rg_sync_list(sync)),
                                          rg_buf_nbytes(rg_sync_list(sync)));
    static struct rg_sync_entry entry;

    while (all.nbytes > 0) {
        uint32_t n = rg_reader_u32(&all);
        uint16_t type = rg_reader_u16(&all);
        struct rg_reader part = rg_reader_make(rg_reader_bytes(&all, n), n);
        assert_int_equal(type, n ? RG_SYNC_LIST : RG_SYNC_LISTED);
        while (part.nbytes > 0) {
            assert_int_equal(rg_sync_entry_read(&part, &entry), 0);
            rg_buf_printf(text, "%s %s\n", kinds[entry.kind], entry.path);
        }
    }
}

static void it_lists_what_is_there_and_links_that_stay_inside(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char said[256];

    (void) state;
    assert_int_equal(mkdir(path_of("d"), 0755) | mkdir(path_of("d/e"), 0755) |
                     mkdir(path_of(".git"), 0755), 0);
    write_file("a", "same");
    write_file("b", "same");
    write_file("empty1", "");
    write_file("empty2", "");
    assert_int_equal(symlink("../../a", path_of("d/e/in")), 0);
    assert_int_equal(symlink("../../../a", path_of("d/e/out")), 0);
    assert_int_equal(symlink("/etc/passwd", path_of("abs")), 0);
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    assert_int_equal(rmdir(path_of(".git")), 0);

    rg_cleanup(rg_sync_cleanup) struct rg_sync *sync = look(path_of("d/e"));
    put_list(sync, &text);
    assert_string_equal(rg_buf_text(&text), "file a\nagain b\ndir d\ndir d/e\nlink d/e/in\n"
                                            "file empty1\nfile empty2\n");
    assert_string_equal(rg_sync_sub(sync), "d/e");
    assert_contains(rg_sync_text(sync, said, sizeof(said)), "4 files, 8 bytes");
    assert_contains(said, "3 links out of it or special files stay here, abs first");
}

static void a_file_that_changes_is_not_sent(void **state)
{
    rg_cleanup(rg_sync_cleanup) struct rg_sync *sync = look(root);
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(rg_sync_put_data(sync, 0, 0, &buf, &err), 4);
    assert_int_equal(rg_buf_nbytes(&buf), RG_FRAME_HEAD_NBYTES + 4 + 4);
    write_file("a", "else");
    assert_int_equal(rg_sync_put_data(sync, 0, 0, &buf, &err), -EBUSY);
    assert_contains(err.text, "/a has changed since the job began");
    unlink(path_of("a"));
    assert_int_equal(rg_sync_put_data(sync, 0, 0, &buf, &err), -EBUSY);
    assert_int_equal(mkfifo(path_of("a"), 0600), 0); /* and nobody waits for its other end */
    assert_int_equal(rg_sync_put_data(sync, 0, 0, &buf, &err), -EBUSY);
    unlink(path_of("a"));
    write_file("a", "same");
}

static bool has_marker(void)
{
    rg_autodir DIR *dir = opendir(root);
    bool found = false;

    for (struct dirent *d; (d = readdir(dir));)
        found |= rg_str_starts(d->d_name, ".reigen-sync-");
    return found;
}

static void a_host_is_asked_once_and_the_marker_goes(void **state)
{
    rg_cleanup(rg_sync_cleanup) struct rg_sync *sync = look(root);
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    bool first, second;

    (void) state;
    assert_int_equal(rg_sync_put_head(sync, "a", false, &buf, &first), 0);
    assert_int_equal(rg_sync_put_head(sync, "b", false, &buf, &second), 0);
    assert_true(first && second && has_marker());
    rg_sync_unmark(sync);
    assert_true(has_marker());
    assert_int_equal(rg_sync_decide(sync, "a", true), 0);
    rg_sync_unmark(sync);
    assert_false(has_marker());
    assert_int_equal(rg_sync_put_head(sync, "a", false, &buf, &first), 0);
    assert_false(first || has_marker());
    assert_int_equal(rg_sync_put_head(sync, "b", false, &buf, &second), 0);
    assert_true(second && has_marker());
    rg_sync_destroy(rg_steal_ptr(&sync));
    assert_false(has_marker());
}

/* As old as a file must be to have been forgotten. */
static void age(const char *name)
{
    const struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };

    assert_int_equal(utimensat(AT_FDCWD, path_of(name), old, AT_SYMLINK_NOFOLLOW), 0);
}

static bool is_there(const char *name)
{
    struct stat st;

    return lstat(path_of(name), &st) == 0;
}

static void a_marker_that_nobody_holds_is_removed_by_the_next_job(void **state)
{
    static const char left[] = ".reigen-sync-0123456789abcdef";
    static const char young[] = ".reigen-sync-0123456789abcde0";
    static const char held[] = ".reigen-sync-0123456789abcde1";
    static const char long_one[] = ".reigen-sync-0123456789abcde2";
    static const char link_[] = ".reigen-sync-0123456789abcde3";
    static const char mine[] = ".reigen-sync-notes";
    struct rg_sync_marker marker = RG_SYNC_MARKER_INIT;

    (void) state;
    write_file(left, "01234567890123456789012345678901");
    write_file(young, "01234567890123456789012345678901");
    write_file(held, "01234567890123456789012345678901");
    write_file(long_one, "012345678901234567890123456789012");
    write_file(mine, "mine");
    assert_int_equal(symlink("a", path_of(link_)), 0);
    age(left), age(held), age(long_one), age(mine), age(link_);
    rg_autoclose int lock = open(path_of(held), O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(rg_sync_marker_make(root, &marker), 0);
    assert_true(is_there(marker.name) && !is_there(left));
    assert_true(is_there(young) && is_there(held) && is_there(long_one) && is_there(mine) &&
                is_there(link_));
    age(marker.name); /* another job begins, and this one lives */
    struct rg_sync_marker second = RG_SYNC_MARKER_INIT;
    assert_int_equal(rg_sync_marker_make(root, &second), 0);
    assert_true(is_there(marker.name));
    rg_sync_marker_remove(root, &second);
    rg_sync_marker_remove(root, &marker);
    unlink(path_of(young)), unlink(path_of(held)), unlink(path_of(long_one));
    unlink(path_of(mine)), unlink(path_of(link_));
    assert_false(has_marker());
}

static void what_the_job_writes_itself_is_not_sent(void **state)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    assert_int_equal(mkdir(path_of("out"), 0755) | mkdir(path_of("outer"), 0755), 0);
    write_file("out/old", "old");
    write_file("outer/file", "mine");
    assert_int_equal(rg_strv_add(&without, path_of("out")), 0);
    rg_cleanup(rg_sync_cleanup) struct rg_sync *sync = look(root);
    put_list(sync, &text);
    assert_null(strstr(rg_buf_text(&text), "out\n"));
    assert_null(strstr(rg_buf_text(&text), "old"));
    assert_contains(rg_buf_text(&text), "outer/file");
    rg_strv_fini(&without);
    /* Its logs lie beside the files, or around them: these are the user's nevertheless. */
    assert_int_equal(rg_strv_add(&without, root), 0);
    rg_cleanup(rg_sync_cleanup) struct rg_sync *all = look(root);
    rg_buf_clear(&text);
    put_list(all, &text);
    assert_contains(rg_buf_text(&text), "outer/file");
    rg_strv_fini(&without);
}

static void the_home_is_not_sent(void **state)
{
    struct rg_sync *sync = NULL;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    setenv("HOME", root, 1);
    assert_int_equal(rg_sync_create(root, root, &without, NULL, NULL, &sync, &err), -EPERM);
    assert_contains(err.text, "the home directory is not sent");
    setenv("HOME", path_of("outer"), 1); /* which is in it */
    assert_int_equal(rg_sync_create(root, root, &without, NULL, NULL, &sync, &err), -EPERM);
    setenv("HOME", "/", 1);
    sync = look(root);
    rg_sync_destroy(sync);
    unsetenv("HOME");
}

static void too_much_names_the_largest(void **state)
{
    struct rg_sync *sync = NULL;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(truncate(path_of("b"), (off_t) 3 << 30), 0);
    assert_int_equal(rg_sync_create(root, root, &without, NULL, NULL, &sync, &err), -EFBIG);
    assert_contains(err.text, "has 3 GiB, and at most 1 GiB is sent. The largest: b (3 GiB), a (");
    assert_contains(err.text, ".gitignore");
    unlink(path_of("b"));
}

/* --- git -------------------------------------------------------------------------------------- */

static int shell(const char *script)
{
    rg_autofree char *command = rg_strf("cd %s && { %s; } >&2", root, script);

    return system(command);
}

static char *names_of(const char *dir, unsigned git_ms, struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_sync_names names;
    int r = rg_sync_list_names(dir, git_ms, &names, err);

    for (size_t i = 0; r == 0 && i < names.paths.count; i++)
        rg_buf_printf(&text, "%s ", names.paths.v[i]);
    rg_strv_fini(&names.paths);
    return r < 0 ? NULL : strdup(rg_buf_text(&text));
}

static void what_git_leaves_out_is_not_even_named(void **state)
{
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(shell("git init -q g && cd g && echo secret/ >.gitignore && mkdir -p "
                           "new/secret/deep new/empty new/other/made old && touch new/x "
                           "new/secret/k old/f && git -C new/other init -q && "
                           "echo made >new/other/.gitignore && git add old"), 0);
    rg_autofree char *first = names_of(path_of("g"), 60000, &err);
    assert_string_equal(first, ".gitignore new new/empty new/other new/other/.gitignore new/x "
                               "old/f ");
    /* What was a directory is a link now. */
    assert_int_equal(shell("cd g && mv old ../moved && ln -s ../moved old"), 0);
    rg_autofree char *second = names_of(path_of("g"), 60000, &err);
    assert_string_equal(second, ".gitignore new new/empty new/other new/other/.gitignore new/x "
                                "old ");
}

static void a_repository_that_a_hook_names_is_not_asked(void **state)
{
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(shell("git init -q one && cd one && echo key >.git/info/exclude && "
                           "touch key file && git init -q ../two"), 0);
    setenv("GIT_DIR", path_of("two/.git"), 1);
    rg_autofree char *names = names_of(path_of("one"), 60000, &err);
    unsetenv("GIT_DIR");
    assert_string_equal(names, "file ");
}

static void a_git_that_hangs_is_not_waited_for(void **state)
{
    rg_autofree char *before = strdup(getenv("PATH"));
    rg_autofree char *path = rg_strf("%s:%s", path_of("bin"), before);
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(shell("mkdir -p bin hangs/.git && printf '#!/bin/sh\nexec sleep 1000\n' "
                           ">bin/git && chmod 755 bin/git"), 0);
    setenv("PATH", path, 1);
    assert_null(names_of(path_of("hangs"), 200, &err));
    setenv("PATH", before, 1);
    assert_contains(err.text, "git ls-files: no answer within 0.2 s");
    assert_contains(err.text, "git cannot say what belongs to it");
}

static int set_up(void **state)
{
    (void) state;
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    rg_autofree char *command = rg_strf("rm -r %s", root);

    (void) state;
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_lists_what_is_there_and_links_that_stay_inside),
        cmocka_unit_test(a_file_that_changes_is_not_sent),
        cmocka_unit_test(a_host_is_asked_once_and_the_marker_goes),
        cmocka_unit_test(a_marker_that_nobody_holds_is_removed_by_the_next_job),
        cmocka_unit_test(what_the_job_writes_itself_is_not_sent),
        cmocka_unit_test(the_home_is_not_sent),
        cmocka_unit_test(too_much_names_the_largest),
        cmocka_unit_test(what_git_leaves_out_is_not_even_named),
        cmocka_unit_test(a_repository_that_a_hook_names_is_not_asked),
        cmocka_unit_test(a_git_that_hangs_is_not_waited_for),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
