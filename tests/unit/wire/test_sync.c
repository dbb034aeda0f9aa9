/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "wire/sync.h"

static bool is_plain(const char *path)
{
    return rg_sync_path_is_plain(path, strlen(path));
}

static void paths_that_lead_out_are_refused(void **state)
{
    static const char *const bad[] = { "", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/..",
                                       "../a", "a/../b", "a/./b" };
    static const char *const good[] = { "a", "a/b", "...", "..a", ".a/..b", "a b\n\xff" };
    char name[RG_SYNC_NAME_MAX + 2];

    (void) state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(is_plain(bad[i]));
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_true(is_plain(good[i]));
    assert_false(rg_sync_path_is_plain("a\0b", 3));
    memset(name, 'n', sizeof(name));
    assert_true(rg_sync_path_is_plain(name, RG_SYNC_NAME_MAX));
    assert_false(rg_sync_path_is_plain(name, RG_SYNC_NAME_MAX + 1));
}

static void an_entry_comes_back_as_it_was(void **state)
{
    static struct rg_sync_entry file = { RG_SYNC_FILE, 0755, 12, 34, { 1, 2 }, "a/b", "" };
    static struct rg_sync_entry link = { RG_SYNC_LINK, 0, 0, 0, { 0 }, "l", "../x" }, back;
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    (void) state;
    rg_sync_entry_put(&buf, &file);
    rg_sync_entry_put(&buf, &link);
    struct rg_reader reader = rg_reader_make(rg_buf_bytes(&buf), rg_buf_nbytes(&buf));
    assert_int_equal(rg_sync_entry_read(&reader, &back), 0);
    assert_int_equal(back.mode, 0755);
    assert_int_equal(back.nbytes, 12);
    assert_int_equal(back.mtime_ns, 34);
    assert_memory_equal(back.hash, file.hash, sizeof(back.hash));
    assert_string_equal(back.path, "a/b");
    assert_int_equal(rg_sync_entry_read(&reader, &back), 0);
    assert_string_equal(back.target, "../x");
    assert_int_equal(rg_reader_done(&reader), 0);
    assert_int_equal(rg_sync_entry_read(&reader, &back), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_that_lead_out_are_refused),
        cmocka_unit_test(an_entry_comes_back_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
