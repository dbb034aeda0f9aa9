/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of what leaders say, where they are written and where they are checked. */
#include "coll/negotiate/order_frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/node/signature.h"

enum {
    ID = 1,
    RANK = 2,
    FLAGS = 4,
    NAME = 8,
    SIG = 16,
    TEXT = 32,
    SEQ = 64,
    NODE = 128,
    EPOCH = 256,
    NUMBERS = 512,
    DECISIONS = 1024,
};

/* In a signature's dtype: the type was added; and the signature's `repeats`. */
enum { HAS_TYPE = 0x80, REPEATS = 0x40 };

/* How numbers travel. */
enum { RUNS = 0, BITS = 1 };

static const uint16_t parts[RG_ORDER_NTYPES] = {
    [RG_ORDER_OFFER_NEW] = NODE | EPOCH | ID | SEQ | FLAGS | NAME | SIG | TEXT,
    [RG_ORDER_OFFER] = NODE | EPOCH | FLAGS | NUMBERS,
    [RG_ORDER_JOIN] = NODE | RANK | FLAGS,
    [RG_ORDER_DIED] = RANK | TEXT,
    [RG_ORDER_SHUTDOWN] = RANK,
    [RG_ORDER_STALL_REPLY] = NODE | TEXT,
    [RG_ORDER_DECIDED_NEW] = ID | SEQ | FLAGS | NAME | SIG | TEXT,
    [RG_ORDER_DECIDED] = DECISIONS,
    [RG_ORDER_JOINED] = RANK,
    [RG_ORDER_EVICT] = ID,
    [RG_ORDER_EVICTED] = NODE | ID | SEQ,
    [RG_ORDER_BLOCKED] = NODE | FLAGS,
    [RG_ORDER_VOID] = ID | SEQ,
    [RG_ORDER_LACK] = NODE | ID | SEQ,
    [RG_ORDER_WAITING] = NODE | ID | SEQ,
    [RG_ORDER_CLEAR] = NODE,
    [RG_ORDER_HAVE] = NODE | ID | SEQ,
    [RG_ORDER_FROZEN] = NODE,
    [RG_ORDER_LEFT] = NODE,
    [RG_ORDER_ABSENT] = NODE,
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
    rg_buf_put_u8(buf, (uint8_t) (sig->dtype | (sig->type[0] ? HAS_TYPE : 0) |
                                  (sig->repeats ? REPEATS : 0)));
    rg_buf_put_u8(buf, sig->op);
    rg_buf_put_u8(buf, sig->memory);
    rg_buf_put_u8(buf, sig->ndim);
    rg_buf_put_u32(buf, (uint32_t) sig->root);
    rg_buf_put_u32(buf, (uint32_t) sig->process_set);
    rg_buf_put_u32(buf, (uint32_t) sig->group_size);
    rg_buf_put_u64(buf, bits_of(sig->prescale));
    rg_buf_put_u64(buf, bits_of(sig->postscale));
    if (sig->type[0]) {
        rg_buf_put_u32(buf, sig->nparts);
        rg_buf_put_str(buf, sig->type);
    }
    for (int i = 0; i < sig->ndim; i++)
        rg_buf_put_u64(buf, (uint64_t) sig->shape[i]);
    if (sig->group_size > 0) {
        rg_buf_put_u64(buf, (uint64_t) sig->group_count);
        rg_buf_put_u64(buf, sig->group_digest);
    }
}

static void get_type(struct rg_reader *reader, struct rg_signature *sig)
{
    const uint8_t *name;
    size_t nbytes = 0;

    sig->nparts = rg_reader_u32(reader);
    name = rg_reader_span(reader, REIGEN_TYPE_NAME_MAX, &nbytes);
    if (name && nbytes)
        memcpy(sig->type, name, nbytes);
    else
        reader->bad = true;
}

