/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaders say to each other along their tree. A frame (wire/codec.h) has the parts that its
 * type has, in this order: node (u32), epoch (u64), id (u32), seq (u32), rank (u32), flags (u8),
 * name (u32 length, bytes), signature, text (u32 length, bytes), numbers, decisions. Integers are
 * little-endian. A signature is u8 kind, dtype, op, memory, ndim; u32 root, process set, group
 * size; the bits of two float64 (prescale, postscale); of a type that was added, which dtype says
 * by its highest bit (the next one: bits are to repeat), u32 parts and its name; ndim x u64
 * dimensions; of a group also u64 elements of all members and u64 digest of their shapes. Numbers
 * are, whichever is shorter, u8 0, u32 count of runs and of each u32 first, u32 length; or u8 1 and
 * a bit vector: u32 the number of bit 0, u32 length in bytes, bytes, the lowest bit first.
 * Decisions are u32 count of runs and of each u32 first id, u32 length, u32 seq, u8 flags.
 *
 * Up the tree each frame says which node it speaks of, and leaders between pass it on as it is.
 * Down the tree all frames are for all.
 *
 *      type          from         parts
 *      HEARTBEAT     both         -               nothing was said for a second
 *      OFFER_NEW     leader       node, epoch,    ready on the node; text: why it fails there, or
 *                                 id, seq, flags, "". id: its number, where this offer refuses the
 *                                 name, signature,direct use seq of it (order.h); else 0. flags bit
 *                                 text            0: and on all nodes below, of which nothing was
 *                                                 said before, but those that have joined
 *      OFFER         leader       node, epoch,    the same, by numbers. epoch: how many decisions
 *                                 flags, numbers  the node's leader had heard of: an offer that is
 *                                                 older than its number's last decision is none
 *      JOIN          leader       node, rank,     all ranks of my node have joined, this one last;
 *                                 flags           flags bit 0: they have nothing in flight directly
 *      DIED          both         rank, text      a rank is dead
 *      SHUTDOWN      both         rank            a rank leaves; to leaders in order with decisions
 *      STALL_REPLY   leader       node, text      stall_facts.h, and JSON (diagnose.h)
 *      GOODBYE       both         -               I close; this is no death
 *      DECIDED_NEW   coordinator  id, seq, flags, run it; id is its number from now on, 0: it has
 *                                 name,           none; text: it fails, do not run it
 *                                 signature,
 *                                 text
 *      DECIDED       coordinator  decisions       run these; of each, flags bit 0: the next
 *                                                 decision runs fused with it; bits 1 and 2: enum
 *                                                 rg_direct_way, how it goes from use seq on
 *      JOINED        coordinator  rank            all ranks have joined
 *      STALL_QUERY   coordinator  -               what does your node wait for?
 *      EVICT         coordinator  id              forget this number
 *      EVICTED       leader       node, id, seq   done: I shall not use it any more; seq would be
 *                                                 the next use
 *      BLOCKED       leader       node, flags     1: all ranks of my node wait and submit nothing
 *                                                 (progress/waits.h); 0: not so
 *      VOID          coordinator  id, seq         the direct use seq is void: who has begun it, or
 *                                                 will, is to offer it
 *      LACK          leader       node, id, seq   I have not begun it, and shall not
 *      WAITING       leader       node, id, seq   I have begun it, and it takes long
 *      CLEAR         leader       node            my node, which has joined, has nothing in flight
 *                                                 directly any more
 *      HAVE          leader       node, id, seq   after SHUTDOWN, of each number that goes so:
 *                                                 the last use that I have begun
 *      FROZEN        leader       node            that was all; I begin no more
 *      ENDED         coordinator  -               what is void of that was said before; the rest
 *                                                 comes to its end
 *      LEFT          both         node            it has said GOODBYE: so nothing is heard any more
 *                                                 of what lies behind it
 *      READY         leader       -               all leaders below me are here
 *      START         coordinator  -               all leaders are here
 *      ROLL_CALL     both         -               up: my time is over; down: whom do you miss?
 *      ABSENT        leader       node            it has not come to me
 *
 * Thread rule: pure functions; nothing blocks.
 */
#ifndef RG_COLL_NEGOTIATE_ORDER_FRAMES_H
#define RG_COLL_NEGOTIATE_ORDER_FRAMES_H

#include "base/buf.h"
#include "coll/ground/types.h"

#define RG_ORDER_NAME_MAX 1024
/* Uses of a number that may go directly: afterwards they are agreed on, as their count must not
 * come round. */
#define RG_ORDER_USES_MAX UINT32_C(0xf0000000)
#define RG_ORDER_TEXT_MAX (64u << 10)
#define RG_ORDER_NUMBERS_MAX 4096 /* of a frame, or decisions */
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
    RG_ORDER_LEFT = 24,
    RG_ORDER_READY = 25,
    RG_ORDER_START = 26,
    RG_ORDER_ROLL_CALL = 27,
    RG_ORDER_ABSENT = 28,
    RG_ORDER_NTYPES,
};

enum {
    RG_ORDER_MORE = 1,   /* of decisions */
    RG_ORDER_WAYS = 6,   /* the same: a way, shifted */
    RG_ORDER_WAY_SHIFT = 1,
    RG_ORDER_IS_CLEAR = 1, /* of JOIN */
    RG_ORDER_WHOLE = 1,    /* of offers */
};

struct rg_order_decision {
    uint32_t id, seq;
    uint8_t flags;
};

static inline uint8_t rg_order_way(uint8_t flags)
{
    return (flags & RG_ORDER_WAYS) >> RG_ORDER_WAY_SHIFT;
}

struct rg_order_frame {
    uint8_t type;
    uint32_t node;
    uint64_t epoch;
    uint32_t id, seq, rank;
    uint8_t flags;
    /* when decoded: owned, see rg_order_frame_fini; never NULL where the type has it */
    const char *name;
    struct rg_signature sig;
    const char *text;
    /* likewise, but NULL where there are none; at most RG_ORDER_NUMBERS_MAX */
    const uint32_t *numbers;
    size_t nnumbers;
    const struct rg_order_decision *decisions; /* of DECIDED, as it travels; else id, seq, flags */
    size_t ndecisions;
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
