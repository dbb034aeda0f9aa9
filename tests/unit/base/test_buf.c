/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "unit.h"

static void integers_are_little_endian(void **state)
{
    static const uint8_t expected[] = { 1, 3, 2, 7, 6, 5, 4, 15, 14, 13, 12, 11, 10, 9, 8 };
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    (void) state;
    rg_buf_put_u8(&buf, 0x01);
    rg_buf_put_u16(&buf, 0x0203);
    rg_buf_put_u32(&buf, 0x04050607);
    rg_buf_put_u64(&buf, 0x08090A0B0C0D0E0F);
    assert_int_equal(rg_buf_nbytes(&buf), sizeof(expected));
    assert_memory_equal(rg_buf_bytes(&buf), expected, sizeof(expected));

    struct rg_reader reader = rg_reader_make(expected, sizeof(expected));

    assert_int_equal(rg_reader_u8(&reader), 0x01);
    assert_int_equal(rg_reader_u16(&reader), 0x0203);
    assert_int_equal(rg_reader_u32(&reader), 0x04050607);
    assert_true(rg_reader_u64(&reader) == 0x08090A0B0C0D0E0F);
    assert_int_equal(rg_reader_done(&reader), 0);
}

static void strings_and_spans_come_back(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    size_t nbytes;

    (void) state;
    rg_buf_put_str(&buf, "host");
    rg_buf_put_str(&buf, NULL);
    rg_buf_put_span(&buf, "a\0b", 3);
    struct rg_reader reader = rg_reader_make(rg_buf_bytes(&buf), rg_buf_nbytes(&buf));
    rg_autofree char *host = rg_reader_str(&reader, 4);
    rg_autofree char *empty = rg_reader_str(&reader, 0);
    const uint8_t *span = rg_reader_span(&reader, 3, &nbytes);

    assert_string_equal(host, "host");
    assert_string_equal(empty, "");
    assert_int_equal(nbytes, 3);
    assert_memory_equal(span, "a\0b", 3);
    assert_int_equal(rg_reader_done(&reader), 0);
}

static void reading_past_the_end_is_sticky(void **state)
{
    struct rg_reader reader = rg_reader_make("\1\2\3", 3);

    (void) state;
    assert_int_equal(rg_reader_u16(&reader), 0x0201);
    assert_int_equal(rg_reader_u32(&reader), 0);
    assert_int_equal(rg_reader_u8(&reader), 0); /* though a byte was left */
    assert_null(rg_reader_bytes(&reader, 0));
    assert_int_equal(rg_reader_done(&reader), -EBADMSG);
}

static void truncation_at_every_byte_is_bad(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    (void) state;
    rg_buf_put_str(&buf, "text");
    rg_buf_put_u64(&buf, 5);
    for (size_t n = 0; n < rg_buf_nbytes(&buf); n++) {
        struct rg_reader reader = rg_reader_make(rg_buf_bytes(&buf), n);
        rg_autofree char *text = rg_reader_str(&reader, 100);

        rg_reader_u64(&reader);
        assert_int_equal(rg_reader_done(&reader), -EBADMSG);
    }
}

static void bytes_left_over_are_bad(void **state)
{
    struct rg_reader reader = rg_reader_make("\1\2", 2);

    (void) state;
    rg_reader_u8(&reader);
    assert_int_equal(rg_reader_done(&reader), -EBADMSG);
}

static void span_longer_than_its_cap_is_bad(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    size_t nbytes = 99;

    (void) state;
    rg_buf_put_str(&buf, "12345");
    struct rg_reader reader = rg_reader_make(rg_buf_bytes(&buf), rg_buf_nbytes(&buf));

    assert_null(rg_reader_span(&reader, 4, &nbytes));
    assert_int_equal(nbytes, 0);
    assert_int_equal(rg_reader_done(&reader), -EBADMSG);
}

static void string_with_a_nul_inside_is_bad(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    (void) state;
    rg_buf_put_span(&buf, "a\0b", 3);
    struct rg_reader reader = rg_reader_make(rg_buf_bytes(&buf), rg_buf_nbytes(&buf));

    assert_null(rg_reader_str(&reader, 10));
    assert_int_equal(rg_reader_done(&reader), -EBADMSG);
}

