/* SPDX-License-Identifier: Apache-2.0 */
/* One encoder and one decoder for all messages: what each field may be is checked here and nowhere
 * else. */
#include "wire/codec.h"

#include <string.h>


/* Where a field lies. */
static void *in(const struct rg_field *field, void *object)
{
    return (char *) object + field->offset;
}

static void encode_text(const char *text, struct rg_buf *buf)
{
    size_t nbytes = text ? strlen(text) : 0;

    /* The peer would refuse it; better that the sender knows. */
    if (nbytes > RG_CODEC_STR_MAX && buf->status == 0)
        buf->status = -EMSGSIZE;
    rg_buf_put_span(buf, text, nbytes);
}

static void encode_list(const struct rg_strv *list, struct rg_buf *buf)
{
    if (list->count > RG_CODEC_STRV_MAX && buf->status == 0)
        buf->status = -EMSGSIZE;
    rg_buf_put_u32(buf, (uint32_t) list->count);
    for (size_t i = 0; i < list->count && buf->status == 0; i++)
        encode_text(list->v[i], buf);
}

static void encode_span(const struct rg_span *span, struct rg_buf *buf)
{
    if (span->nbytes > RG_FRAME_MAX && buf->status == 0)
        buf->status = -EMSGSIZE;
    rg_buf_put_span(buf, span->data, span->nbytes);
}

void rg_codec_encode(const struct rg_field *fields, const void *object, struct rg_buf *buf)
{
    for (const struct rg_field *f = fields; f->kind != RG_FIELD_END; f++) {
        const void *p = (const char *) object + f->offset;

        switch (f->kind) {
        case RG_FIELD_U8: rg_buf_put_u8(buf, *(const uint8_t *) p); break;
        case RG_FIELD_U32: rg_buf_put_u32(buf, *(const uint32_t *) p); break;
        case RG_FIELD_I32: rg_buf_put_u32(buf, (uint32_t) * (const int32_t *) p); break;
        case RG_FIELD_U64: rg_buf_put_u64(buf, *(const uint64_t *) p); break;
        case RG_FIELD_STR: encode_text(*(char *const *) p, buf); break;
        case RG_FIELD_STRV: encode_list(p, buf); break;
        case RG_FIELD_SPAN: encode_span(p, buf); break;
        case RG_FIELD_END: break;
        }
    }
}

/* 0, -EBADMSG or -ENOMEM. */
static int decode_text(struct rg_reader *reader, char **ret_text)
{
    char *text = rg_reader_str(reader, RG_CODEC_STR_MAX);

    if (!text)
        return reader->bad ? -EBADMSG : -ENOMEM;
    *ret_text = text;
    return 0;
}

static int decode_list(struct rg_reader *reader, struct rg_strv *list)
{
    uint32_t count = rg_reader_u32(reader);
    int rc = reader->bad || count > RG_CODEC_STRV_MAX ? -EBADMSG : 0;

    /* Nothing is allocated for count itself: each string must be there. */
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        char *text = NULL;

        rc = decode_text(reader, &text);
        if (rc == 0)
            rc = rg_strv_take(list, text);
    }
    return rc;
}

static int decode_span(struct rg_reader *reader, struct rg_span *span)
{
    size_t nbytes;
    const uint8_t *bytes = rg_reader_span(reader, RG_FRAME_MAX, &nbytes);

    if (!bytes)
        return -EBADMSG;
    if (nbytes == 0)
        return 0;
    span->data = malloc(nbytes);
    if (!span->data)
        return -ENOMEM;
    memcpy(span->data, bytes, nbytes);
    span->nbytes = nbytes;
    return 0;
}

static int decode_field(const struct rg_field *field, struct rg_reader *reader, void *p)
{
    switch (field->kind) {
    case RG_FIELD_U8: *(uint8_t *) p = rg_reader_u8(reader); break;
    case RG_FIELD_U32: *(uint32_t *) p = rg_reader_u32(reader); break;
    case RG_FIELD_I32: *(int32_t *) p = (int32_t) rg_reader_u32(reader); break;
    case RG_FIELD_U64: *(uint64_t *) p = rg_reader_u64(reader); break;
    case RG_FIELD_STR: return decode_text(reader, p);
    case RG_FIELD_STRV: return decode_list(reader, p);
    case RG_FIELD_SPAN: return decode_span(reader, p);
    case RG_FIELD_END: break;
    }
    return reader->bad ? -EBADMSG : 0;
}

int rg_codec_decode(const struct rg_field *fields, const void *bytes, size_t nbytes,
                    void *ret_object)
{
    struct rg_reader reader = rg_reader_make(bytes, nbytes);
    int rc = 0;

    for (const struct rg_field *f = fields; rc == 0 && f->kind != RG_FIELD_END; f++)
        rc = decode_field(f, &reader, in(f, ret_object));
    if (rc == 0)
        rc = rg_reader_done(&reader);
    if (rc < 0)
        rg_codec_clear(fields, ret_object);
    return rc;
}

void rg_codec_clear(const struct rg_field *fields, void *object)
{
    for (const struct rg_field *f = fields; f->kind != RG_FIELD_END; f++) {
        void *p = in(f, object);

        switch (f->kind) {
        case RG_FIELD_U8: *(uint8_t *) p = 0; break;
        case RG_FIELD_U32: *(uint32_t *) p = 0; break;
        case RG_FIELD_I32: *(int32_t *) p = 0; break;
        case RG_FIELD_U64: *(uint64_t *) p = 0; break;
        case RG_FIELD_STR:
            free(*(char **) p);
            *(char **) p = NULL;
            break;
        case RG_FIELD_STRV: rg_strv_fini(p); break;
        case RG_FIELD_SPAN:
            free(((struct rg_span *) p)->data);
            *(struct rg_span *) p = (struct rg_span) { NULL, 0 };
            break;
        case RG_FIELD_END: break;
        }
    }
}

/* --- frames: what comes in may be anything ---------------------------------------------------- */

void rg_frame_put(struct rg_buf *buf, uint16_t type, const void *payload, size_t nbytes)
{
    /* Room for all of it: a frame is there as a whole or not at all. */
    if (!rg_buf_reserve(buf, RG_FRAME_HEAD_NBYTES + nbytes))
        return;
    rg_buf_put_u32(buf, (uint32_t) nbytes);
    rg_buf_put_u16(buf, type);
    rg_buf_put(buf, payload, nbytes);
}

bool rg_frame_peek(const struct rg_buf *buf, struct rg_frame *ret_frame)
{
    struct rg_reader reader = rg_reader_make(rg_buf_bytes(buf), rg_buf_nbytes(buf));
    uint32_t nbytes = rg_reader_u32(&reader);
    uint16_t type = rg_reader_u16(&reader);

    if (reader.bad)
        return false;
    *ret_frame = (struct rg_frame) { nbytes, type,
                                     reader.nbytes >= nbytes ? reader.data : NULL };
    return true;
}

void rg_frame_drop(struct rg_buf *buf, const struct rg_frame *frame)
{
    rg_buf_consume(buf, RG_FRAME_HEAD_NBYTES + (size_t) frame->nbytes);
}
