/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is on the sockets of the exchange between leaders (far.h), and its limits. A frame is a
 * header of 16 bytes (u32 number, u32 use, u32 bytes of payload, u8 level, u8 round of joins, u16
 * zero; little-endian) and the payload.
 */
#ifndef RG_COLL_FAR_FAR_FRAME_H
#define RG_COLL_FAR_FAR_FRAME_H

#include <stdint.h>

#include "coll/ground/types.h"

#define RG_FAR_NBYTES_MAX RG_DIRECT_MAX /* payload of an operation */
#define RG_FAR_IDS_MAX (1u << 20)   /* numbers are below */
#define RG_FAR_HEADER_NBYTES 16

/* What a frame is about. Of the doubling: 0 is a folded leader's part, i + 1 the doubling's step i,
 * the one after the last step the result for who was folded. */
enum rg_far_level {
    RG_FAR_LEVEL_IN = 0,
    RG_FAR_LEVEL_PART = 128,   /* of shots: the sender's data, for this leader to reduce */
    RG_FAR_LEVEL_RESULT = 129, /* of two shots: the sender's block, reduced */
    RG_FAR_LEVEL_CALL = 255,   /* without a payload: come, folded leader */
};

struct rg_far_frame {
    uint32_t id, seq, nbytes;
    uint8_t level, round;
};

#endif
