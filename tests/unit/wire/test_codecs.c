/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's own codecs say what libsodium's say. The numbers of base64 are those of RFC 4648. */
#include <sodium.h>

#include "unit.h"

#define BASE64 sodium_base64_VARIANT_ORIGINAL

static int decode(const char *text, size_t room, char *ret_bytes, size_t *ret_nbytes)
{
    return sodium_base642bin((unsigned char *) ret_bytes, room, text, strlen(text), " \n",
                             ret_nbytes, NULL, BASE64);
}

static void bytes_become_digits_and_bytes_again(void **state)
{
    unsigned char all[256], back[256];
    char hex[2 * sizeof(all) + 1], both[3];
    size_t n = 0;

    (void) state;
    for (size_t i = 0; i < sizeof(all); i++)
        all[i] = (unsigned char) i;
    assert_ptr_equal(sodium_bin2hex(hex, sizeof(hex), all, sizeof(all)), hex);
    for (unsigned i = 0; i < sizeof(all); i++) {
        snprintf(both, sizeof(both), "%02x", i);
        assert_memory_equal(hex + 2 * i, both, 2);
    }
    assert_int_equal(sodium_hex2bin(back, sizeof(back), hex, 512, NULL, &n, NULL), 0);
    assert_int_equal(n, sizeof(all));
    assert_memory_equal(back, all, sizeof(all));
}

static void only_digits_are_taken_large_or_small(void **state)
{
    (void) state;
    for (int c = 0; c < 256; c++) {
        char text[2] = { '0', (char) c };
        unsigned char byte = 99;
        size_t n = 9;
        int expected = c && strchr("0123456789abcdefABCDEF", c) ? 0 : -1;

        assert_int_equal(sodium_hex2bin(&byte, 1, text, 2, NULL, &n, NULL), expected);
        assert_int_equal(n, expected == 0);
        if (expected == 0)
            assert_int_equal(byte, strtol((char[]){ (char) c, 0 }, NULL, 16));
    }
    unsigned char byte;
    size_t n;
    assert_int_equal(sodium_hex2bin(&byte, 1, "abc", 3, NULL, &n, NULL), -1);
    assert_int_equal(sodium_hex2bin(&byte, 1, "abcd", 4, NULL, &n, NULL), -1);
}

static void base64_is_that_of_the_rfc(void **state)
{
    static const char *const rows[][2] = {
        { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" },
        { "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" }, { "\xfb\xff\xfe", "+//+" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t nbytes = strlen(rows[i][0]), n = 99;
        char text[16], back[16];
        assert_int_equal(sodium_base64_encoded_len(nbytes, BASE64), strlen(rows[i][1]) + 1);
        sodium_bin2base64(text, strlen(rows[i][1]) + 1, (const unsigned char *) rows[i][0], nbytes,
                          BASE64);
        assert_string_equal(text, rows[i][1]);
        assert_int_equal(decode(text, nbytes, back, &n), 0);
        assert_int_equal(n, nbytes);
        assert_memory_equal(back, rows[i][0], nbytes);
    }
}

static void base64_that_is_torn_is_refused(void **state)
{
    static const char *const bad[] = { "Z", "Zg", "Zg=", "Zg===", "Zm9", "Zm9v=", "====", "=",
                                       "Zh==", "Zg==Zg==", "Zm9-", "Zm\x80v" };
    char back[16];
    size_t n;

    (void) state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(decode(bad[i], sizeof(back), back, &n), -1);
    assert_int_equal(decode("Zm9v\nYm Fy", sizeof(back), back, &n), 0);
    assert_int_equal(n, 6);
    assert_int_equal(decode("Zm9vYmFy", 5, back, &n), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_become_digits_and_bytes_again),
        cmocka_unit_test(only_digits_are_taken_large_or_small),
        cmocka_unit_test(base64_is_that_of_the_rfc),
        cmocka_unit_test(base64_that_is_torn_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
