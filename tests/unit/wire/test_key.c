/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "wire/link.h"

#define LAST_31 "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define HEX "00" LAST_31

static void key_survives_its_text(void **state)
{
    uint8_t key[RG_KEY_NBYTES], again[RG_KEY_NBYTES];
    char hex[2 * RG_KEY_NBYTES + 1];

    (void) state;
    assert_int_equal(rg_key_generate(key), 0);
    rg_key_format(key, hex);
    assert_int_equal(strlen(hex), 2 * RG_KEY_NBYTES);
    assert_int_equal(rg_key_parse(hex, again), 0);
    assert_memory_equal(key, again, RG_KEY_NBYTES);
    assert_int_equal(rg_key_generate(again), 0);
    assert_memory_not_equal(key, again, RG_KEY_NBYTES);
}

static void white_space_around_is_fine(void **state)
{
    uint8_t key[RG_KEY_NBYTES];

    (void) state;
    assert_int_equal(rg_key_parse(" \t" HEX "\r\n", key), 0);
    assert_int_equal(key[31], 31);
}

static void anything_else_is_refused(void **state)
{
    static const char *const bad[] = { "",      "00",    HEX "0",       HEX "00",
                                       HEX " 0", "x" HEX, "00 1" LAST_31, "g0" LAST_31,
                                       "a text of people's own, which could be guessed" };
    uint8_t key[RG_KEY_NBYTES] = { 42 };

    (void) state;
    for (size_t i = 0; i < rg_array_len(bad); i++)
        assert_int_equal(rg_key_parse(bad[i], key), -EINVAL);
    assert_int_equal(key[0], 42);
}

/* Expected: Python's hmac.new(bytes(range(32)), b"data", "sha256").hexdigest(). */
static void derived_key_is_an_hmac_of_the_purpose(void **state)
{
    uint8_t key[RG_KEY_NBYTES], data[RG_KEY_NBYTES], other[RG_KEY_NBYTES];
    char hex[2 * RG_KEY_NBYTES + 1];

    (void) state;
    assert_int_equal(rg_key_parse(HEX, key), 0);
    rg_key_derive(key, "data", data);
    rg_key_format(data, hex);
    assert_string_equal(hex, "9dd78fa36b26c332831fb2809d0ebb4398009accfaebbe45763a0459a214486f");
    rg_key_derive(key, "datb", other);
    assert_memory_not_equal(data, other, RG_KEY_NBYTES);
    rg_key_derive(key, "data", key);
    assert_memory_equal(data, key, RG_KEY_NBYTES);
}

/* Expected: RFC 5869, appendix A.3, whose salt and info are empty; and, with an info, Python's
 * hmac with SHA-256: that of b"ann~job\x01" by that of the secret by bytes(32). */
static void extracted_key_is_hkdf_s(void **state)
{
    uint8_t secret[22], key[RG_KEY_NBYTES];
    char hex[2 * RG_KEY_NBYTES + 1];

    (void) state;
    memset(secret, 0x0b, sizeof(secret));
    rg_key_extract(secret, sizeof(secret), "", key);
    rg_key_format(key, hex);
    assert_string_equal(hex, "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
    rg_key_extract(secret, sizeof(secret), "ann~job", key);
    rg_key_format(key, hex);
    assert_string_equal(hex, "0f788d756d02cc4187f169c98d3bd0ec9f0d54596e6d3540ec2c78c839cc62d3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_survives_its_text),
        cmocka_unit_test(white_space_around_is_fine),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(derived_key_is_an_hmac_of_the_purpose),
        cmocka_unit_test(extracted_key_is_hkdf_s),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
