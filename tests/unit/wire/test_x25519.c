/* SPDX-License-Identifier: Apache-2.0 */
/* crypto_scalarmult() is the agent's own here; crypto_scalarmult_curve25519() is libsodium's. */
#include "unit.h"
#include "wire/crypto/crypto.h"

#define ROUNDS 200

static void unhex(const char *hex, uint8_t bytes[32])
{
    assert_int_equal(sodium_hex2bin(bytes, 32, hex, 64, NULL, NULL, NULL), 0);
}

/* RFC 7748, sections 5.2 and 6.1. */
static void published_vectors_are_reproduced(void **state)
{
    static const char *const vectors[][3] = {
        { "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
          "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
          "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552" },
        { "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
          "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
          "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957" },
    };
    uint8_t scalar[32], point[32], expected[32], result[32];

    (void) state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
        unhex(vectors[i][0], scalar);
        unhex(vectors[i][1], point);
        unhex(vectors[i][2], expected);
        assert_int_equal(crypto_scalarmult(result, scalar, point), 0);
        assert_memory_equal(result, expected, 32);
    }
}

/* RFC 7748, section 5.2: each result is the next scalar, each scalar the next point. */
static void a_thousand_times_the_last_result_is_reproduced(void **state)
{
    uint8_t scalar[32] = { 9 }, point[32] = { 9 }, result[32], expected[32];

    (void) state;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(crypto_scalarmult(result, scalar, point), 0);
        memcpy(point, scalar, 32);
        memcpy(scalar, result, 32);
    }
    unhex("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51", expected);
    assert_memory_equal(result, expected, 32);
}

static void it_agrees_with_libsodium(void **state)
{
    uint8_t scalar[32], point[32], result[32], expected[32];

    (void) state;
    for (int i = 0; i < ROUNDS; i++) {
        randombytes_buf(scalar, 32);
        randombytes_buf(point, 32);
        if (i < 40) /* near and beyond the prime, where numbers have two representations */
            memset(point + 1, i & 1 ? 0xff : 0, 31);
        int r = crypto_scalarmult_curve25519(expected, scalar, point);
        assert_int_equal(crypto_scalarmult(result, scalar, point), r);
        if (r == 0)
            assert_memory_equal(result, expected, 32);
        crypto_scalarmult_curve25519_base(expected, scalar);
        assert_int_equal(crypto_scalarmult_base(result, scalar), 0);
        assert_memory_equal(result, expected, 32);
    }
}

static void points_of_small_order_are_refused(void **state)
{
    static const char *const points[] = {
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    };
    uint8_t scalar[32], point[32], result[32];

    (void) state;
    for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++) {
        randombytes_buf(scalar, 32);
        unhex(points[i], point);
        assert_int_equal(crypto_scalarmult(result, scalar, point), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_are_reproduced),
        cmocka_unit_test(a_thousand_times_the_last_result_is_reproduced),
        cmocka_unit_test(it_agrees_with_libsodium),
        cmocka_unit_test(points_of_small_order_are_refused),
    };

    return rg_crypto_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
