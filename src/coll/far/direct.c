/* SPDX-License-Identifier: Apache-2.0 */
/* From the slots of a node's ranks to the exchange between leaders, and back. */
#include "coll/far/direct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/far/far.h"
#include "coll/negotiate/order.h"
#include "coll/node/signature.h"
#include "coll/reduce/reduce.h"

#define SLOW_NS (100 * RG_NS_PER_MS) /* after which the coordinator hears of it */

/* In flight; of a number one at a time. */
struct use {
    struct rg_far_op far;
    bool own;                /* of ranks of this node; else zeros are lent */
    bool told;               /* that it takes long */
    struct rg_run_item item; /* own */
    uint64_t since_ns;
    char *zeros;             /* lent: where the result goes; owned */
    struct use *next;        /* of those that are free */
};

struct rg_direct {
    struct rg_direct_options options;
    struct rg_order *order;  /* NULL: nothing has arrived yet */
    struct rg_far *far;
    struct use **uses;       /* by number; NULL: none is in flight */
    size_t uses_capacity;
    struct use *spare;
    int nuses;               /* in flight */
    uint64_t looked_ns;      /* for those that take long */
    bool node_joined;
    uint8_t round;           /* of joins */
    int failure;             /* -errno, not told yet */
    bool dead;
    struct rg_error cause;
};

/* ---- those in flight */

static struct use *new_use(struct rg_direct *direct, uint32_t id)
{
    struct use *use = direct->spare;

    if (rg_grow(&direct->uses, &direct->uses_capacity, (size_t) id + 1) < 0)
        return NULL;
    if (use)
        direct->spare = use->next;
    else
        use = malloc(sizeof(*use));
    if (!use)
        return NULL;
    *use = (struct use){ .far.id = id };
    direct->uses[id] = use;
    direct->nuses++;
    return use;
}

static void release(struct rg_direct *direct, struct use *use)
{
    direct->uses[use->far.id] = NULL;
    direct->nuses--;
    free(use->zeros);
    use->zeros = NULL;
    use->next = direct->spare;
    direct->spare = use;
}

/* What the exchange needs to know of a signature. */
static void describe(const struct rg_direct *direct, const struct rg_signature *sig,
                     struct rg_far_op *far)
{
    far->dtype = sig->dtype;
    far->op = sig->op == REIGEN_AVERAGE ? REIGEN_SUM : sig->op;
    far->count = rg_signature_nbytes(sig) / rg_dtype_nbytes(sig->dtype);
    far->scale = rg_signature_scale(sig, direct->options.team->size);
}

static void fail(struct rg_direct *direct, int r, const char *text)
{
    if (direct->failure || direct->dead)
        return;
    rg_error_set(&direct->cause, -r, "%s", text);
    direct->failure = r;
}

/* ---- this node's part */

static char *slot_of(const struct rg_view *view, const struct rg_run_item *item, int r)
{
    const struct rg_entry *entry = &view->entries[item->id];

    return rg_view_slot(view, entry->slot, entry->slot_nbytes, item->epoch, r);
}

/* Whoever has announced it has filled its slot; one may be just about to. */
static bool all_filled(const struct rg_view *view, const struct rg_run_item *item)
{
    for (int r = 0; r < view->n; r++) {
        const _Atomic uint64_t *seq = (_Atomic uint64_t *) (void *) slot_of(view, item, r);

        if (atomic_load(&rg_view_place(view, r, item->id)->posted) >= item->epoch &&
            atomic_load_explicit(seq, memory_order_acquire) != item->epoch)
            return false;
    }
    return true;
}

/* All slots, reduced in the order of ranks, into this rank's own. */
static void reduce_slots(const struct rg_view *view, const struct rg_run_item *item,
                         struct rg_far_op *far)
{
    const struct rg_scale before = { far->scale.pre, 1.0, 1 };
    size_t nbytes = far->count * rg_dtype_nbytes(far->dtype);
    size_t skip = rg_slot_header_nbytes(nbytes);
    const void *srcs[RG_INLINE_RANKS_MAX];

