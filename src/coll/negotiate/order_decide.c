/* SPDX-License-Identifier: Apache-2.0 */
/* Making one stream of decisions from all nodes' offers, where no socket can get in the way. */
#include "coll/negotiate/order_decide.h"

#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "base/time.h"
#include "coll/node/signature.h"

#define OTHER_MAX 1024 /* longer than any key */
#define VOIDS_MAX 3    /* in a row: then it is agreed on for a while */
#define HOLDOFF 64     /* uses */
#define DIRECT_IDS_MAX (1u << 20) /* numbers below may go directly (far/far.h) */

/* A direct use that takes long, as nodes tell. */
struct slow {
    uint32_t seq;
    uint64_t since_ns;
};

struct record {
    char *name;
    uint32_t id;               /* 0: none */
    struct rg_signature known; /* what id stands for */
    uint64_t used;             /* the decider's clock at its last decision */
    bool evicting;
    int nevicted;              /* leaders that have forgotten it */
    bool direct;               /* its uses go directly ... */
    uint32_t seq;              /* ... from this one on; those before are over or void */
    uint32_t used_seq;         /* the last one that ended on this node */
    int nvoids, holdoff;
    bool void_queued;          /* VOID is not told yet */
    struct slow slow;
    /* The operation in flight. */
    bool active, queued;
    int noffered;
    uint64_t decided;          /* after so many decisions, the last time */
    struct rg_signature sig;
    int first_node;            /* whose signature sig is ... */
    uint64_t since_ns;         /* ... and when it came */
    char *error;
    UT_hash_handle hh;
    bool *asked, *slowly;      /* by node: has not answered VOID; has begun slow.seq */
    bool offered[];            /* by node; the others and the name lie behind */
};

struct item {
    uint8_t type;              /* DECIDED, JOINED, SHUTDOWN, EVICT, VOID, ENDED */
    struct record *record;
    uint32_t number;           /* a rank, or an id */
    uint32_t seq;
    bool urgent;               /* it is not held, nor is what is before it */
};

/* After SHUTDOWN: what nodes have begun last of a number. */
struct begun {
    bool any;
    uint32_t least, most;
};

struct rg_decider {
    struct rg_decider_options options;
    struct record *records;
    struct record **by_id;     /* [0] is not used */
    size_t ids_capacity;
    uint32_t nids, nnumbered;
    bool *joined;              /* by node */
    bool *blocked;             /* by node */
    bool *clear;               /* by node */
    bool *frozen;              /* by node */
    int njoined, nclear, nfrozen;
    uint32_t joined_rank;      /* the last one */
    uint32_t *seqs;            /* by number: no direct use is below, whatever name it had */
    size_t seqs_capacity;
    struct begun *begun;       /* by number */
    size_t begun_capacity;
    struct item *queue;
    size_t queue_from, queue_to, queue_capacity;
    uint64_t clock, ndecisions;
    struct record *told;       /* what the last frame speaks of */
    bool holds;
    size_t nurgent;            /* of the queue */
    bool in_run;               /* the frame before said MORE */
    bool fused;                /* the last decision runs together with others */
    uint64_t run_nbytes;
};

int rg_decider_create(const struct rg_decider_options *options, struct rg_decider **ret_decider)
{
    struct rg_decider *decider = calloc(1, sizeof(*decider));

    if (!decider)
        return -ENOMEM;
    decider->joined = calloc(4 * (size_t) options->nnodes, sizeof(bool));
    if (!decider->joined) {
        rg_decider_destroy(decider);
        return -ENOMEM;
    }
    decider->blocked = decider->joined + options->nnodes;
    decider->clear = decider->blocked + options->nnodes;
    decider->frozen = decider->clear + options->nnodes;
    decider->options = *options;
    decider->nids = 1;
    *ret_decider = decider;
    return 0;
}

static void record_free(struct rg_decider *decider, struct record *record)
{
    HASH_DEL(decider->records, record);
    free(record->error);
    free(record);
}

void rg_decider_destroy(struct rg_decider *decider)
{
    struct record *record, *next;

    if (!decider)
        return;
    HASH_ITER(hh, decider->records, record, next)
        record_free(decider, record);
    free(decider->by_id);
    free(decider->joined);
    free(decider->seqs);
    free(decider->begun);
    free(decider->queue);
    free(decider);
}

