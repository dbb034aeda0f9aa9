/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "unit.h"

static void strings_are_valid_whatever_they_hold(void **state)
{
    static const struct {
        const char *bytes;
        size_t nbytes;
        bool text;
        const char *json;
    } cases[] = {
        { "", 0, true, "\"\"" },
        { "a\"b\\c\n\x7f", 7, true, "\"a\\\"b\\\\c\\u000a\\u007f\"" },
        { "a\0b", 3, true, "\"a\\u0000b\"" },
        { "\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82", 9, true,
          "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82\"" },
        { "\xc3\xa4", 1, false, "\"?\"" },         /* cut off */
        { "\xc0\x80", 2, false, "\"??\"" },        /* longer than needed */
        { "\xed\xa0\x80", 3, false, "\"???\"" },   /* half of a pair */
        { "\xf4\x90\x80\x80x", 5, false, "\"????x\"" },
        { "\xff", 1, false, "\"?\"" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        rg_autobuf struct rg_buf buf = RG_BUF_INIT;
        assert_int_equal(rg_json_is_text(cases[i].bytes, cases[i].nbytes), cases[i].text);
        rg_json_put_bytes(&buf, cases[i].bytes, cases[i].nbytes);
        assert_string_equal(rg_buf_text(&buf), cases[i].json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_valid_whatever_they_hold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