    far->out = slot_of(view, item, view->me) + skip;
    far->in = far->out;
    for (int r = 0; r < view->n; r++) {
        bool absent = atomic_load(&rg_view_place(view, r, item->id)->posted) < item->epoch;

        srcs[r] = absent ? NULL : slot_of(view, item, r) + skip;
    }
    if (far->count && (view->n > 1 || before.pre != 1.0))
        rg_reduce(far->dtype, far->op, far->out, srcs, view->n, far->count, &before);
}

/* It can go: 1, and whether by slots; -EAGAIN: some rank is just about to fill its own. */
static int has_come(const struct rg_direct *direct, const struct rg_run_item *item,
                    bool *ret_by_slots)
{
    const struct rg_op *op = atomic_load(&direct->options.ops[item->id]);
    const struct rg_view *view = direct->options.view;
    bool own = op && op->epoch == item->epoch;

    if (view->n == 1 && !own)
        return -EAGAIN;
    *ret_by_slots = view->n > 1 || rg_direct_by_slots(view, op);
    return !*ret_by_slots || all_filled(view, item) ? 1 : -EAGAIN;
}

int rg_direct_begin(struct rg_direct *direct, struct rg_order *order,
                    const struct rg_run_item *item)
{
    const struct rg_view *view = direct->options.view;
    const struct rg_entry *entry = &view->entries[item->id];
    uint32_t id = 0, seq = 0;
    bool by_slots = false;
    struct use *use;
    int r;

    direct->order = order;
    if (entry->mode != RG_ENTRY_DIRECT || item->flags & RG_RUN_FAILED || direct->dead)
        return 0;
    r = has_come(direct, item, &by_slots);
    if (r == 1)
        r = rg_order_direct(order, entry->key, &entry->sig, &id, &seq);
    if (r != 1)
        return r;
    use = new_use(direct, id);
    if (!use)
        return -ENOMEM;
    use->own = true;
    use->item = *item;
    use->since_ns = rg_now_ns();
    use->far.seq = seq;
    use->far.round = direct->round;
    describe(direct, &entry->sig, &use->far);
    if (by_slots) {
        reduce_slots(view, item, &use->far);
    } else {
        const struct rg_op *op = atomic_load(&direct->options.ops[item->id]);

        use->far.in = op->tensors[0].in;
        use->far.out = op->tensors[0].out;
    }
    direct->options.note(direct->options.arg, item, use->since_ns);
    r = rg_far_post(direct->far, &use->far);
    if (r < 0)
        fail(direct, r, r == -ENOMEM ? "out of memory" : "another host means another size");
    return 1;
}

/* ---- what becomes of it */

static void on_done(void *arg, struct rg_far_op *far)
{
    struct rg_direct *direct = arg;
    struct use *use = (struct use *) (void *) far;
    struct rg_run_item item = { use->item.id, RG_RUN_DIRECT, use->item.epoch };
    uint32_t id = far->id;
    bool own = use->own;

    release(direct, use);
    if (own)
        direct->options.on_result(direct->options.arg, &item);
    rg_order_direct_done(direct->order, id);
}

void rg_direct_void(struct rg_direct *direct, uint32_t id, bool again)
{
    struct use *use = id < direct->uses_capacity ? direct->uses[id] : NULL;
    const struct rg_entry *entry;
    int r;

    if (!use)
        return;
    rg_far_drop(direct->far, &use->far);
    if (again) {
        entry = &direct->options.view->entries[use->item.id];
        r = rg_order_offer(direct->order, entry->key, &entry->sig, NULL);
        if (r < 0)
            fail(direct, r, "an operation could not be offered to the other hosts");
    } else if (use->own) {
        direct->options.note(direct->options.arg, &use->item, 0);
    }
    release(direct, use);
}

void rg_direct_expect(struct rg_direct *direct, uint32_t id, uint32_t seq, uint8_t way)
{
    int r;

    if (direct->dead)
        return;
    r = rg_far_expect(direct->far, id, seq, way);
    if (r < 0)
        fail(direct, r, r == -ENOMEM ? "out of memory" : "a decision says no way that there is");
    else
        rg_far_connect(direct->far, way);
    if (direct->node_joined)
        rg_far_tell_early(direct->far);
}

/* ---- ranks that have joined */