int rg_decider_count(const struct rg_decider *decider)
{
    return (int) HASH_COUNT(decider->records);
}

/* Nodes have begun a direct use, which is not over. */
static bool is_slow(const struct record *record)
{
    return !record->active && record->slow.seq > record->used_seq &&
           record->slow.seq >= record->seq && record->slow.seq > 0;
}

/* The node has what is in flight of a name. */
static bool has_come(const struct record *record, int node)
{
    return record->active ? record->offered[node] : is_slow(record) && record->slowly[node];
}

int rg_decider_missing(const struct rg_decider *decider, const char *name, bool *ret_missing)
{
    struct record *record;
    int count = 0;

    HASH_FIND_STR(decider->records, name, record);
    if (!record || (!record->active && !is_slow(record)))
        return 0;
    for (int i = 0; i < decider->options.nnodes; i++) {
        ret_missing[i] = !has_come(record, i) && !decider->joined[i];
        count += ret_missing[i];
    }
    return count;
}

/* A group whose members must be told apart goes by itself: a node that has joined knows only their
 * sum. */
static bool may_fuse(const struct record *record)
{
    const struct rg_signature *sig = &record->sig;

    return !record->error && sig->kind == REIGEN_ALLREDUCE &&
           (sig->group_size == 0 || sig->op != REIGEN_ADASUM);
}

static int enqueue(struct rg_decider *decider, struct item item)
{
    if (decider->queue_from == decider->queue_to)
        decider->queue_from = decider->queue_to = 0;
    if (rg_grow(&decider->queue, &decider->queue_capacity, decider->queue_to + 1) < 0)
        return -ENOMEM;
    item.urgent = item.type != RG_ORDER_DECIDED || !may_fuse(item.record);
    decider->nurgent += item.urgent;
    decider->queue[decider->queue_to++] = item;
    return 0;
}

static struct record *get_record(struct rg_decider *decider, const char *name)
{
    size_t nnodes = (size_t) decider->options.nnodes;
    struct record *record;

    HASH_FIND_STR(decider->records, name, record);
    if (record)
        return record;
    record = calloc(1, sizeof(*record) + 3 * nnodes * sizeof(bool) + strlen(name) + 1);
    if (!record)
        return NULL;
    record->asked = &record->offered[nnodes];
    record->slowly = &record->offered[2 * nnodes];
    record->name = strcpy((char *) &record->offered[3 * nnodes], name);
    HASH_ADD_KEYPTR(hh, decider->records, record->name, strlen(record->name), record);
    return record;
}

/* Adasum must know each tensor of a group; a node all of whose ranks have joined knows the sum. */
static const char *join_refusal(const struct rg_decider *decider, const struct rg_signature *sig)
{
    if (decider->njoined == 0)
        return NULL;
    if (sig->op == REIGEN_ADASUM && sig->group_size > 0)
        return "Adasum of a group is not supported with Join at this time.";
    return rg_join_refusal(sig->kind);
}

static int set_error(struct record *record, const char *text)
{
    if (!record->error && text && text[0]) {
        record->error = strdup(text);
        return record->error ? 0 : -ENOMEM;
    }
    return 0;
}

static void drop_if_unused(struct rg_decider *decider, struct record *record)
{
    if (record->id == 0 && !record->active)
        record_free(decider, record);
}

/* When every leader has heard and answered what was said by this number, it may stand for another
 * name. */
static void release_number(struct rg_decider *decider, struct record *record)
{
    if (!record->evicting || record->void_queued || record->nevicted < decider->options.nnodes)
        return;
    for (int i = 0; i < decider->options.nnodes; i++)
        if (record->asked[i])
            return;
    decider->by_id[record->id] = NULL;
    decider->nnumbered--;
    record->id = 0;
    record->evicting = record->direct = false;
    drop_if_unused(decider, record);
}

/* All have joined, when nothing of before is in flight any more. */
static int end_round(struct rg_decider *decider)
{
    int nnodes = decider->options.nnodes;
    struct record *record, *next;

    if (decider->njoined < nnodes || decider->nclear < nnodes)
        return 0;
    HASH_ITER(hh, decider->records, record, next)
        if (record->active && !record->queued)
            return 0;
    memset(decider->joined, 0, (size_t) nnodes * sizeof(bool));
    memset(decider->clear, 0, (size_t) nnodes * sizeof(bool));
    decider->njoined = decider->nclear = 0;
    return enqueue(decider, (struct item) { .type = RG_ORDER_JOINED,
                                            .number = decider->joined_rank });
}

