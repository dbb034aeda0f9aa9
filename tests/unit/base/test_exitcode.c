/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/exitcode.h"
#include "unit.h"

static void the_table_is_in_order_and_complete(void **state)
{
    static const int codes[] = { 0, 1, 2, 69, 70, 74, 75, 76, 77, 78, 79, 124, 125, 126,
                                 127, 128 };
    size_t count;
    const struct rg_exit_info *table = rg_exit_table(&count);

    (void) state;
    assert_int_equal(count, rg_array_len(codes));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(table[i].code, codes[i]);
        assert_true(*rg_exit_name(codes[i]) && *table[i].meaning && *table[i].remedy);
    }
}

static void every_code_has_an_entry(void **state)
{
    (void) state;
    for (int code = 0; code < 256; code++)
        assert_non_null(rg_exit_find(code));
    assert_string_equal(rg_exit_name(7), "rank");
    assert_string_equal(rg_exit_name(137), "signal");
    assert_string_equal(rg_exit_name(192), "signal");
    assert_string_equal(rg_exit_name(193), "rank");
    assert_string_equal(rg_exit_name(76), "host-lost");
    assert_true(rg_exit_find(76)->retry);
    /* A typo, scancel or a limit does not go away by itself. */
    for (size_t i = 0; i < 7; i++)
        assert_false(rg_exit_find((int[]){ 2, 69, 75, 77, 78, 124, 125 }[i])->retry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_in_order_and_complete),
        cmocka_unit_test(every_code_has_an_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
