/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder over a table with every kind of field: what it takes, it writes again the same. */
#include "fuzz.h"
#include "wire/codec.h"

struct thing {
    uint8_t u8;
    uint32_t u32;
    int32_t i32;
    uint64_t u64;
    char *str;
    struct rg_strv strv;
    struct rg_span span;
    char *last;
};

static const struct rg_field fields[] = {
    { "u8", RG_FIELD_U8, offsetof(struct thing, u8) },
    { "u32", RG_FIELD_U32, offsetof(struct thing, u32) },
    { "i32", RG_FIELD_I32, offsetof(struct thing, i32) },
    { "u64", RG_FIELD_U64, offsetof(struct thing, u64) },
    { "str", RG_FIELD_STR, offsetof(struct thing, str) },
    { "strv", RG_FIELD_STRV, offsetof(struct thing, strv) },
    { "span", RG_FIELD_SPAN, offsetof(struct thing, span) },
    { "last", RG_FIELD_STR, offsetof(struct thing, last) },
    { NULL, RG_FIELD_END, 0 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const struct thing nothing;
    struct thing thing = nothing;
    rg_autobuf struct rg_buf again = RG_BUF_INIT;
    int rc = rg_codec_decode(fields, data, nbytes, &thing);

    if (rc < 0) {
        must(rc == -EBADMSG);
        must(!thing.str && !thing.last && !thing.strv.v && !thing.span.data && thing.u64 == 0);
        return 0;
    }
    rg_codec_encode(fields, &thing, &again);
    must(rg_buf_status(&again) == 0 && rg_buf_nbytes(&again) == nbytes);
    must(memcmp(rg_buf_bytes(&again), data, nbytes) == 0);
    rg_codec_clear(fields, &thing);
    return 0;
}