/* Queue it when every node has offered it, or has joined and does not have it. */
static int check_complete(struct rg_decider *decider, struct record *record)
{
    if (!record->active || record->queued ||
        record->noffered + decider->njoined < decider->options.nnodes)
        return 0;
    for (int i = 0; i < decider->options.nnodes; i++)
        if (!record->offered[i] && (!decider->joined[i] || record->asked[i]))
            return 0;
    int r = set_error(record, join_refusal(decider, &record->sig));

    if (r == 0)
        r = enqueue(decider, (struct item) { .type = RG_ORDER_DECIDED, .record = record });
    record->queued = r == 0;
    return r < 0 ? r : end_round(decider);
}

/* What people call a node's leader. */
static int shown(const struct rg_decider *decider, int node)
{
    int rank = decider->options.leaders[node];

    return decider->options.world_ranks ? decider->options.world_ranks[rank] : rank;
}

static bool waits_since(const struct record *record, uint64_t before_ns)
{
    if (!record)
        return false;
    if (record->active)
        return !record->queued && record->since_ns < before_ns;
    return is_slow(record) && record->slow.since_ns < before_ns;
}

/* What it is about. */
static const struct rg_signature *meant(const struct record *record)
{
    return record->active ? &record->sig : &record->known;
}

/* The first blocked node that has offered a and not b; -1: none. */
static int offered_only(const struct rg_decider *decider, const struct record *a,
                        const struct record *b)
{
    for (int i = 0; i < decider->options.nnodes; i++)
        if (decider->blocked[i] && has_come(a, i) && !has_come(b, i) && !decider->joined[i])
            return i;
    return -1;
}

void rg_decider_blocked(struct rg_decider *decider, int node, bool blocked)
{
    decider->blocked[node] = blocked;
}

bool rg_decider_crossed(const struct rg_decider *decider, uint64_t before_ns, struct rg_error *err)
{
    struct record *a, *next;

    HASH_ITER(hh, decider->records, a, next)
    {
        const char *name = rg_key_name(a->name);

        for (int kind = meant(a)->kind + 1; kind <= REIGEN_REDUCESCATTER; kind++) {
            char other[OTHER_MAX];
            struct record *b;
            int x, y;

            snprintf(other, sizeof(other), "%s.%s", rg_kind_name(kind), name);
            HASH_FIND_STR(decider->records, other, b);
            if (!waits_since(a, before_ns) || !waits_since(b, before_ns))
                continue;
            x = offered_only(decider, a, b);
            y = offered_only(decider, b, a);
            if (x >= 0 && y >= 0)
                return rg_signature_compare(name, meant(a), shown(decider, x), meant(b),
                                            shown(decider, y), err) < 0;
        }
    }
    return false;
}

/* What is offered, of the first node that did. */
static void begin(struct rg_decider *decider, int node, struct record *record,
                  const struct rg_signature *sig)
{
    memset(record->offered, 0, (size_t) decider->options.nnodes * sizeof(bool));
    record->active = true;
    record->noffered = 0;
    record->sig = *sig;
    record->first_node = node;
    record->since_ns = rg_now_ns();
}

static void mark_offered(struct rg_decider *decider, int node, struct record *record)
{
    record->offered[node] = true;
    record->noffered++;
    record->asked[node] = false;
    if (decider->options.on_offered)
        decider->options.on_offered(decider->options.arg, node, record->name);
}

/* The node owes what is in flight, or would, if it were. */
static bool owes(const struct rg_decider *decider, const struct record *record, int node)
{
    return !decider->joined[node] && !(record->active && record->offered[node]);
}

/* Of a single node, whatever it has done before; of many, those that owe it. */
static int offer(struct rg_decider *decider, const int *nodes, int n, struct record *record,
                 const struct rg_signature *sig, const char *text)
{
    struct rg_error err = RG_ERROR_INIT;
    int r, first = 0;

    while (n > 1 && first < n - 1 && !owes(decider, record, nodes[first]))
        first++;
    if (record->queued || record->direct || (record->active && record->offered[nodes[first]]))
        return -EPROTO;
    /* What a node found inside is nearer to the cause than what it makes of it here. */
    r = set_error(record, text);
    if (!record->active)
        begin(decider, nodes[first], record, sig);
    else if (rg_signature_compare(record->name, &record->sig, shown(decider, record->first_node),
                                  sig, shown(decider, nodes[first]), &err) < 0)
        r = r < 0 ? r : set_error(record, err.text);
    for (int i = first; i < n; i++)
        if (n == 1 || owes(decider, record, nodes[i]))
            mark_offered(decider, nodes[i], record);
    if (r == 0)
        r = check_complete(decider, record);
    release_number(decider, record);
    return r;
}

