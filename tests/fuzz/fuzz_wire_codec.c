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
    RG_FIELD(U8, struct thing, u8),
    RG_FIELD(U32, struct thing, u32),
    RG_FIELD(I32, struct thing, i32),
    RG_FIELD(U64, struct thing, u64),
    RG_FIELD(STR, struct thing, str),
    RG_FIELD(STRV, struct thing, strv),
    RG_FIELD(SPAN, struct thing, span),
    RG_FIELD(STR, struct thing, last),
    RG_FIELD_LAST,
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
