/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "wire/filelist.h"

static void only_plain_relative_paths_are_paths(void **state)
{
    static const char *const good[] = { "a", "a/b", "a\n", "\xff", ".a", "...", "a/..b", " " };
    static const char *const bad[] = { "", "/", "/a", "a/", "a//b", ".", "..", "a/.", "a/../b",
                                       "../a" };
    char deep[2 * RG_FILELIST_DEPTH_MAX + 2] = "a", wide[300];

    (void) state;
    for (size_t i = 0; i < rg_array_len(good); i++)
        assert_true(rg_filelist_is_path(good[i]));
    for (size_t i = 0; i < rg_array_len(bad); i++)
        assert_false(rg_filelist_is_path(bad[i]));
    for (int i = 1; i < RG_FILELIST_DEPTH_MAX; i++)
        strcat(deep, "/a");
    assert_true(rg_filelist_is_path(deep));
    strcat(deep, "/a");
    assert_false(rg_filelist_is_path(deep));
    memset(wide, 'a', sizeof(wide));
    wide[256] = '\0';
    assert_false(rg_filelist_is_path(wide));
    wide[255] = '\0';
    assert_true(rg_filelist_is_path(wide));
}

static void links_stay_inside_by_their_words(void **state)
{
    (void) state;
    assert_true(rg_filelist_stays_inside("a", "b"));
    assert_true(rg_filelist_stays_inside("a/b", "../c"));
    assert_true(rg_filelist_stays_inside("a/b/c", "./../../d"));
    assert_false(rg_filelist_stays_inside("a", "../c"));
    assert_false(rg_filelist_stays_inside("a/b", "../../c"));
    assert_false(rg_filelist_stays_inside("a/b", "c/../../../d/e"));
    assert_false(rg_filelist_stays_inside("a", "/etc/passwd"));
    assert_false(rg_filelist_stays_inside("a", ""));
}

static void put(struct rg_buf *buf, enum rg_filelist_kind kind, const char *path)
{
    struct rg_filelist_entry entry = { .kind = kind, .nbytes = 7, .hash = { 1, 2 },
                                       .target = "b" };

    strcpy(entry.path, path);
    rg_filelist_put(buf, &entry);
}

static int count(struct rg_buf *buf, size_t nbytes)
{
    struct rg_reader reader = rg_reader_make(rg_buf_bytes(buf), nbytes);
    static struct rg_filelist_entry entry;
    int n = 0, r = 0;

    entry = (struct rg_filelist_entry){ .nbytes = 0 };
    while (reader.nbytes && (r = rg_filelist_read(&reader, &entry)) == 0)
        n++;
    return r < 0 ? r : n;
}

static void a_list_is_read_as_it_was_written_or_not_at_all(void **state)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT, twice = RG_BUF_INIT;
    size_t ends[5] = { 0 };

    (void) state;
    for (int kind = 0; kind <= RG_FILELIST_FOLDER; kind++) {
        put(&list, kind, (char[]){ (char) ('a' + kind), 0 });
        ends[kind + 1] = rg_buf_nbytes(&list);
    }
    for (size_t n = 0, whole = 0; n <= rg_buf_nbytes(&list); n++) {
        whole += n == ends[whole + 1];
        assert_int_equal(count(&list, n), n == ends[whole] ? (int) whole : -EBADMSG);
    }
    put(&twice, RG_FILELIST_FILE, "a");
    put(&twice, RG_FILELIST_FILE, "a");
    assert_int_equal(count(&twice, rg_buf_nbytes(&twice)), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_plain_relative_paths_are_paths),
        cmocka_unit_test(links_stay_inside_by_their_words),
        cmocka_unit_test(a_list_is_read_as_it_was_written_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
