/* SPDX-License-Identifier: Apache-2.0 */
/* Submitting: announcing an operation, and noticing that it was the last that was missing. */
#include "coll/progress/life/submit.h"

#include <errno.h>

#include "coll/far/direct.h"
#include "coll/ground/rest.h"
#include "coll/node/signature.h"
#include "coll/progress/life/finish.h"
#include "coll/progress/life/inline.h"

const char rg_name_in_use_text[] =
    "Requested to allreduce, allgather, or broadcast a tensor with the same name as another "
    "tensor that is currently being processed.  If you want to request another tensor, use a "
    "different tensor name.";

uint64_t rg_log_slowest(void *arg)
{
    struct rg_progress *progress = arg;
    struct rg_view *view = &progress->view;
    uint64_t low = UINT64_MAX - 1;

    if (atomic_load(&view->shared->aborted) || atomic_load(&progress->abandoned))
        return UINT64_MAX;
    for (int r = 0; r < view->n; r++) {
        uint64_t at = atomic_load(&view->rows[r].consumed);

        low = at < low && !atomic_load(&view->rows[r].left) ? at : low;
    }
    return low;
}

void rg_entry_arrived(struct rg_progress *progress, uint32_t id, uint64_t epoch, bool drives)
{
    struct rg_view *view = &progress->view;
    struct rg_entry *entry = &view->entries[id];
    uint64_t before = epoch - 1;
    struct rg_run_item item = { id, 0, epoch };
    const char *refusal = NULL;

    for (int r = 0; r < view->n; r++) {
        if (atomic_load(&rg_view_place(view, r, id)->posted) < epoch &&
            !atomic_load(&view->rows[r].joined))
            return;
    }
    atomic_store_explicit(&entry->last, (uint32_t) view->me, memory_order_relaxed);
    if (!atomic_compare_exchange_strong(&entry->ready_epoch, &before, epoch))
        return;
    atomic_store(&entry->arrived, 0);
    if (entry->sig.kind == REIGEN_ALLREDUCE)
        item.flags |= RG_RUN_REDUCE;
    if (atomic_load(&view->shared->joined_count))
        refusal = rg_join_refusal(entry->sig.kind);
    if (refusal)
        rg_table_fail(view, id, epoch, refusal);
    if (atomic_load(&entry->error_epoch[epoch & 1]) == epoch)
        item.flags |= RG_RUN_FAILED;
    if (view->nnodes > 1) {
        rg_runlog_append(&view->ready, &item, 1, NULL, NULL);
        if (!drives || view->me != 0)
            rg_wake_ring(&progress->wake, 0, true);
    } else {
        rg_runlog_append(&view->log, &item, 1, rg_log_slowest, progress);
        for (int r = 0; r < view->n; r++) {
            if (r != view->me)
                rg_wake_ring(&progress->wake, r, true);
        }
    }
}

static void stream_post(struct rg_progress *progress, struct rg_op *op)
{
    struct rg_view *view = &progress->view;
    struct rg_entry *entry = op->record->entry;
    uint32_t id = op->record->id, arrived;
    bool waits = op->waits;
    uint64_t epoch = op->epoch;

    atomic_store(&progress->by_entry[id], op); /* from here on op may end at any moment */
    arrived = atomic_fetch_add(&entry->arrived, 1) + 1;
    if (arrived + atomic_load(&view->shared->joined_count) >= (uint32_t) view->n)
        rg_entry_arrived(progress, id, epoch, waits);
    if (!waits)
        rg_wake_ring(&progress->wake, view->me, true);
}

/* A rank that joined with an operation unfinished may still read the slot that the next epoch
 * would overwrite. */
static bool lagging(const struct rg_view *view, const struct rg_record *record)
{
    uint64_t epoch;

    if (!record->held || record->mode == RG_ENTRY_STREAM)
        return false;
    epoch = atomic_load(&record->place->posted) + 1;
    for (int r = 0; epoch > 2 && r < view->n; r++) {
        const struct rg_epochs *place = rg_view_place(view, r, record->id);

        if (atomic_load(&place->posted) >= epoch - 2 && atomic_load(&place->done) < epoch - 2)
            return true;
    }
    return false;
}

