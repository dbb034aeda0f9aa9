/* SPDX-License-Identifier: Apache-2.0 */
/* The frames between leaders, as the coordinator takes them from two nodes in turn, as a leader
 * takes them from the coordinator, and as one in between keeps those of three sources. */
#include "fuzz.h"
#include "coll/negotiate/order_decide.h"
#include "coll/negotiate/order_held.h"
#include "coll/negotiate/order_known.h"
#include "coll/node/signature.h"
#include "wire/codec.h"

static void count(void *arg, const char *name, const struct rg_signature *sig, const char *text,
                  bool more, uint8_t way)
{
    (void) more;
    must(way < RG_NDIRECT_WAYS);
    must(name && text && sig->ndim <= REIGEN_NDIM_MAX);
    ++*(size_t *) arg;
}

static void to_coordinator(struct rg_decider *decider, int node,
                           const struct rg_order_frame *frame)
{
    struct rg_order_frame out;
    static const int both[] = { 0, 1 };
    bool whole = frame->type <= RG_ORDER_OFFER && frame->flags & RG_ORDER_WHOLE;
    const int *nodes = whole ? both : &node;
    int n = whole ? 2 : 1;

    switch (frame->type) {
    case RG_ORDER_OFFER_NEW:
        rg_decider_refuse(decider, node, frame->name, frame->id, frame->seq);
        rg_decider_offer(decider, nodes, n, frame, 0);
        break;
    case RG_ORDER_OFFER:
        for (size_t i = 0; i < frame->nnumbers; i++)
            rg_decider_offer(decider, nodes, n, frame, frame->numbers[i]);
        break;
    case RG_ORDER_JOIN:
        rg_decider_join(decider, node, (int) frame->rank, frame->flags & RG_ORDER_IS_CLEAR);
        break;
    case RG_ORDER_SHUTDOWN:
        rg_decider_shutdown(decider, (int) frame->rank);
        break;
    case RG_ORDER_EVICTED:
        rg_decider_evicted(decider, frame->id, frame->seq);
        break;
    case RG_ORDER_LACK:
        rg_decider_lack(decider, node, frame->id, frame->seq);
        break;
    case RG_ORDER_WAITING:
        rg_decider_waiting(decider, node, frame->id, frame->seq);
        break;
    case RG_ORDER_CLEAR:
        rg_decider_clear(decider, node);
        break;
    case RG_ORDER_HAVE:
        rg_decider_have(decider, node, frame->id, frame->seq);
        break;
    case RG_ORDER_FROZEN:
        rg_decider_frozen(decider, node);
        break;
    default:
        break;
    }
    while (rg_decider_next(decider, &out) > 0)
        must(out.type != RG_ORDER_DECIDED || out.id > 0);
}

static void expect(void *arg, struct rg_use use, uint8_t way)
{
    (void) arg;
    must(use.id > 0 && way != RG_DIRECT_NOT && way < RG_NDIRECT_WAYS);
}

static uint8_t by_size(void *arg, const struct rg_signature *sig)
{
    (void) arg;
    must(rg_signature_is_direct(sig));
    return (uint8_t) (rg_signature_nbytes(sig) % RG_NDIRECT_WAYS);
}

/* As a leader that begins whatever it may. */
static void to_leader(struct rg_known *known, const struct rg_order_frame *frame, size_t *ndecided)
{
    struct rg_use use = { frame->id, frame->seq };
    struct rg_signature sig;
    uint32_t i = 0;

    if (frame->type == RG_ORDER_DECIDED_NEW)
        rg_known_decided(known, frame, count, expect, ndecided);
    for (size_t at = 0; at < frame->ndecisions; at++) {
        struct rg_order_frame one = { .type = RG_ORDER_DECIDED, .id = frame->decisions[at].id,
                                      .seq = frame->decisions[at].seq,
                                      .flags = frame->decisions[at].flags };

        rg_known_decided(known, &one, count, expect, ndecided);
    }
    if (frame->type == RG_ORDER_EVICT)
        rg_known_retire(known, frame->id, &use);
    if (frame->type == RG_ORDER_VOID)
        rg_known_void(known, use);
    if (frame->type == RG_ORDER_HAVE)
        rg_known_lend(known, use, &sig);
    if (frame->type == RG_ORDER_OFFER_NEW)
        rg_known_begin(known, frame->name, &frame->sig, &use);
    if (frame->type == RG_ORDER_CLEAR && rg_known_each_begun(known, &i, &use))
        rg_known_done(known, use.id, &use);
    must(rg_known_nbegun(known, true) <= rg_known_nbegun(known, false));
}

