/* SPDX-License-Identifier: Apache-2.0 */
/* Making one offer of many, where no socket can get in the way. */
#include "coll/negotiate/order_held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "base/time.h"
#include "coll/node/signature.h"

/* An operation, until it is decided; a number's is kept for the next time. */
struct mark {
    uint32_t id;               /* 0: it has a name only */
    uint64_t decided;          /* after so many decisions, the last time */
    uint64_t since_ns;         /* the first offer */
    int nhere;                 /* sources that have offered */
    bool listed;               /* some have offered, and are kept back */
    bool loose;                /* what comes goes on at once */
    bool whole;                /* all have offered */
    bool signed_;              /* sig is there */
    struct rg_signature sig;
    struct mark *prev, *next;  /* those that are listed, the oldest first */
    UT_hash_handle hh;
    uint8_t *here, *told;      /* by source; they lie behind, and then the name */
    char name[];
};

/* Numbers on their way up. */
struct list {
    uint32_t *numbers;
    size_t n, capacity;
};

struct rg_held {
    struct rg_held_options options;
    struct mark **by_id;
    size_t ids_capacity;
    struct mark *by_name;
    struct mark *listed;
    int *joined;               /* by source: nodes */
    int njoined;               /* sources of which all have */
    uint64_t epoch;
    struct list *lists;        /* by source; at last that of the whole */
    bool any;                  /* a list has something */
    int status;                /* 0, or why something was lost */
};

int rg_held_create(const struct rg_held_options *options, struct rg_held **ret_held)
{
    struct rg_held *held = calloc(1, sizeof(*held));

    if (!held)
        return -ENOMEM;
    held->options = *options;
    held->joined = calloc((size_t) options->nsources, sizeof(*held->joined));
    held->lists = calloc((size_t) options->nsources + 1, sizeof(*held->lists));
    if (!held->joined || !held->lists) {
        rg_held_destroy(held);
        return -ENOMEM;
    }
    *ret_held = held;
    return 0;
}

static void unlist(struct rg_held *held, struct mark *mark)
{
    if (mark->listed)
        DL_DELETE(held->listed, mark);
    mark->listed = false;
}

static void drop_named(struct rg_held *held, struct mark *mark)
{
    unlist(held, mark);
    HASH_DEL(held->by_name, mark);
    free(mark);
}

void rg_held_destroy(struct rg_held *held)
{
    struct mark *mark, *next;

    if (!held)
        return;
    HASH_ITER(hh, held->by_name, mark, next)
        drop_named(held, mark);
    for (size_t i = 0; i < held->ids_capacity; i++)
        free(held->by_id[i]);
    for (int i = 0; held->lists && i <= held->options.nsources; i++)
        free(held->lists[i].numbers);
    free(held->by_id);
    free(held->joined);
    free(held->lists);
    free(held);
}

int rg_held_status(const struct rg_held *held)
{
    return held->status;
}

uint64_t rg_held_epoch(const struct rg_held *held)
{
    return held->epoch;
}

static struct mark *new_mark(const struct rg_held *held, const char *name)
{
    size_t n = (size_t) held->options.nsources, length = strlen(name) + 1;
    struct mark *mark = calloc(1, sizeof(*mark) + length + 2 * n);

    if (!mark)
        return NULL;
    memcpy(mark->name, name, length);
    mark->here = (uint8_t *) mark->name + length;
    mark->told = mark->here + n;
    return mark;
}

static struct mark *of_number(struct rg_held *held, uint32_t id)
{
    if (rg_grow(&held->by_id, &held->ids_capacity, (size_t) id + 1) < 0)
        return NULL;
    if (!held->by_id[id])
        held->by_id[id] = new_mark(held, "");
    if (held->by_id[id])
        held->by_id[id]->id = id;
    return held->by_id[id];
}

static struct mark *of_name(struct rg_held *held, const char *name)
{
    struct mark *mark;

    HASH_FIND_STR(held->by_name, name, mark);
    if (mark)
        return mark;
    mark = new_mark(held, name);
    if (mark)
        HASH_ADD_STR(held->by_name, name, mark);
    return mark;
}

/* ---- what goes up */

static void tell_list(struct rg_held *held, int source, struct list *list)
{
    struct rg_order_frame frame = { .type = RG_ORDER_OFFER, .epoch = held->epoch };

    for (size_t at = 0; at < list->n; at += frame.nnumbers) {
        frame.numbers = list->numbers + at;
        frame.nnumbers = list->n - at < RG_ORDER_NUMBERS_MAX ? list->n - at : RG_ORDER_NUMBERS_MAX;
        held->options.tell(held->options.arg, source, &frame);
    }
    list->n = 0;
}

void rg_held_flush(struct rg_held *held)
{
    int n = held->options.nsources;

    for (int i = 0; held->any && i < n; i++)
        tell_list(held, i, &held->lists[i]);
    if (held->any)
        tell_list(held, RG_HELD_WHOLE, &held->lists[n]);
    held->any = false;
}

/* A number waits for rg_held_flush; a name travels by itself. */
static void tell(struct rg_held *held, int source, const struct mark *mark)
{
    struct list *list = &held->lists[source < 0 ? held->options.nsources : source];
    struct rg_order_frame frame = { .type = RG_ORDER_OFFER_NEW, .epoch = held->epoch,
                                    .name = mark->name, .sig = mark->sig, .text = "" };

    if (mark->id == 0) {
        held->options.tell(held->options.arg, source, &frame);
        return;
    }
    if (rg_grow(&list->numbers, &list->capacity, list->n + 1) < 0) {
        held->status = -ENOMEM;
        return;
    }
    list->numbers[list->n++] = mark->id;
    held->any = true;
}

