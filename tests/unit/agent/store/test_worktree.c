/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>

#include "agent/store/store.h"
#include "agent/store/worktree.h"
#include "base/fd.h"
#include "unit.h"

static char root[64], source[96];
static struct rg_error err;

static int set_up(void **state)
{
    (void) state;
    strcpy(root, "/tmp/rg-test-worktree-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(source, sizeof(source), "%s/source", root);
    mkdir(source, 0755);
    err = (struct rg_error) RG_ERROR_INIT;
    return setenv("TMPDIR", root, 1);
}

static int tear_down(void **state)
{
    (void) state;
    rg_autofree char *base = rg_strf("%s/reigen-%u", root, (unsigned) geteuid());
    rg_autofree char *kept = rg_strf("%s/files", base);

    rg_store_remove_tree(source);
    rg_store_remove_tree(kept);
    rmdir(base);
    return rmdir(root); /* what a destroyed one has left makes it fail */
}

static void put(struct rg_buf *list, enum rg_filelist_kind kind, const char *path, const char *text)
{
    struct rg_filelist_entry entry = { .kind = kind };

    strcpy(entry.path, path);
    if (kind == RG_FILELIST_LINK)
        strcpy(entry.target, text);
    else if (rg_filelist_is_file(&entry))
        entry.nbytes = strlen(text);
    crypto_hash_sha256(entry.hash, (const uint8_t *) text, entry.nbytes);
    rg_filelist_put(list, &entry);
}

static void write_source(const char *name, const char *text)
{
    rg_autofree char *path = rg_strf("%s/%s", source, name);
    rg_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    assert_int_equal(rg_write_all(fd, text, strlen(text)), 0);
}

/* Feeds the list, and lets it look. What feed or step said, and it is destroyed then. */
static int begin(const struct rg_buf *list, struct rg_worktree **ret_tree)
{
    struct rg_worktree *tree;
    int r = 0;

    assert_int_equal(rg_worktree_create(source, rg_buf_nbytes(list), NULL, &tree), 0);
    for (size_t i = 0; r == 0 && i < rg_buf_nbytes(list); i++)
        r = rg_worktree_feed(tree, rg_buf_bytes(list) + i, 1, &err);
    while (r == 0 && rg_worktree_state(tree) == RG_WORKTREE_LOOKING)
        r = rg_worktree_step(tree, &err);
    if (r < 0)
        rg_worktree_destroy(tree);
    else
        *ret_tree = tree;
    return r;
}

static void assert_file(const struct rg_worktree *tree, const char *name, const char *text,
                        mode_t mode)
{
    rg_autofree char *path = rg_strf("%s/%s", rg_worktree_path(tree), name);
    rg_autofree char *found = NULL;
    struct stat st;

    assert_int_equal(rg_read_file(path, 4096, &found, NULL), 0);
    assert_string_equal(found, text);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, mode);
}

static void the_same_directory_is_used_where_it_is(void **state)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;
    struct rg_worktree *tree;

    (void) state;
    write_source("a", "one");
    put(&list, RG_FILELIST_FILE, "a", "one");
    assert_int_equal(begin(&list, &tree), 0);
    assert_int_equal(rg_worktree_state(tree), RG_WORKTREE_READY);
    assert_string_equal(rg_worktree_path(tree), source);
    rg_worktree_destroy(tree);
    write_source("a", "owe"); /* of the same size */
    assert_int_equal(begin(&list, &tree), 0);
    assert_int_equal(rg_worktree_state(tree), RG_WORKTREE_FILLING);
    rg_worktree_destroy(tree);
}

static void what_is_here_is_copied_and_what_is_not_comes(void **state)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;
    struct rg_worktree *tree;
    size_t nbytes;

    (void) state;
    umask(022);
    write_source("old", "old text");
    write_source("changed", "before");
    put(&list, RG_FILELIST_FILE, "changed", "after!");
    put(&list, RG_FILELIST_FOLDER, "d", "");
    put(&list, RG_FILELIST_PROGRAM, "d/e/x\n\xff", "#!/bin/sh");
    put(&list, RG_FILELIST_FILE, "empty", "");
    put(&list, RG_FILELIST_LINK, "link", "d/e");
    put(&list, RG_FILELIST_FILE, "old", "old text");
    assert_int_equal(begin(&list, &tree), 0);
    assert_int_equal(rg_worktree_state(tree), RG_WORKTREE_FILLING);
    assert_int_equal(*rg_worktree_missing(tree, &nbytes), 0x3);
    assert_int_equal(nbytes, 1);
    assert_int_equal(rg_worktree_lacks(tree), 15);
    assert_int_equal(rg_worktree_feed(tree, (const uint8_t *) "aft", 3, &err), 0);
    assert_int_equal(rg_worktree_feed(tree, (const uint8_t *) "er!#!/bin/sh", 12, &err), 0);
    assert_int_equal(rg_worktree_state(tree), RG_WORKTREE_READY);
    assert_string_not_equal(rg_worktree_path(tree), source);
    assert_file(tree, "changed", "after!", 0644);
    assert_file(tree, "link/x\n\xff", "#!/bin/sh", 0755);
    assert_file(tree, "empty", "", 0644);
    assert_file(tree, "old", "old text", 0644);
    assert_int_equal(rg_worktree_feed(tree, (const uint8_t *) "x", 1, &err), -EBADMSG);
    rg_worktree_destroy(tree);
}

