/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaders say to each other. A frame (wire/codec.h) has the parts that its type has, in this
 * order: id (u32), seq (u32), rank (u32), flags (u8), name (u32 length, bytes), signature, text
 * (u32 length, bytes). Integers are little-endian. A signature is u8 kind, dtype,
 * op, ndim; u32 root, process set, group size; the bits of two float64 (prescale, postscale); ndim
 * x u64 dimensions; of a group also u64 elements of all members and u64 digest of their shapes.
 *
 *      type          from         parts
 *      HEARTBEAT     both         -               nothing was said for a second
 *      OFFER_NEW     leader       id, seq, name,  ready on my node; text: why it fails there, or
 *                                 signature,      "". id: its number, where this offer refuses the
 *                                 text            direct use seq of it (order.h); else 0
 *      OFFER         leader       id              the same, by number
 *      JOIN          leader       rank, flags     all ranks of my node have joined, this one last;
 *                                                 flags bit 0: they have nothing in flight directly
 *      DIED          both         rank, text      a rank is dead
 *      SHUTDOWN      both         rank            a rank leaves; to leaders in order with decisions
 *      STALL_REPLY   leader       text            stall_facts.h, and JSON (diagnose.h)
 *      GOODBYE       both         -               I close; this is no death
 *      DECIDED_NEW   coordinator  id, seq, flags, run it; id is its number from now on, 0: it has
 *                                 name,           none; text: it fails, do not run it
 *                                 signature,
 *                                 text
 *      DECIDED       coordinator  id, seq, flags  run it; flags bit 0: the next decision runs fused
 *                                                 with it; bit 1: from use seq on it goes directly
 *      JOINED        coordinator  rank            all ranks have joined
 *      STALL_QUERY   coordinator  -               what does your node wait for?
 *      EVICT         coordinator  id              forget this number
 *      EVICTED       leader       id, seq         done: I shall not use it any more; seq would be
 *                                                 the next use
 *      BLOCKED       leader       flags           1: all ranks of my node wait and submit nothing
 *                                                 (progress/waits.h); 0: not so
 *      VOID          coordinator  id, seq         the direct use seq is void: who has begun it, or
 *                                                 will, is to offer it
 *      LACK          leader       id, seq         I have not begun it, and shall not
 *      WAITING       leader       id, seq         I have begun it, and it takes long
 *      CLEAR         leader       -               my node, which has joined, has nothing in flight
 *                                                 directly any more
 *      HAVE          leader       id, seq         after SHUTDOWN, of each number that goes so:
 *                                                 the last use that I have begun
 *      FROZEN        leader       -               that was all; I begin no more
 *      ENDED         coordinator  -               what is void of that was said before; the rest
 *                                                 comes to its end
 *
 * Thread rule: pure functions; nothing blocks.
 */
#ifndef RG_COLL_NEGOTIATE_ORDER_FRAMES_H
#define RG_COLL_NEGOTIATE_ORDER_FRAMES_H

#include "base/buf.h"
#include "coll/ground/types.h"

#define RG_ORDER_NAME_MAX 1024
#define RG_ORDER_TEXT_MAX (64u << 10)
#define RG_ORDER_PAYLOAD_MAX (RG_ORDER_NAME_MAX + RG_ORDER_TEXT_MAX + 1024)

enum rg_order_type {
    RG_ORDER_HEARTBEAT = 1,
    RG_ORDER_OFFER_NEW = 2,
    RG_ORDER_OFFER = 3,
    RG_ORDER_JOIN = 4,
    RG_ORDER_DIED = 5,
    RG_ORDER_SHUTDOWN = 6,
    RG_ORDER_STALL_REPLY = 7,
    RG_ORDER_GOODBYE = 8,
    RG_ORDER_DECIDED_NEW = 9,
    RG_ORDER_DECIDED = 10,
    RG_ORDER_JOINED = 11,
    RG_ORDER_STALL_QUERY = 12,
    RG_ORDER_EVICT = 13,
    RG_ORDER_EVICTED = 14,
    RG_ORDER_BLOCKED = 16,
    RG_ORDER_VOID = 17,
    RG_ORDER_LACK = 18,
    RG_ORDER_WAITING = 19,
    RG_ORDER_CLEAR = 20,
    RG_ORDER_HAVE = 21,
    RG_ORDER_FROZEN = 22,
    RG_ORDER_ENDED = 23,
    RG_ORDER_NTYPES,
};

enum {
    RG_ORDER_MORE = 1,   /* of decisions */
    RG_ORDER_DIRECT = 2, /* the same */
    RG_ORDER_IS_CLEAR = 1, /* of JOIN */
};

struct rg_order_frame {
    uint8_t type;
    uint32_t id, seq, rank;
    uint8_t flags;
    /* when decoded: owned, see rg_order_frame_fini; never NULL where the type has it */
    const char *name;
    struct rg_signature sig;
    const char *text;
};

/* Append the frame's payload to buf (its status tells of failures). A text that is too long is
 * cut. */
void rg_order_frame_put(const struct rg_order_frame *frame, struct rg_buf *buf);
/* Read a payload. 0, and the caller ends *ret_frame; -EBADMSG (unknown type, beyond the caps, a
 * signature out of range, bytes left over); -ENOMEM. */
int rg_order_frame_get(uint16_t type, const void *payload, size_t nbytes,
                       struct rg_order_frame *ret_frame);
void rg_order_frame_fini(struct rg_order_frame *frame);

#endif