int rg_decider_offer(struct rg_decider *decider, const int *nodes, int n,
                     const struct rg_order_frame *frame, uint32_t id)
{
    bool named = frame->type == RG_ORDER_OFFER_NEW;
    struct record *record = named ? get_record(decider, frame->name)
                            : id > 0 && id < decider->nids ? decider->by_id[id] : NULL;

    if (!record)
        return named ? -ENOMEM : -EPROTO;
    if (frame->epoch < record->decided)
        return -EPROTO;
    return offer(decider, nodes, n, record, named ? &frame->sig : &record->known,
                 named ? frame->text : NULL);
}

int rg_decider_join(struct rg_decider *decider, int node, int rank, bool clear)
{
    struct record *record, *next;
    int r = 0;

    if (decider->joined[node])
        return -EPROTO;
    decider->joined[node] = true;
    decider->njoined++;
    decider->joined_rank = (uint32_t) rank;
    HASH_ITER(hh, decider->records, record, next)
        if (r == 0)
            r = check_complete(decider, record);
    if (r < 0)
        return r;
    return clear ? rg_decider_clear(decider, node) : end_round(decider);
}

int rg_decider_clear(struct rg_decider *decider, int node)
{
    /* Its round may have ended just now, where all that was missing were its own offers. */
    if (decider->clear[node] || !decider->joined[node])
        return -EPROTO;
    decider->clear[node] = true;
    decider->nclear++;
    return end_round(decider);
}

int rg_decider_shutdown(struct rg_decider *decider, int rank)
{
    return enqueue(decider, (struct item) { .type = RG_ORDER_SHUTDOWN,
                                            .number = (uint32_t) rank });
}

/* ------------------------------------------------------------ direct uses */

static struct record *numbered(const struct rg_decider *decider, uint32_t id)
{
    return id > 0 && id < decider->nids ? decider->by_id[id] : NULL;
}

static int make_void(struct rg_decider *decider, int node, struct record *record, uint32_t seq)
{
    int nnodes = decider->options.nnodes;

    if (!record->direct || seq < record->seq)
        return 0;
    record->direct = false;
    record->void_queued = true;
    record->seq = seq + 1;
    record->nvoids++;
    for (int i = 0; i < nnodes; i++)
        record->asked[i] = i != node;
    return enqueue(decider, (struct item) { .type = RG_ORDER_VOID, .number = record->id,
                                            .seq = seq });
}

int rg_decider_refuse(struct rg_decider *decider, int node, const char *name, uint32_t id,
                      uint32_t seq)
{
    struct record *record;

    HASH_FIND_STR(decider->records, name, record);
    return record && record->id == id && id > 0 ? make_void(decider, node, record, seq) : 0;
}

int rg_decider_lack(struct rg_decider *decider, int node, uint32_t id, uint32_t seq)
{
    struct record *record = numbered(decider, id);
    int r;

    if (!record || seq + 1 < record->seq)
        return 0;
    if (record->direct && seq >= record->seq)
        return make_void(decider, node, record, seq);
    record->asked[node] = false;
    r = check_complete(decider, record);
    release_number(decider, record);
    return r;
}

void rg_decider_waiting(struct rg_decider *decider, int node, uint32_t id, uint32_t seq)
{
    struct record *record = numbered(decider, id);

    if (!record || seq < record->slow.seq)
        return;
    if (seq > record->slow.seq) {
        record->slow = (struct slow) { seq, rg_now_ns() };
        memset(record->slowly, 0, (size_t) decider->options.nnodes * sizeof(bool));
    }
    record->slowly[node] = true;
}

void rg_decider_used(struct rg_decider *decider, uint32_t id, uint32_t seq)
{
    struct record *record = numbered(decider, id);

    if (!record)
        return;
    record->used = ++decider->clock;
    record->used_seq = seq;
    record->nvoids = 0;
}

