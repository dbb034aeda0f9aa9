/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "wire/codec.h"
#include "wire/link.h"

struct thing {
    uint8_t u8;
    uint32_t u32;
    int32_t i32;
    uint64_t u64;
    char *str;
    struct rg_strv strv;
    struct rg_span span;
};

static const struct rg_field fields[] = {
    RG_FIELD(U8, struct thing, u8),
    RG_FIELD(U32, struct thing, u32),
    RG_FIELD(I32, struct thing, i32),
    RG_FIELD(U64, struct thing, u64),
    RG_FIELD(STR, struct thing, str),
    RG_FIELD(STRV, struct thing, strv),
    RG_FIELD(SPAN, struct thing, span),
    RG_FIELD_LAST,
};

static void fill(struct thing *thing)
{
    *thing = (struct thing) { .u8 = 200, .u32 = 4000000000u, .i32 = -5, .u64 = 1ull << 63 };
    thing->str = strdup("text");
    rg_strv_add(&thing->strv, "PATH=/bin");
    rg_strv_add(&thing->strv, "");
    thing->span.data = malloc(3);
    memcpy(thing->span.data, "a\0b", 3);
    thing->span.nbytes = 3;
}

static void check_is_zero(const struct thing *thing)
{
    assert_int_equal(thing->u8, 0);
    assert_true(thing->u64 == 0);
    assert_null(thing->str);
    assert_null(thing->strv.v);
    assert_null(thing->span.data);
    assert_int_equal(thing->span.nbytes, 0);
}

static void every_kind_comes_back(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    struct thing thing, again = { 0 };

    (void) state;
    fill(&thing);
    rg_codec_encode(fields, &thing, &buf);
    assert_int_equal(rg_buf_status(&buf), 0);
    assert_int_equal(rg_buf_nbytes(&buf), 1 + 4 + 4 + 8 + (4 + 4) + (4 + 4 + 9 + 4) + (4 + 3));
    assert_int_equal(
        rg_codec_decode(fields, rg_buf_bytes(&buf), rg_buf_nbytes(&buf), &again), 0);
    assert_int_equal(again.u8, 200);
    assert_int_equal(again.u32, 4000000000u);
    assert_int_equal(again.i32, -5);
    assert_true(again.u64 == 1ull << 63);
    assert_string_equal(again.str, "text");
    assert_int_equal(again.strv.count, 2);
    assert_string_equal(again.strv.v[0], "PATH=/bin");
    assert_string_equal(again.strv.v[1], "");
    assert_null(again.strv.v[2]);
    assert_int_equal(again.span.nbytes, 3);
    assert_memory_equal(again.span.data, "a\0b", 3);
    rg_codec_clear(fields, &thing);
    rg_codec_clear(fields, &again);
    check_is_zero(&again);
    rg_codec_clear(fields, &again);
}

static void zeroed_object_travels_as_empty_strings(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    struct thing thing = { 0 }, again = { 0 };

    (void) state;
    rg_codec_encode(fields, &thing, &buf);
    assert_int_equal(
        rg_codec_decode(fields, rg_buf_bytes(&buf), rg_buf_nbytes(&buf), &again), 0);
    assert_string_equal(again.str, "");
    assert_int_equal(again.strv.count, 0);
    assert_null(again.span.data);
    rg_codec_clear(fields, &again);
}

static void truncation_at_every_byte_leaves_a_cleared_object(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    struct thing thing, again = { 0 };

    (void) state;
    fill(&thing);
    rg_codec_encode(fields, &thing, &buf);
    rg_codec_clear(fields, &thing);
    for (size_t n = 0; n < rg_buf_nbytes(&buf); n++) {
        assert_int_equal(rg_codec_decode(fields, rg_buf_bytes(&buf), n, &again), -EBADMSG);
        check_is_zero(&again);
    }
    rg_buf_put_u8(&buf, 0);
    assert_int_equal(
        rg_codec_decode(fields, rg_buf_bytes(&buf), rg_buf_nbytes(&buf), &again), -EBADMSG);
    check_is_zero(&again);
}

