/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs to bytes and back, by tables: a message type is a C struct and an array that lists its
 * fields; one encoder and one decoder serve every message, and one fuzz target covers them all.
 *
 * A decoded struct owns its strings, lists and bytes; rg_codec_clear frees them by the same table.
 * Encoding is the fields in the table's order, little-endian, no padding, no tags: both sides have
 * the same RG_PROTOCOL_VERSION, which the handshake has checked.
 *
 * And the one frame of all our streams: u32 length of the payload, u16 type, payload. It is used
 * inside the launcher's links (link.h), and on sockets in clear (conn.h).
 *
 * Thread rule: tables are constant; objects belong to one thread. Nothing blocks.
 */
#ifndef RG_WIRE_CODEC_H
#define RG_WIRE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define RG_FRAME_MAX (16u << 20) /* bytes of one frame's payload */

enum rg_field_kind {
    RG_FIELD_END,
    RG_FIELD_U8,   /* uint8_t */
    RG_FIELD_U32,  /* uint32_t */
    RG_FIELD_I32,  /* int32_t */
    RG_FIELD_U64,  /* uint64_t */
    RG_FIELD_STR,  /* char *: u32 length + bytes; NULL travels as "" */
    RG_FIELD_STRV, /* struct rg_strv: u32 count + strings */
    RG_FIELD_SPAN, /* struct rg_span: u32 length + bytes */
};

struct rg_span {
    uint8_t *data;
    size_t nbytes;
};

/* Tables are made of RG_FIELD and end with RG_FIELD_LAST. The agent has hundreds of fields and
 * little room: each takes 4 bytes, and no relocation. */
struct rg_field {
    enum rg_field_kind kind : 8;
    uint16_t offset;
};

#define RG_FIELD(field_kind, type, member) { RG_FIELD_##field_kind, offsetof(type, member) }
#define RG_FIELD_LAST { RG_FIELD_END, 0 }

#define RG_CODEC_STR_MAX (1u << 20)   /* bytes of one string */
#define RG_CODEC_STRV_MAX (1u << 17)  /* strings of one list; a job may have 100,000 ranks */

/* Append the encoding of object to buf; errors are sticky in buf. */
void rg_codec_encode(const struct rg_field *fields, const void *object, struct rg_buf *buf);
/* Fill a zeroed object. 0; -EBADMSG (too short, too long, a cap passed, NUL in a string) or
 * -ENOMEM: the object is cleared then. */
int rg_codec_decode(const struct rg_field *fields, const void *bytes, size_t nbytes,
                    void *ret_object);
/* Free what the fields own and zero them. */
void rg_codec_clear(const struct rg_field *fields, void *object);

#define RG_FRAME_HEAD_NBYTES 6

struct rg_frame {
    uint32_t nbytes;        /* of the payload, as the head says */
    uint16_t type;
    const uint8_t *payload; /* in the buffer; NULL: not all of it is there */
};

/* Append a frame; nbytes is less than 4 GiB. buf's status tells of failures. */
void rg_frame_put(struct rg_buf *buf, uint16_t type, const void *payload, size_t nbytes);
/* Look at the first frame of buf. False: not even its head is there. The caller compares nbytes
 * with its cap before it waits for the rest. */
bool rg_frame_peek(const struct rg_buf *buf, struct rg_frame *ret_frame);
/* Drop the first frame, which is whole. */
void rg_frame_drop(struct rg_buf *buf, const struct rg_frame *frame);

#endif