static int count_kept(void)
{
    rg_autofree char *path = rg_strf("%s/reigen-%u/files", root, (unsigned) geteuid());
    rg_autodir DIR *list = opendir(path);
    int n = 0;

    for (struct dirent *entry; (entry = readdir(list));)
        n += *entry->d_name != '.';
    return n;
}

static void what_came_is_kept_until_somebody_has_changed_it(void **state)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;
    struct rg_worktree *tree, *second;

    (void) state;
    put(&list, RG_FILELIST_PROGRAM, "a", "one");
    assert_int_equal(begin(&list, &tree), 0);
    assert_int_equal(rg_worktree_feed(tree, (const uint8_t *) "one", 3, &err), 0);
    assert_int_equal(begin(&list, &second), 0);
    assert_int_equal(rg_worktree_state(second), RG_WORKTREE_READY);
    assert_string_not_equal(rg_worktree_path(second), rg_worktree_path(tree));
    assert_file(second, "a", "one", 0755);
    rg_worktree_destroy(second);
    rg_autofree char *path = rg_strf("%s/a", rg_worktree_path(tree));
    rg_autoclose int fd = open(path, O_WRONLY);
    assert_int_equal(rg_write_all(fd, "two", 3), 0);
    assert_int_equal(count_kept(), 1);
    rg_worktree_destroy(tree);
    assert_int_equal(count_kept(), 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(begin(&list, &tree), 0);
        assert_int_equal(rg_worktree_state(tree), i ? RG_WORKTREE_READY : RG_WORKTREE_FILLING);
        if (!i)
            assert_int_equal(rg_worktree_feed(tree, (const uint8_t *) "one", 3, &err), 0);
        assert_file(tree, "a", "one", 0755);
        rg_worktree_destroy(tree);
    }
    /* A rank's results do not stay in the place of what it was sent. */
    assert_int_equal(begin(&list, &tree), 0);
    rg_worktree_destroy(tree);
    put(&list, RG_FILELIST_FILE, "b", "first");
    assert_int_equal(begin(&list, &tree), 0);
    assert_int_equal(rg_worktree_feed(tree, (const uint8_t *) "first", 5, &err), 0);
    assert_int_equal(count_kept(), 2);
    rg_autofree char *result = rg_strf("%s/b", rg_worktree_path(tree));
    assert_int_equal(truncate(result, 1 << 20), 0);
    rg_worktree_destroy(tree);
    assert_int_equal(count_kept(), 1);
}

static void other_contents_than_the_list_s_are_refused(void **state)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;
    struct rg_worktree *tree;

    (void) state;
    put(&list, RG_FILELIST_FILE, "a", "one");
    assert_int_equal(begin(&list, &tree), 0);
    assert_int_equal(rg_worktree_feed(tree, (const uint8_t *) "two", 3, &err), -EBADMSG);
    assert_contains(err.text, "a did not come as the list says");
    rg_worktree_destroy(tree);
}

/* The list has a link, then a file below it. */
static void nothing_is_written_through_a_link(void **state)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT, lie = RG_BUF_INIT;
    struct rg_worktree *tree;

    (void) state;
    put(&list, RG_FILELIST_FOLDER, "a", "");
    put(&list, RG_FILELIST_LINK, "b", "a");
    put(&list, RG_FILELIST_FILE, "b/c", "");
    assert_int_equal(begin(&list, &tree), -ENOTDIR);
    put(&lie, RG_FILELIST_LINK, "a", "../../x");
    assert_int_equal(begin(&lie, &tree), -EBADMSG);
    assert_contains(err.text, "damaged");
}

static void a_full_disk_is_named_with_the_need(void **state)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;
    struct rg_filelist_entry entry = { .kind = RG_FILELIST_FILE, .path = "a",
                                       .nbytes = RG_FILELIST_NBYTES_MAX };
    struct rg_worktree *tree;

    (void) state;
    rg_filelist_put(&list, &entry);
    assert_int_equal(begin(&list, &tree), -ENOSPC);
    assert_contains(err.text, "1024 TiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_directory_is_used_where_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_here_is_copied_and_what_is_not_comes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_came_is_kept_until_somebody_has_changed_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(other_contents_than_the_list_s_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_written_through_a_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_is_named_with_the_need, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