static const struct rg_field only_str[] = {
    RG_FIELD(STR, struct thing, str),
    RG_FIELD_LAST,
};
static const struct rg_field only_strv[] = {
    RG_FIELD(STRV, struct thing, strv),
    RG_FIELD_LAST,
};
static const struct rg_field only_span[] = {
    RG_FIELD(SPAN, struct thing, span),
    RG_FIELD_LAST,
};

static int decode(const struct rg_field *table, struct rg_buf *buf)
{
    struct thing thing = { 0 };
    int rc = rg_codec_decode(table, rg_buf_bytes(buf), rg_buf_nbytes(buf), &thing);

    if (rc < 0)
        check_is_zero(&thing);
    rg_codec_clear(table, &thing);
    rg_buf_clear(buf);
    return rc;
}

/* A claimed length beyond a cap is refused even if all the bytes are there. */
static void lengths_beyond_the_caps_are_refused(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    rg_autofree char *text = malloc(RG_CODEC_STR_MAX + 1);

    (void) state;
    memset(text, 'x', RG_CODEC_STR_MAX + 1);
    rg_buf_put_span(&buf, text, RG_CODEC_STR_MAX);
    assert_int_equal(decode(only_str, &buf), 0);
    rg_buf_put_span(&buf, text, RG_CODEC_STR_MAX + 1);
    assert_int_equal(decode(only_str, &buf), -EBADMSG);
    for (uint32_t count = RG_CODEC_STRV_MAX; count <= RG_CODEC_STRV_MAX + 1; count++) {
        rg_buf_put_u32(&buf, count);
        for (uint32_t i = 0; i < count; i++)
            rg_buf_put_u32(&buf, 0);
        assert_int_equal(decode(only_strv, &buf), count > RG_CODEC_STRV_MAX ? -EBADMSG : 0);
    }
    rg_buf_put_u32(&buf, RG_FRAME_MAX + 1);
    memset(rg_buf_reserve(&buf, RG_FRAME_MAX + 1), 0, RG_FRAME_MAX + 1);
    rg_buf_commit(&buf, RG_FRAME_MAX + 1);
    assert_int_equal(decode(only_span, &buf), -EBADMSG);
    rg_buf_put_u32(&buf, UINT32_MAX);
    assert_int_equal(decode(only_strv, &buf), -EBADMSG);
}

static void nul_inside_a_string_is_refused(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    (void) state;
    rg_buf_put_span(&buf, "a\0b", 3);
    assert_int_equal(decode(only_str, &buf), -EBADMSG);
    rg_buf_put_u32(&buf, 2);
    rg_buf_put_str(&buf, "fine");
    rg_buf_put_span(&buf, "\0", 1);
    assert_int_equal(decode(only_strv, &buf), -EBADMSG);
}

static void sender_learns_what_the_peer_would_refuse(void **state)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    rg_autofree char *text = malloc(RG_CODEC_STR_MAX + 2);
    struct thing thing = { .str = text };

    (void) state;
    memset(text, 'x', RG_CODEC_STR_MAX + 1);
    text[RG_CODEC_STR_MAX + 1] = '\0';
    rg_codec_encode(only_str, &thing, &buf);
    assert_int_equal(rg_buf_status(&buf), -EMSGSIZE);
    rg_buf_clear(&buf);
    thing.span = (struct rg_span) { (uint8_t *) text, RG_FRAME_MAX + 1u };
    rg_codec_encode(only_span, &thing, &buf);
    assert_int_equal(rg_buf_status(&buf), -EMSGSIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back),
        cmocka_unit_test(zeroed_object_travels_as_empty_strings),
        cmocka_unit_test(truncation_at_every_byte_leaves_a_cleared_object),
        cmocka_unit_test(lengths_beyond_the_caps_are_refused),
        cmocka_unit_test(nul_inside_a_string_is_refused),
        cmocka_unit_test(sender_learns_what_the_peer_would_refuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