int rg_decider_have(struct rg_decider *decider, int node, uint32_t id, uint32_t seq)
{
    struct begun *begun;

    if (decider->frozen[node] || !numbered(decider, id))
        return decider->frozen[node] ? -EPROTO : 0;
    if (rg_grow(&decider->begun, &decider->begun_capacity, (size_t) id + 1) < 0)
        return -ENOMEM;
    begun = &decider->begun[id];
    if (!begun->any)
        *begun = (struct begun) { true, seq, seq };
    begun->least = seq < begun->least ? seq : begun->least;
    begun->most = seq > begun->most ? seq : begun->most;
    return 0;
}

int rg_decider_frozen(struct rg_decider *decider, int node)
{
    int r = 0;

    if (decider->frozen[node])
        return -EPROTO;
    decider->frozen[node] = true;
    if (++decider->nfrozen < decider->options.nnodes)
        return 0;
    for (uint32_t id = 0; id < decider->begun_capacity && r == 0; id++) {
        const struct begun *begun = &decider->begun[id];

        if (begun->most > begun->least)
            r = enqueue(decider, (struct item) { .type = RG_ORDER_VOID, .number = id,
                                                 .seq = begun->most });
    }
    return r < 0 ? r : enqueue(decider, (struct item) { .type = RG_ORDER_ENDED });
}

/* ------------------------------------------------------------ numbers */

static uint32_t free_number(struct rg_decider *decider)
{
    uint32_t idle = decider->nids - 1 - decider->nnumbered;

    for (uint32_t i = 1; i < decider->nids && idle > 0; i++)
        if (!decider->by_id[i])
            return i;
    if (rg_grow(&decider->by_id, &decider->ids_capacity, decider->nids + 1) < 0 ||
        rg_grow(&decider->seqs, &decider->seqs_capacity, decider->nids + 1) < 0)
        return 0;
    return decider->nids++;
}

/* Numbers whose names were idle for long are called in, many at once: the search is paid once in a
 * while. */
static void call_in_numbers(struct rg_decider *decider)
{
    uint32_t capacity = (uint32_t) decider->options.capacity;

    if (decider->nnumbered <= capacity + capacity / 4 || decider->clock <= capacity)
        return;
    for (uint32_t i = 1; i < decider->nids; i++) {
        struct record *record = decider->by_id[i];

        if (!record || record->active || record->evicting ||
            record->used >= decider->clock - capacity)
            continue;
        if (enqueue(decider, (struct item) { .type = RG_ORDER_EVICT, .number = i }) < 0)
            return;
        record->evicting = true;
        record->nevicted = 0;
    }
}

int rg_decider_evicted(struct rg_decider *decider, uint32_t id, uint32_t seq)
{
    struct record *record = numbered(decider, id);

    if (!record || !record->evicting)
        return -EPROTO;
    if (seq > decider->seqs[id])
        decider->seqs[id] = seq;
    if (record->seq > decider->seqs[id])
        decider->seqs[id] = record->seq;
    record->nevicted++;
    release_number(decider, record);
    return 0;
}

/* ------------------------------------------------------------ the stream */

/* Does the next of the queue run together with this one? */
static bool fuses_with_next(struct rg_decider *decider, const struct record *record)
{
    const struct item *next = &decider->queue[decider->queue_from];
    uint64_t limit = decider->options.fusion_nbytes, more;

    if (decider->queue_from == decider->queue_to || next->type != RG_ORDER_DECIDED ||
        !may_fuse(record) || !may_fuse(next->record))
        return false;
    const struct rg_signature *a = &record->sig, *b = &next->record->sig;

    /* Each rank has streams of its own, so what is in a device's memory goes by itself. */
    if (a->memory != RG_MEMORY_HOST || b->memory != RG_MEMORY_HOST || a->dtype != b->dtype ||
        a->op != b->op || a->process_set != b->process_set ||
        !rg_signatures_repeat_together(a, b) ||
        memcmp(&a->prescale, &b->prescale, sizeof(double)) != 0 ||
        memcmp(&a->postscale, &b->postscale, sizeof(double)) != 0)
        return false;
    if (!decider->in_run)
        decider->run_nbytes = rg_signature_nbytes(a);
    more = rg_signature_nbytes(b);
    if (decider->run_nbytes > limit || more > limit - decider->run_nbytes)
        return false;
    decider->run_nbytes += more;
    return true;
}

