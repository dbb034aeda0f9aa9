/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one frame of all our streams: u32 length of the payload, u16 type, payload; little-endian.
 * It is used inside the launcher's links (link.h), and on sockets in clear (conn.h).
 *
 * Thread rule: pure functions; nothing blocks.
 */
#ifndef RG_WIRE_FRAME_H
#define RG_WIRE_FRAME_H

#include "base/buf.h"

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