static void on_early(void *arg, uint32_t id, uint32_t seq, uint8_t round)
{
    struct rg_direct *direct = arg;
    struct rg_signature sig;
    struct use *use;

    if (!direct->node_joined || round != direct->round ||
        !rg_order_lend(direct->order, id, seq, &sig))
        return;
    use = new_use(direct, id);
    if (use) {
        use->since_ns = rg_now_ns();
        use->far.seq = seq;
        use->far.round = round;
        describe(direct, &sig, &use->far);
        use->zeros = malloc(rg_signature_nbytes(&sig) + 1);
        use->far.out = use->zeros;
    }
    if (!use || !use->zeros || rg_far_post(direct->far, &use->far) < 0)
        fail(direct, -ENOMEM, "zeros could not be lent to what other hosts have begun");
}

void rg_direct_node_joined(struct rg_direct *direct, struct rg_order *order)
{
    direct->order = order;
    direct->node_joined = true;
    if (!direct->dead)
        rg_far_tell_early(direct->far);
}

void rg_direct_all_joined(struct rg_direct *direct)
{
    direct->node_joined = false;
    direct->round++;
}

/* ---- progress */

/* Who waits for long asks where the others are. */
static void tell_slow(struct rg_direct *direct, uint64_t now_ns)
{
    direct->looked_ns = now_ns;
    for (uint32_t id = 0; id < direct->uses_capacity; id++) {
        struct use *use = direct->uses[id];

        if (!use || use->told || now_ns < use->since_ns + SLOW_NS)
            continue;
        use->told = true;
        if (use->own)
            rg_order_direct_waits(direct->order, id, use->far.seq);
    }
}

bool rg_direct_progress(struct rg_direct *direct, bool all)
{
    struct rg_error err = RG_ERROR_INIT;
    bool moved = false;
    int r;

    if (direct->dead || !(all || direct->nuses))
        return false;
    r = rg_far_progress(direct->far, all, &moved, &err);
    if (r < 0)
        fail(direct, r, err.text);
    if (all && direct->nuses) {
        uint64_t now_ns = rg_now_ns();

        if (now_ns > direct->looked_ns + SLOW_NS / 2)
            tell_slow(direct, now_ns);
    }
    return moved;
}

int rg_direct_failure(struct rg_direct *direct, struct rg_error *err)
{
    int r = direct->failure;

    if (r < 0) {
        *err = direct->cause;
        direct->failure = 0;
        rg_direct_stop(direct, false);
    }
    return r;
}

bool rg_direct_in_flight(const struct rg_direct *direct)
{
    return direct->nuses > 0;
}

bool rg_direct_has_work(const struct rg_direct *direct)
{
    return direct->nuses > 0 || (!direct->dead && rg_far_sends(direct->far));
}

int rg_direct_wait_fds(struct rg_direct *direct, int *ret_fds, unsigned *ret_events, int max)
{
    return direct->dead ? 0 : rg_far_wait_fds(direct->far, ret_fds, ret_events, max);
}

void rg_direct_stop(struct rg_direct *direct, bool sends)
{
    if (!direct)
        return;
    for (uint32_t id = 0; id < direct->uses_capacity; id++) {
        if (!direct->uses[id])
            continue;
        rg_far_drop(direct->far, &direct->uses[id]->far);
        release(direct, direct->uses[id]);
    }
    direct->dead = true;
    if (!sends)
        rg_far_abort(direct->far);
}

/* ---- life */

int rg_direct_create(const struct rg_direct_options *options, struct rg_direct **ret_direct)
{
    struct rg_direct *direct = calloc(1, sizeof(*direct));
    const struct rg_far_events events = { on_done, on_early, direct };
    int r;

    if (!direct)
        return -ENOMEM;
    direct->options = *options;
    r = rg_far_create(options->team, &events, &direct->far);
    if (r < 0) {
        free(direct);
        return r;
    }
    *ret_direct = direct;
    return 0;
}

void rg_direct_destroy(struct rg_direct *direct, int timeout_ms)
{
    struct use *use;

    if (!direct)
        return;
    rg_far_destroy(direct->far, timeout_ms);
    for (uint32_t id = 0; id < direct->uses_capacity; id++)
        if (direct->uses[id])
            release(direct, direct->uses[id]);
    while ((use = direct->spare) != NULL) {
        direct->spare = use->next;
        free(use);
    }
    free(direct->uses);
    free(direct);
}

void rg_direct_after_fork(struct rg_direct *direct)
{
    rg_far_after_fork(direct->far);
}