/* Whether the uses that follow go directly, and how. Where the ranks' ways part again and again it
 * costs more than it gives; and so it does, of what is not small, where several come together: they
 * are quicker as one. */
static void grant(struct rg_decider *decider, struct record *record, struct rg_order_frame *frame)
{
    uint8_t way;

    record->direct = false;
    if (decider->fused && rg_signature_nbytes(&record->known) > RG_DIRECT_SMALL)
        return;
    if (!decider->options.direct || record->id >= DIRECT_IDS_MAX ||
        !rg_signature_is_direct(&record->known))
        return;
    if (record->nvoids >= VOIDS_MAX) {
        record->nvoids = 0;
        record->holdoff = HOLDOFF;
    }
    if (record->holdoff > 0) {
        record->holdoff--;
        return;
    }
    way = decider->options.direct(decider->options.arg, &record->known);
    if (way == RG_DIRECT_NOT)
        return;
    if (record->seq < decider->seqs[record->id])
        record->seq = decider->seqs[record->id];
    if (record->seq == 0)
        record->seq = 1;
    if (record->seq >= RG_ORDER_USES_MAX)
        return;
    record->direct = true;
    record->used_seq = record->slow.seq = 0;
    frame->flags |= (uint8_t) (way << RG_ORDER_WAY_SHIFT);
    frame->seq = record->seq;
}

static void number(struct rg_decider *decider, struct record *record,
                   struct rg_order_frame *frame)
{
    bool same = record->id != 0 && !record->evicting &&
                rg_signature_compare(NULL, &record->known, 0, &record->sig, 0, NULL) == 0;

    frame->type = same ? RG_ORDER_DECIDED : RG_ORDER_DECIDED_NEW;
    if (record->evicting || decider->options.capacity == 0)
        return;
    if (record->id == 0) {
        record->id = free_number(decider);
        if (record->id == 0)
            return;
        decider->by_id[record->id] = record;
        decider->nnumbered++;
    }
    record->known = record->sig;
    frame->id = record->id;
    grant(decider, record, frame);
}

static void tell_decision(struct rg_decider *decider, struct record *record,
                          struct rg_order_frame *frame)
{
    bool more = fuses_with_next(decider, record);

    decider->fused = more || decider->in_run;
    decider->in_run = more;
    frame->flags = more ? RG_ORDER_MORE : 0;
    frame->name = record->name;
    frame->sig = record->sig;
    frame->text = record->error ? record->error : "";
    if (record->error)
        frame->type = RG_ORDER_DECIDED_NEW;
    else
        number(decider, record, frame);
    record->used = ++decider->clock;
    record->decided = ++decider->ndecisions;
    record->active = record->queued = false;
    decider->told = record;
}

static void told_void(struct rg_decider *decider, uint32_t id)
{
    struct record *record = numbered(decider, id);

    if (!record)
        return;
    record->void_queued = false;
    release_number(decider, record);
}

void rg_decider_hold(struct rg_decider *decider, bool holds)
{
    decider->holds = holds;
}

/* Nothing but what may run together with what comes later, and is not promised to run together
 * with what came before. */
static bool is_held(const struct rg_decider *decider)
{
    return decider->holds && !decider->in_run && decider->nurgent == 0;
}

int rg_decider_next(struct rg_decider *decider, struct rg_order_frame *ret_frame)
{
    struct rg_order_frame frame = { 0 };
    struct record *told = decider->told;

    decider->told = NULL;
    if (told) {
        free(told->error);
        told->error = NULL;
        drop_if_unused(decider, told);
        call_in_numbers(decider);
    }
    if (decider->queue_from == decider->queue_to || is_held(decider))
        return 0;
    struct item item = decider->queue[decider->queue_from++];

    decider->nurgent -= item.urgent;
    frame.type = item.type;
    if (item.type == RG_ORDER_DECIDED)
        tell_decision(decider, item.record, &frame);
    else if (item.type == RG_ORDER_JOINED || item.type == RG_ORDER_SHUTDOWN)
        frame.rank = item.number;
    else
        frame.id = item.number;
    if (item.type == RG_ORDER_VOID) {
        frame.seq = item.seq;
        told_void(decider, item.number);
    }
    *ret_frame = frame;
    return 1;
}
