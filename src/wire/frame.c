/* SPDX-License-Identifier: Apache-2.0 */
/* Where a stream of bytes is cut into frames: one place, as what comes in may be anything. */
#include "wire/frame.h"

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