enum { NSOURCES = 3, IDS_MAX = 64 };

/* What was told reads as it was written. */
static void check_told(void *arg, int source, const struct rg_order_frame *frame)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    struct rg_order_frame again;

    (void) arg;
    must(source >= RG_HELD_WHOLE && source < NSOURCES);
    rg_order_frame_put(frame, &buf);
    must(rg_order_frame_get(frame->type, rg_buf_bytes(&buf), rg_buf_nbytes(&buf), &again) == 0);
    must(again.nnumbers == frame->nnumbers && again.epoch == frame->epoch);
    rg_order_frame_fini(&again);
}

static void to_relay(struct rg_held *held, int source, const struct rg_order_frame *frame)
{
    if (frame->type == RG_ORDER_OFFER_NEW)
        rg_held_offer_new(held, source, frame);
    for (size_t i = 0; i < frame->nnumbers; i++)
        if (frame->numbers[i] > 0 && frame->numbers[i] < IDS_MAX)
            rg_held_offer(held, source, frame->numbers[i], frame->epoch);
    if (frame->type == RG_ORDER_JOIN) {
        rg_held_spill(held, source);
        rg_held_join(held, source);
    }
    if (frame->type == RG_ORDER_JOINED)
        rg_held_new_round(held);
    if (frame->type == RG_ORDER_DECIDED_NEW)
        rg_held_decided(held, frame->id % IDS_MAX, frame->name);
    if (frame->type == RG_ORDER_EVICT)
        rg_held_evict(held, frame->id % IDS_MAX);
    if (frame->type == RG_ORDER_STALL_QUERY)
        rg_held_look(held, UINT64_MAX);
    if (frame->type == RG_ORDER_READY)
        rg_held_flush(held);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const int leaders[] = { 0, 1 };
    struct rg_decider_options options = { .nnodes = 2,
                                          .leaders = leaders,
                                          .fusion_nbytes = 64,
                                          .capacity = 2,
                                          .direct = by_size };
    static const int nnodes[NSOURCES] = { 1, 1, 2 };
    struct rg_held_options held_options = { .nsources = NSOURCES, .nnodes = nnodes,
                                            .tell = check_told };
    struct rg_decider *decider;
    struct rg_known *known;
    struct rg_held *held;
    struct rg_buf in = { .data = (uint8_t *) (uintptr_t) data, .end = nbytes };
    size_t ndecided = 0, nframes = 0, nmost = 0;
    struct rg_frame whole;

    must(rg_decider_create(&options, &decider) == 0 && rg_known_create(&known) == 0);
    must(rg_held_create(&held_options, &held) == 0);
    while (rg_frame_peek(&in, &whole) && whole.payload) {
        struct rg_order_frame frame;

        if (rg_order_frame_get(whole.type, whole.payload, whole.nbytes, &frame) < 0)
            break;
        must(frame.type == whole.type);
        rg_frame_drop(&in, &whole);
        to_relay(held, (int) (nframes % NSOURCES), &frame);
        to_coordinator(decider, (int) (nframes++ % 2), &frame);
        to_leader(known, &frame, &ndecided);
        nmost += frame.ndecisions + (frame.type == RG_ORDER_DECIDED_NEW);
        rg_order_frame_fini(&frame);
    }
    must(ndecided <= nmost);
    rg_held_flush(held);
    must(rg_held_status(held) == 0);
    rg_held_destroy(held);
    rg_known_destroy(known);
    rg_decider_destroy(decider);
    return 0;
}
