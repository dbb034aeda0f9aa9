/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "container/lz4.h"
#include "unit.h"

#define LARGE 300000

/* Words of a small language, with random bytes between them; kind 0: only those, 1: one byte. */
static uint8_t *make(size_t nbytes, unsigned kind)
{
    uint8_t *data = malloc(nbytes + 1);
    uint32_t seed = 1 + kind;

    assert_non_null(data);
    for (size_t i = 0; i < nbytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        if (kind == 1)
            data[i] = 'x';
        else if (kind && i > 100 && seed >> 29)
            data[i] = data[i - 1 - (i / 64 * 7 + kind) % 100];
        else
            data[i] = (uint8_t) (seed >> 24);
    }
    return data;
}

static size_t assert_comes_back(const uint8_t *data, size_t nbytes)
{
    rg_autobuf struct rg_buf packed = RG_BUF_INIT;
    uint8_t *out = malloc(nbytes + 1);

    assert_non_null(out);
    assert_int_equal(rg_lz4_pack(data, nbytes, &packed), 0);
    assert_true(rg_buf_nbytes(&packed) <= RG_LZ4_BOUND(nbytes));
    assert_int_equal(rg_lz4_unpack(rg_buf_bytes(&packed), rg_buf_nbytes(&packed), out, nbytes), 0);
    assert_memory_equal(out, data, nbytes);
    if (nbytes)
        assert_int_equal(rg_lz4_unpack(rg_buf_bytes(&packed), rg_buf_nbytes(&packed), out,
                                       nbytes - 1), -EBADMSG);
    free(out);
    return rg_buf_nbytes(&packed);
}

static void what_is_packed_comes_back(void **state)
{
    (void) state;
    for (unsigned kind = 0; kind < 4; kind++) {
        uint8_t *data = make(LARGE, kind);
        for (size_t n = 0; n < 300; n++)
            assert_comes_back(data, n);
        for (size_t n = 65530; n < 65545; n++)
            assert_comes_back(data, n);
        size_t n = assert_comes_back(data, LARGE);
        if (kind)
            assert_in_range(n, 1, LARGE * 2 / 3);
        free(data);
    }
}

/* As its page describes it: "abcd", a match of 10 bytes 4 back, "hello". */
static void a_block_of_the_format_is_read(void **state)
{
    static const uint8_t block[] = { 0x46, 'a', 'b', 'c', 'd', 4,   0,
                                     0x50, 'h', 'e', 'l', 'l', 'o' };
    uint8_t out[19];

    (void) state;
    assert_int_equal(rg_lz4_unpack(block, sizeof(block), out, sizeof(out)), 0);
    assert_memory_equal(out, "abcdabcdabcdabhello", sizeof(out));
}

static void a_damaged_block_is_refused(void **state)
{
    static const uint8_t far[] = { 0x10, 'a', 2, 0, 0x00 }, here[] = { 0x10, 'a', 0, 0, 0x00 },
                         open[] = { 0xf0, 255, 255 };
    uint8_t *data = make(2000, 3), out[2000];
    rg_autobuf struct rg_buf packed = RG_BUF_INIT;

    (void) state;
    assert_int_equal(rg_lz4_pack(data, 2000, &packed), 0);
    for (size_t n = 0; n < rg_buf_nbytes(&packed); n++)
        assert_int_equal(rg_lz4_unpack(rg_buf_bytes(&packed), n, out, sizeof(out)), -EBADMSG);
    assert_int_equal(rg_lz4_unpack(far, sizeof(far), out, 5), -EBADMSG);
    assert_int_equal(rg_lz4_unpack(here, sizeof(here), out, 5), -EBADMSG);
    assert_int_equal(rg_lz4_unpack(open, sizeof(open), out, sizeof(out)), -EBADMSG);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_packed_comes_back),
        cmocka_unit_test(a_block_of_the_format_is_read),
        cmocka_unit_test(a_damaged_block_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