static void tell_source(struct rg_held *held, int source, struct mark *mark)
{
    if (!mark->here[source] || mark->told[source])
        return;
    mark->told[source] = true;
    tell(held, source, mark);
}

/* ---- what comes */

static bool has_joined(const struct rg_held *held, int source)
{
    return held->joined[source] == held->options.nnodes[source];
}

/* This node has joined, and offers what it had begun directly before, as that is void (order.h).
 * The whole does not speak for who has joined, and may have gone up already. */
static bool is_late(const struct rg_held *held, int source)
{
    return source == 0 && has_joined(held, source);
}

static bool is_complete(const struct rg_held *held, const struct mark *mark)
{
    if (mark->nhere + held->njoined < held->options.nsources)
        return false;
    for (int i = 0; i < held->options.nsources; i++)
        if (!mark->here[i] && !has_joined(held, i))
            return false;
    return true;
}

/* Tell the whole, if it is complete, and there is anything new in it. True when it is. */
static bool settle(struct rg_held *held, struct mark *mark)
{
    bool any = false;

    if (!is_complete(held, mark))
        return false;
    unlist(held, mark);
    mark->whole = true;
    for (int i = 0; i < held->options.nsources; i++) {
        any |= mark->here[i] && !mark->told[i];
        mark->told[i] = mark->here[i];
    }
    if (any)
        tell(held, RG_HELD_WHOLE, mark);
    return true;
}

/* The source's offer is marked, and told already or to be told. */
static int take(struct rg_held *held, int source, struct mark *mark, bool told)
{
    mark->here[source] = true;
    mark->told[source] = told;
    if (mark->nhere++ == 0)
        mark->since_ns = rg_now_ns();
    if (is_late(held, source))
        tell_source(held, source, mark);
    if (mark->whole || settle(held, mark))
        return held->status;
    if (mark->loose) {
        tell_source(held, source, mark);
    } else if (!mark->listed) {
        DL_APPEND(held->listed, mark);
        mark->listed = true;
    }
    return held->status;
}

int rg_held_offer(struct rg_held *held, int source, uint32_t id, uint64_t epoch)
{
    struct mark *mark = of_number(held, id);

    if (!mark)
        return -ENOMEM;
    if (mark->here[source] || (mark->whole && !is_late(held, source)) || epoch < mark->decided)
        return -EPROTO;
    return take(held, source, mark, false);
}

int rg_held_offer_new(struct rg_held *held, int source, const struct rg_order_frame *frame)
{
    struct mark *mark = of_name(held, frame->name);
    bool odd = frame->text[0] || frame->id > 0;
    struct rg_order_frame own = *frame;

    if (!mark)
        return -ENOMEM;
    if (mark->here[source] || (mark->whole && !is_late(held, source)))
        return -EPROTO;
    if (mark->signed_ && rg_signature_compare(NULL, &mark->sig, 0, &frame->sig, 0, NULL) < 0)
        odd = true;
    if (!odd) {
        mark->sig = frame->sig;
        mark->signed_ = true;
    } else {
        own.epoch = held->epoch;
        held->options.tell(held->options.arg, source, &own);
    }
    return take(held, source, mark, odd);
}

void rg_held_spill(struct rg_held *held, int source)
{
    struct mark *mark;

    DL_FOREACH(held->listed, mark)
        tell_source(held, source, mark);
    rg_held_flush(held);
}

static void loosen(struct rg_held *held, struct mark *mark)
{
    unlist(held, mark);
    mark->loose = true;
    for (int i = 0; i < held->options.nsources; i++)
        tell_source(held, i, mark);
}

void rg_held_look(struct rg_held *held, uint64_t now_ns)
{
    bool any = false;

    while (held->listed && now_ns > held->listed->since_ns + RG_HELD_NS) {
        loosen(held, held->listed);
        any = true;
    }
    if (any)
        rg_held_flush(held);
}

/* ---- what changes the count */

void rg_held_join(struct rg_held *held, int source)
{
    struct mark *mark, *next;

    held->joined[source]++;
    if (!has_joined(held, source))
        return;
    held->njoined++;
    DL_FOREACH_SAFE(held->listed, mark, next)
        settle(held, mark);
}

void rg_held_new_round(struct rg_held *held)
{
    memset(held->joined, 0, (size_t) held->options.nsources * sizeof(*held->joined));
    held->njoined = 0;
}

static void forget(struct rg_held *held, struct mark *mark)
{
    unlist(held, mark);
    mark->nhere = 0;
    mark->loose = mark->whole = false;
    memset(mark->here, 0, 2 * (size_t) held->options.nsources);
    mark->decided = held->epoch;
}

void rg_held_decided(struct rg_held *held, uint32_t id, const char *name)
{
    struct mark *mark = NULL;

    rg_held_flush(held); /* with the epoch that it belongs to */
    held->epoch++;
    if (id > 0 && (mark = of_number(held, id)))
        forget(held, mark);
    HASH_FIND_STR(held->by_name, name, mark);
    if (mark)
        drop_named(held, mark);
}

void rg_held_evict(struct rg_held *held, uint32_t id)
{
    struct mark *mark = of_number(held, id);

    if (mark)
        loosen(held, mark);
    rg_held_flush(held);
}