static void get_signature(struct rg_reader *reader, struct rg_signature *sig)
{
    uint8_t bits;

    sig->kind = rg_reader_u8(reader);
    bits = rg_reader_u8(reader);
    sig->dtype = bits & (uint8_t) ~(HAS_TYPE | REPEATS);
    sig->repeats = bits & REPEATS;
    sig->op = rg_reader_u8(reader);
    sig->memory = rg_reader_u8(reader);
    sig->ndim = rg_reader_u8(reader);
    sig->root = (int32_t) rg_reader_u32(reader);
    sig->process_set = (int32_t) rg_reader_u32(reader);
    sig->group_size = (int32_t) rg_reader_u32(reader);
    sig->prescale = from_bits(rg_reader_u64(reader));
    sig->postscale = from_bits(rg_reader_u64(reader));
    if (bits & HAS_TYPE)
        get_type(reader, sig);
    for (int i = 0; i < sig->ndim && i < REIGEN_NDIM_MAX; i++)
        sig->shape[i] = (int64_t) rg_reader_u64(reader);
    if (sig->group_size > 0) {
        sig->group_count = (int64_t) rg_reader_u64(reader);
        sig->group_digest = rg_reader_u64(reader);
    }
    if (rg_signature_check(sig) < 0)
        reader->bad = true;
}

/* How long a run of consecutive numbers begins here. */
static uint32_t run_of_numbers(const uint32_t *numbers, size_t n)
{
    uint32_t length = 1;

    while (length < n && numbers[length] == numbers[0] + length)
        length++;
    return length;
}

static void put_runs(const uint32_t *numbers, size_t n, uint32_t nruns, struct rg_buf *buf)
{
    rg_buf_put_u8(buf, RUNS);
    rg_buf_put_u32(buf, nruns);
    for (size_t i = 0; i < n;) {
        uint32_t length = run_of_numbers(numbers + i, n - i);

        rg_buf_put_u32(buf, numbers[i]);
        rg_buf_put_u32(buf, length);
        i += length;
    }
}

static void put_bits(const uint32_t *numbers, size_t n, uint32_t first, size_t nbytes,
                     struct rg_buf *buf)
{
    uint8_t *bits;

    rg_buf_put_u8(buf, BITS);
    rg_buf_put_u32(buf, first);
    rg_buf_put_u32(buf, (uint32_t) nbytes);
    bits = rg_buf_reserve(buf, nbytes);
    if (!bits)
        return;
    memset(bits, 0, nbytes);
    for (size_t i = 0; i < n; i++)
        bits[(numbers[i] - first) / 8] |= (uint8_t) (1u << (numbers[i] - first) % 8);
    rg_buf_commit(buf, nbytes);
}

static void put_numbers(const uint32_t *numbers, size_t n, struct rg_buf *buf)
{
    uint32_t first = n ? numbers[0] : 0, last = first, nruns = 0;
    size_t nbytes;

    for (size_t i = 0; i < n; nruns++)
        i += run_of_numbers(numbers + i, n - i);
    for (size_t i = 0; i < n; i++) {
        first = numbers[i] < first ? numbers[i] : first;
        last = numbers[i] > last ? numbers[i] : last;
    }
    nbytes = (size_t) (last - first) / 8 + 1;
    if (4 + nbytes < 8 * (size_t) nruns)
        put_bits(numbers, n, first, nbytes, buf);
    else
        put_runs(numbers, n, nruns, buf);
}

static uint32_t run_of_decisions(const struct rg_order_decision *decisions, size_t n)
{
    uint32_t length = 1;

    while (length < n && decisions[length].id == decisions[0].id + length &&
           decisions[length].seq == decisions[0].seq &&
           decisions[length].flags == decisions[0].flags)
        length++;
    return length;
}

static void put_decisions(const struct rg_order_decision *decisions, size_t n, struct rg_buf *buf)
{
    uint32_t nruns = 0;

    for (size_t i = 0; i < n; nruns++)
        i += run_of_decisions(decisions + i, n - i);
    rg_buf_put_u32(buf, nruns);
    for (size_t i = 0; i < n;) {
        uint32_t length = run_of_decisions(decisions + i, n - i);

        rg_buf_put_u32(buf, decisions[i].id);
        rg_buf_put_u32(buf, length);
        rg_buf_put_u32(buf, decisions[i].seq);
        rg_buf_put_u8(buf, decisions[i].flags);
        i += length;
    }
}

static void put_text(const char *text, struct rg_buf *buf)
{
    size_t length = text ? strlen(text) : 0;

    rg_buf_put_span(buf, text, length < RG_ORDER_TEXT_MAX ? length : RG_ORDER_TEXT_MAX);
}