static void growth_beyond_the_cap_is_refused_and_sticky(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    (void) state;
    rg_buf_put_u8(&buf, 1);
    assert_null(rg_buf_reserve(&buf, RG_BUF_MAX));
    assert_int_equal(rg_buf_status(&buf), -EMSGSIZE);
    assert_null(rg_buf_reserve(&buf, SIZE_MAX));
    rg_buf_put_u8(&buf, 2);
    assert_int_equal(rg_buf_nbytes(&buf), 1);
    assert_string_equal(rg_buf_text(&buf), "");
    rg_buf_clear(&buf);
    rg_buf_put_u8(&buf, 3);
    assert_int_equal(rg_buf_status(&buf), 0);
    assert_int_equal(rg_buf_nbytes(&buf), 1);
}

/* Append and consume in changing steps; the bytes must come out in order, in bounded memory. */
static void stream_through_a_buffer_keeps_order_and_size(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    uint32_t in = 0, out = 0;

    (void) state;
    for (int round = 0; round < 20000; round++) {
        for (int i = 0; i < round % 7 + 1; i++)
            rg_buf_put_u32(&buf, in++);
        for (int i = 0; i < round % 11 && rg_buf_nbytes(&buf) >= 4; i++) {
            struct rg_reader reader = rg_reader_make(rg_buf_bytes(&buf), 4);

            assert_int_equal(rg_reader_u32(&reader), out++);
            rg_buf_consume(&buf, 4);
        }
    }
    assert_int_equal(rg_buf_status(&buf), 0);
    assert_int_equal(rg_buf_nbytes(&buf), 4 * (in - out));
    assert_true(buf.capacity <= 8192);
}

static void printf_builds_text_of_any_length(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    size_t expected = 0;

    (void) state;
    assert_string_equal(rg_buf_text(&buf), "");
    for (int i = 0; i < 1000; i++) {
        rg_buf_printf(&buf, "%d,%s;", i, i % 100 ? "" : "a longer piece of text in between");
        expected += (size_t) snprintf(NULL, 0, "%d,%s;", i,
                                      i % 100 ? "" : "a longer piece of text in between");
    }
    assert_int_equal(strlen(rg_buf_text(&buf)), expected);
    assert_int_equal(rg_buf_nbytes(&buf), expected); /* the NUL is not part of it */
    assert_memory_equal(rg_buf_text(&buf), "0,a longer", 10);
}

static void empty_reader_of_null_reads_empty_spans(void **state)
{
    struct rg_reader reader = rg_reader_make(NULL, 0);

    (void) state;
    assert_non_null(rg_reader_bytes(&reader, 0));
    assert_int_equal(rg_reader_done(&reader), 0);
    rg_buf_fini(NULL);
}

static void an_array_beyond_all_memory_is_refused(void **state)
{
    uint32_t *array = NULL;
    size_t capacity = 0;

    (void) state;
    assert_int_equal(rg_grow(&array, &capacity, SIZE_MAX), -ENOMEM);
    assert_int_equal(rg_grow(&array, &capacity, 17), 0);
    assert_true(capacity >= 17 && array[16] == 0);
    free(array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_little_endian),
        cmocka_unit_test(strings_and_spans_come_back),
        cmocka_unit_test(reading_past_the_end_is_sticky),
        cmocka_unit_test(truncation_at_every_byte_is_bad),
        cmocka_unit_test(bytes_left_over_are_bad),
        cmocka_unit_test(span_longer_than_its_cap_is_bad),
        cmocka_unit_test(string_with_a_nul_inside_is_bad),
        cmocka_unit_test(growth_beyond_the_cap_is_refused_and_sticky),
        cmocka_unit_test(an_array_beyond_all_memory_is_refused),
        cmocka_unit_test(stream_through_a_buffer_keeps_order_and_size),
        cmocka_unit_test(printf_builds_text_of_any_length),
        cmocka_unit_test(empty_reader_of_null_reads_empty_spans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
