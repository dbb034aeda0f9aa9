/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is on the sockets of the exchange between leaders (far.h), and its limits. A frame is a
 * header of 16 bytes (u32 number, u32 use, u32 bytes of payload, u8 level, u8 round of joins, u16
 * zero; little-endian) and the payload.
 */
#ifndef RG_COLL_FAR_FAR_FRAME_H
#define RG_COLL_FAR_FAR_FRAME_H

#include <stdint.h>

#define RG_FAR_NBYTES_MAX 65536     /* payload of an operation */
#define RG_FAR_IDS_MAX (1u << 20)   /* numbers are below */
#define RG_FAR_HEADER_NBYTES 16

struct rg_far_frame {
    uint32_t id, seq, nbytes;
    uint8_t level, round;
};

#endif