void rg_order_frame_put(const struct rg_order_frame *frame, struct rg_buf *buf)
{
    uint16_t has = parts[frame->type];

    if (has & NODE)
        rg_buf_put_u32(buf, frame->node);
    if (has & EPOCH)
        rg_buf_put_u64(buf, frame->epoch);
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
    if (has & TEXT)
        put_text(frame->text, buf);
    if (has & NUMBERS)
        put_numbers(frame->numbers, frame->nnumbers, buf);
    if (has & DECISIONS)
        put_decisions(frame->decisions, frame->ndecisions, buf);
}

/* Room for n more of what a frame lists, or NULL, and the reader is bad, or *ret_r is -ENOMEM. */
static void *more(struct rg_reader *reader, void *list, size_t have, size_t n, size_t each,
                  int *ret_r)
{
    void *grown;

    if (reader->bad || n == 0 || n > RG_ORDER_NUMBERS_MAX - have) {
        reader->bad = true;
        return NULL;
    }
    grown = realloc(list, (have + n) * each);
    if (!grown)
        *ret_r = -ENOMEM;
    return grown;
}

static int add_numbers(struct rg_reader *reader, struct rg_order_frame *frame, uint32_t first,
                       uint32_t length)
{
    int r = 0;
    uint32_t *list = more(reader, (void *) (uintptr_t) frame->numbers, frame->nnumbers, length,
                          sizeof(*list), &r);

    if (!list)
        return r;
    for (uint32_t i = 0; i < length; i++)
        list[frame->nnumbers++] = first + i;
    frame->numbers = list;
    return 0;
}

static int get_bits(struct rg_reader *reader, struct rg_order_frame *frame)
{
    uint32_t first = rg_reader_u32(reader);
    size_t nbytes = 0;
    const uint8_t *bits = rg_reader_span(reader, RG_ORDER_PAYLOAD_MAX, &nbytes);
    uint32_t n = 0;
    int r;

    for (size_t i = 0; bits && i < nbytes; i++)
        n += (uint32_t) __builtin_popcount(bits[i]);
    r = add_numbers(reader, frame, 0, n);
    if (r < 0 || reader->bad)
        return r;
    n = 0;
    for (size_t i = 0; i < 8 * nbytes; i++)
        if (bits[i / 8] >> i % 8 & 1)
            ((uint32_t *) (uintptr_t) frame->numbers)[n++] = first + (uint32_t) i;
    return 0;
}

static int get_numbers(struct rg_reader *reader, struct rg_order_frame *frame)
{
    uint8_t form = rg_reader_u8(reader);
    uint32_t nruns;
    int r = 0;

    if (form == BITS)
        return get_bits(reader, frame);
    nruns = rg_reader_u32(reader);
    reader->bad |= form != RUNS;
    for (uint32_t i = 0; i < nruns && r == 0 && !reader->bad; i++) {
        uint32_t first = rg_reader_u32(reader);

        r = add_numbers(reader, frame, first, rg_reader_u32(reader));
    }
    return r;
}

static int get_decisions(struct rg_reader *reader, struct rg_order_frame *frame)
{
    uint32_t nruns = rg_reader_u32(reader);
    int r = 0;

    for (uint32_t i = 0; i < nruns && !reader->bad; i++) {
        struct rg_order_decision one = { .id = rg_reader_u32(reader) }, *list;
        uint32_t length = rg_reader_u32(reader);

        one.seq = rg_reader_u32(reader);
        one.flags = rg_reader_u8(reader);
        list = more(reader, (void *) (uintptr_t) frame->decisions, frame->ndecisions, length,
                    sizeof(*list), &r);
        if (!list)
            return r;
        frame->decisions = list;
        for (; length > 0; length--, one.id++)
            list[frame->ndecisions++] = one;
    }
    return 0;
}

static int get_parts(struct rg_reader *reader, struct rg_order_frame *frame)
{
    uint16_t has = parts[frame->type];
    int r = 0;

    if (has & NODE)
        frame->node = rg_reader_u32(reader);
    if (has & EPOCH)
        frame->epoch = rg_reader_u64(reader);
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
    if (has & NUMBERS)
        r = get_numbers(reader, frame);
    if (has & DECISIONS)
        r = get_decisions(reader, frame);
    if (rg_reader_done(reader) < 0)
        return -EBADMSG;
    return ((has & NAME) && !frame->name) || ((has & TEXT) && !frame->text) ? -ENOMEM : r;
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
    free((void *) (uintptr_t) frame->numbers);
    free((void *) (uintptr_t) frame->decisions);
    *frame = (struct rg_order_frame) { 0 };
}