static int announce(struct rg_progress *progress, struct rg_op *op)
{
    struct rg_record *record = op->record;
    struct rg_notice notice = { op->sigs, op->n, op->digest, op->nbytes };
    struct rg_row *row = &progress->view.rows[progress->view.me];
    struct rg_observer *observer;
    bool hit = false;
    int r;

    if (atomic_load_explicit(&progress->view.shared->attention, memory_order_relaxed) &&
        lagging(&progress->view, record))
        return -EAGAIN;
    r = rg_table_announce(&progress->table, record, &notice, &op->epoch, &hit);
    if (r < 0)
        return r;
    op->slot.bad = r == 1;
    op->mode = record->mode;
    op->slot.offset = record->slot;
    op->slot.nbytes = record->slot_nbytes;
    op->slot.seen = 0;
    /* Whoever tells of it reads its key. */
    atomic_store_explicit(&row->last_id, record->id + 1, memory_order_release);
    atomic_store_explicit(&row->nsubmitted,
                          atomic_load_explicit(&row->nsubmitted, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&row->fails, 0, memory_order_relaxed);
    if (hit)
        rg_count(&progress->counters.cache_hits, 1);
    observer = rg_progress_timed(progress);
    if (observer)
        observer->ops->submitted(progress, op);
    if (op->mode == RG_ENTRY_INLINE) {
        rg_inline_post(progress, op);
        atomic_store_explicit(&op->state, RG_OP_POSTED, memory_order_release);
    } else {
        if (op->mode == RG_ENTRY_DIRECT && rg_direct_by_slots(&progress->view, op))
            rg_inline_fill(progress, op);
        atomic_store_explicit(&op->state, RG_OP_POSTED, memory_order_release);
        stream_post(progress, op);
    }
    return 0;
}

int rg_op_refusal(struct rg_progress *progress, const struct rg_record *record,
                  struct rg_error *err)
{
    const char *text = NULL;
    int r = 0;

    if (atomic_load_explicit(&progress->view.shared->attention, memory_order_acquire))
        r = rg_progress_abort_cause(progress, &text);
    if (r < 0) {
        rg_progress_cut_off(progress, r);
        return rg_error_set(err, -r, "%s", text);
    }
    if (atomic_load_explicit(&progress->join.begun, memory_order_acquire))
        return rg_error_set(err, EINVAL, "%s: this rank has joined; wait for the join first",
                            record->key);
    return 0;
}

/* What announce() has given, but -EAGAIN, in words. */
static int cannot(const struct rg_op *op, int r, struct rg_error *err)
{
    if (r == -ENOSPC)
        return rg_error_set(err, ENOMEM,
                            "%s: more than %d names, or their groups, are in use on this host",
                            op->record->key, RG_ENTRIES_MAX);
    return rg_error_set(err, -r, "%s: cannot be submitted: another rank died", op->record->key);
}

int rg_op_post(struct rg_progress *progress, struct rg_op *op, struct rg_error *err)
{
    int r = 0;

    if (atomic_load_explicit(&progress->view.shared->attention, memory_order_acquire) ||
        atomic_load_explicit(&progress->join.begun, memory_order_acquire))
        r = rg_op_refusal(progress, op->record, err);
    if (r < 0)
        return r;
    op->epoch = 0;
    if (progress->config->deadlock_ms)
        rg_rest_submit();
    atomic_store_explicit(&progress->counters.submitter, pthread_self(), memory_order_relaxed);
    atomic_store_explicit(&op->state, RG_OP_FREE, memory_order_relaxed);
    r = announce(progress, op);
    if (r == -EAGAIN) {
        struct rg_observer *observer = rg_progress_timed(progress);

        if (observer)
            observer->ops->queued(progress, op);
        atomic_store(&op->state, RG_OP_QUEUED);
        rg_polled_later(&progress->polled, op);
        return 0;
    }
    return r < 0 ? cannot(op, r, err) : 0;
}

void rg_op_retry(struct rg_progress *progress, struct rg_op *op)
{
    struct rg_error err = RG_ERROR_INIT;
    const char *text = NULL;
    int state = RG_OP_QUEUED, r;

    if (!atomic_compare_exchange_strong(&op->state, &state, RG_OP_FREE))
        return;
    r = rg_progress_abort_cause(progress, &text);
    if (r == 0)
        r = announce(progress, op);
    if (r == 0)
        return;
    atomic_store(&op->state, RG_OP_QUEUED);
    if (r == -EAGAIN || !rg_op_claim(op))
        return;
    if (!text)
        r = cannot(op, r, &err);
    rg_op_finish(progress, op, r, text ? text : err.text);
}

static bool take(struct rg_progress *progress, struct rg_record *record, struct rg_op *op,
                 bool follows)
{
    struct rg_op *nobody = NULL;

    return follows ? atomic_compare_exchange_strong(&record->op, &nobody, op)
                   : rg_record_take(progress, record, op);
}

/* Out of line, as names are free as a rule. */
static __attribute__((noinline)) int claim_used(struct rg_progress *progress,
                                                struct rg_record *record, struct rg_op *op,
                                                bool follows)
{
    struct rg_op *other = atomic_load(&record->op);

    if (!other || (!follows && rg_record_is_held(record)))
        return -EEXIST;
    /* Perhaps it has arrived and nobody has looked. Finishing takes the lock, unless it is a
     * request's. */
    if (other->persistent) {
        rg_op_try(progress, other);
    } else {
        atomic_fetch_add(&other->refs, 1);
        pthread_mutex_unlock(&progress->lock);
        rg_op_try(progress, other);
        rg_op_unref(other);
        pthread_mutex_lock(&progress->lock);
    }
    if (take(progress, record, op, follows))
        return 0;
    /* Whoever waits for op does not look at what is before it. */
    other = atomic_load(&record->op);
    if (follows && other)
        rg_polled_add(&progress->polled, other);
    return -EEXIST;
}

static inline int claim(struct rg_progress *progress, struct rg_record *record, struct rg_op *op,
                        bool follows)
{
    return take(progress, record, op, follows) ? 0 : claim_used(progress, record, op, follows);
}

static void take_over(struct rg_record *record)
{
    rg_record_take_over(record);
    for (int i = 0; i < record->nmembers; i++)
        rg_record_take_over(record->members[i]);
}

/* Of one that stands in line, only those behind it may have missed the record meanwhile, and its
 * own look at the line is not to bring the next one. */
static void give_back(struct rg_progress *progress, struct rg_record *record,
                      const struct rg_op *op)
{
    if (atomic_load(&op->state) == RG_OP_IN_LINE)
        atomic_store(&record->op, NULL);
    else
        rg_record_drop(progress, record);
}

int rg_names_claim(struct rg_progress *progress, struct rg_record *record, struct rg_op *op,
                   bool follows)
{
    int r;

    record->pins++; /* while the lock is let go, and nobody has it */
    r = claim(progress, record, op, follows);
    for (int i = 0; r == 0 && i < record->nmembers; i++) {
        r = claim(progress, record->members[i], op, follows);
        if (r < 0) {
            while (i-- > 0)
                give_back(progress, record->members[i], op);
            give_back(progress, record, op);
        }
    }
    if (r == 0 && follows)
        take_over(record);
    record->pins--;
    return r;
}
