/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of what leaders say, where they are written and where they are checked. */
#include "coll/negotiate/order_frames.h"

#include <stdlib.h>
#include <string.h>

#include "coll/node/signature.h"

enum { ID = 1, RANK = 2, FLAGS = 4, NAME = 8, SIG = 16, TEXT = 32, SEQ = 64 };

static const uint8_t parts[RG_ORDER_NTYPES] = {
    [RG_ORDER_OFFER_NEW] = ID | SEQ | NAME | SIG | TEXT,
    [RG_ORDER_OFFER] = ID,
    [RG_ORDER_JOIN] = RANK | FLAGS,
    [RG_ORDER_DIED] = RANK | TEXT,
    [RG_ORDER_SHUTDOWN] = RANK,
    [RG_ORDER_STALL_REPLY] = TEXT,
    [RG_ORDER_DECIDED_NEW] = ID | SEQ | FLAGS | NAME | SIG | TEXT,
    [RG_ORDER_DECIDED] = ID | SEQ | FLAGS,
    [RG_ORDER_JOINED] = RANK,
    [RG_ORDER_EVICT] = ID,
    [RG_ORDER_EVICTED] = ID | SEQ,
    [RG_ORDER_BLOCKED] = FLAGS,
    [RG_ORDER_VOID] = ID | SEQ,
    [RG_ORDER_LACK] = ID | SEQ,
    [RG_ORDER_WAITING] = ID | SEQ,
    [RG_ORDER_HAVE] = ID | SEQ,
};

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static double from_bits(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void put_signature(const struct rg_signature *sig, struct rg_buf *buf)
{
    rg_buf_put_u8(buf, sig->kind);
    rg_buf_put_u8(buf, sig->dtype);
    rg_buf_put_u8(buf, sig->op);
    rg_buf_put_u8(buf, sig->memory);
    rg_buf_put_u8(buf, sig->ndim);
    rg_buf_put_u32(buf, (uint32_t) sig->root);
    rg_buf_put_u32(buf, (uint32_t) sig->process_set);
    rg_buf_put_u32(buf, (uint32_t) sig->group_size);
    rg_buf_put_u64(buf, bits_of(sig->prescale));
    rg_buf_put_u64(buf, bits_of(sig->postscale));
    for (int i = 0; i < sig->ndim; i++)
        rg_buf_put_u64(buf, (uint64_t) sig->shape[i]);
    if (sig->group_size > 0) {
        rg_buf_put_u64(buf, (uint64_t) sig->group_count);
        rg_buf_put_u64(buf, sig->group_digest);
    }
}

static void get_signature(struct rg_reader *reader, struct rg_signature *sig)
{
    sig->kind = rg_reader_u8(reader);
    sig->dtype = rg_reader_u8(reader);
    sig->op = rg_reader_u8(reader);
    sig->memory = rg_reader_u8(reader);
    sig->ndim = rg_reader_u8(reader);
    sig->root = (int32_t) rg_reader_u32(reader);
    sig->process_set = (int32_t) rg_reader_u32(reader);
    sig->group_size = (int32_t) rg_reader_u32(reader);
    sig->prescale = from_bits(rg_reader_u64(reader));
    sig->postscale = from_bits(rg_reader_u64(reader));
    for (int i = 0; i < sig->ndim && i < REIGEN_NDIM_MAX; i++)
        sig->shape[i] = (int64_t) rg_reader_u64(reader);
    if (sig->group_size > 0) {
        sig->group_count = (int64_t) rg_reader_u64(reader);
        sig->group_digest = rg_reader_u64(reader);
    }
    if (rg_signature_check(sig) < 0)
        reader->bad = true;
}

void rg_order_frame_put(const struct rg_order_frame *frame, struct rg_buf *buf)
{
    uint8_t has = parts[frame->type];

    if (has & ID)
        rg_buf_put_u32(buf, frame->id);
    if (has & SEQ)
        rg_buf_put_u32(buf, frame->seq);
    if (has & RANK)
        rg_buf_put_u32(buf, frame->rank);
    if (has & FLAGS)
        rg_buf_put_u8(buf, frame->flags);
    if (has & NAME)
        rg_buf_put_str(buf, frame->name);
    if (has & SIG)
        put_signature(&frame->sig, buf);
    if (has & TEXT) {
        size_t length = frame->text ? strlen(frame->text) : 0;

        rg_buf_put_span(buf, frame->text,
                        length < RG_ORDER_TEXT_MAX ? length : RG_ORDER_TEXT_MAX);
    }
}

static int get_parts(struct rg_reader *reader, struct rg_order_frame *frame)
{
    uint8_t has = parts[frame->type];

    if (has & ID)
        frame->id = rg_reader_u32(reader);
    if (has & SEQ)
        frame->seq = rg_reader_u32(reader);
    if (has & RANK)
        frame->rank = rg_reader_u32(reader);
    if (has & FLAGS)
        frame->flags = rg_reader_u8(reader);
    if (has & NAME)
        frame->name = rg_reader_str(reader, RG_ORDER_NAME_MAX);
    if (has & SIG)
        get_signature(reader, &frame->sig);
    if (has & TEXT)
        frame->text = rg_reader_str(reader, RG_ORDER_TEXT_MAX);
    if (rg_reader_done(reader) < 0)
        return -EBADMSG;
    return ((has & NAME) && !frame->name) || ((has & TEXT) && !frame->text) ? -ENOMEM : 0;
}

int rg_order_frame_get(uint16_t type, const void *payload, size_t nbytes,
                       struct rg_order_frame *ret_frame)
{
    struct rg_order_frame frame = { .type = (uint8_t) type };
    struct rg_reader reader = rg_reader_make(payload, nbytes);
    int r;

    if (type == 0 || type >= RG_ORDER_NTYPES)
        return -EBADMSG;
    r = get_parts(&reader, &frame);
    if (r < 0)
        rg_order_frame_fini(&frame);
    else
        *ret_frame = frame;
    return r;
}

void rg_order_frame_fini(struct rg_order_frame *frame)
{
    free((char *) (uintptr_t) frame->name);
    free((char *) (uintptr_t) frame->text);
    *frame = (struct rg_order_frame) { 0 };
}
