/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "unit.h"

static void set_fills_and_returns_the_negative_errno(void **state)
{
    struct rg_error err = { 1, 2, "old" };

    (void) state;
    assert_int_equal(rg_error_set(&err, EINVAL, "-np %s: %d", "x", 3), -EINVAL);
    assert_int_equal(err.errnum, EINVAL);
    assert_int_equal(err.exit_code, 0);
    assert_string_equal(err.text, "-np x: 3");
    assert_int_equal(rg_error_set_exit(&err, ENOENT, 127, "gone"), -ENOENT);
    assert_int_equal(err.exit_code, 127);
}

static void lack_of_descriptors_comes_with_its_remedy(void **state)
{
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    rg_error_set(&err, EMFILE, "pipes: %s", strerror(EMFILE));
    assert_non_null(strstr(err.text, "; raise the limit of open files: ulimit -n"));
    rg_error_set_exit(&err, EMFILE, 70, "rank 3: %s", err.text);
    assert_ptr_equal(strstr(err.text, "ulimit -n"), err.text + strlen(err.text) - 9); /* once */
    rg_error_set(&err, ENFILE, "pipes");
    assert_non_null(strstr(err.text, "fs.file-max"));
}

static void null_error_is_accepted(void **state)
{
    (void) state;
    assert_int_equal(rg_error_set(NULL, EIO, "x"), -EIO);
    assert_int_equal(rg_error_set_exit(NULL, EIO, 1, "x"), -EIO);
    assert_int_equal(rg_error_prepend(NULL, "x"), -EINVAL);
}

static void prepend_keeps_the_cause(void **state)
{
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    rg_error_set_exit(&err, ENOENT, 127, "no such file");
    assert_int_equal(rg_error_prepend(&err, "rank %d", 2), -ENOENT);
    assert_string_equal(err.text, "rank 2: no such file");
    assert_int_equal(err.exit_code, 127);
}

static void set_may_quote_its_own_text(void **state)
{
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    rg_error_set(&err, EIO, "inner");
    rg_error_set(&err, EIO, "outer %s", err.text);
    assert_string_equal(err.text, "outer inner");
}

static bool is_utf8_end(const char *text)
{
    size_t n = strlen(text);
    size_t follow = 0;

    while (n > 0 && ((unsigned char) text[n - 1] & 0xC0) == 0x80) {
        n--;
        follow++;
    }
    unsigned char lead = n > 0 ? (unsigned char) text[n - 1] : 0;

    return follow == (lead >= 0xF0 ? 3u : lead >= 0xE0 ? 2u : lead >= 0xC0 ? 1u : 0u);
}

/* For every offset of the cut within characters of one to four bytes. */
static void long_text_is_cut_between_characters(void **state)
{
    static const char *const letters[] = { "x", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80" };
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    for (size_t l = 0; l < rg_array_len(letters); l++) {
        for (size_t shift = 0; shift < 4; shift++) {
            char text[4096] = "....";

            text[shift] = '\0';
            while (strlen(text) < 3 * RG_ERROR_TEXT_MAX)
                strcat(text, letters[l]);
            rg_error_set(&err, EIO, "%s", text);
            assert_true(strlen(err.text) >= RG_ERROR_TEXT_MAX - 4);
            assert_true(is_utf8_end(err.text));
            rg_error_prepend(&err, "a");
            assert_true(strlen(err.text) >= RG_ERROR_TEXT_MAX - 4);
            assert_true(is_utf8_end(err.text));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_fills_and_returns_the_negative_errno),
        cmocka_unit_test(lack_of_descriptors_comes_with_its_remedy),
        cmocka_unit_test(null_error_is_accepted),
        cmocka_unit_test(prepend_keeps_the_cause),
        cmocka_unit_test(set_may_quote_its_own_text),
        cmocka_unit_test(long_text_is_cut_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
