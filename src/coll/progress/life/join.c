/* SPDX-License-Identifier: Apache-2.0 */
/* Joining, and the end of a round. */
#include "coll/progress/life/join.h"

#include <errno.h>

#include "coll/progress/life/finish.h"
#include "coll/progress/life/submit.h"

/* Operations without a name are counted from the round's number times this one after a join. */
#define UNNAMED_IN_ROUND 1000000u

/* What waited for this rank only has arrived now. Under the mutex, so that everything arrives
 * before the end of the round is put behind it. */
static void arrive(struct rg_progress *progress)
{
    struct rg_view *view = &progress->view;

    for (uint32_t id = 0; id < view->shared->nentries; id++) {
        struct rg_entry *entry = &view->entries[id];

        if (atomic_load(&entry->version) && entry->mode != RG_ENTRY_INLINE &&
            atomic_load(&entry->arrived))
            rg_entry_arrived(progress, id, atomic_load(&entry->ready_epoch) + 1, false);
    }
}

static void watch_mine(struct rg_progress *progress)
{
    struct rg_record *record, *next;

    pthread_mutex_lock(&progress->lock);
    HASH_ITER(hh, progress->table.records, record, next)
    {
        struct rg_op *op = atomic_load(&record->op);

        if (op)
            rg_polled_add(&progress->polled, op);
    }
    pthread_mutex_unlock(&progress->lock);
}

/* The others are told. */
static void say(struct rg_progress *progress)
{
    struct rg_view *view = &progress->view;
    struct rg_shared *shared = view->shared;
    struct rg_run_item item = { 0, RG_RUN_JOINED, 1 + (uint64_t) progress->team->rank };

    watch_mine(progress);
    if (rg_view_lock(view) == 0) {
        atomic_store(&view->rows[view->me].joined, 1);
        atomic_fetch_or(&shared->attention, RG_ATTENTION_JOINED);
        if (atomic_fetch_add(&shared->joined_count, 1) + 1 <= (uint32_t) view->n)
            arrive(progress);
        if (atomic_load(&shared->joined_count) == (uint32_t) view->n)
            rg_runlog_append(view->nnodes > 1 ? &view->ready : &view->log, &item, 1, NULL, NULL);
        rg_view_unlock(view);
    }
    rg_wake_ring_all(&progress->wake, true);
}

int rg_join_post(struct rg_progress *progress, struct rg_op *op, struct rg_error *err)
{
    const char *text = NULL;
    bool unsaid;
    int r = rg_progress_abort_cause(progress, &text);

    if (r < 0) {
        rg_progress_cut_off(progress, r);
        return rg_error_set(err, -r, "%s", text);
    }
    if (atomic_exchange(&progress->join.begun, true))
        return rg_error_set(err, EEXIST, "%s", rg_name_in_use_text);
    op->mode = RG_ENTRY_STREAM;
    atomic_store(&op->state, RG_OP_POSTED);
    /* All at once: another thread may drive already. No round ends without this rank. What stands
     * in line was submitted before, and comes in as long as nobody knows of the join. */
    pthread_mutex_lock(&progress->lock);
    progress->join.round = atomic_load(&progress->view.shared->join_round);
    progress->join.op = op;
    unsaid = atomic_load(&progress->line.n) > 0;
    atomic_store(&progress->join.unsaid, unsaid);
    pthread_mutex_unlock(&progress->lock);
    if (unsaid)
        rg_wake_ring(&progress->wake, progress->view.me, true);
    else
        say(progress);
    return 0; /* a death is told through the operation */
}

void rg_join_consumed(struct rg_progress *progress, int last_rank)
{
    atomic_store(&progress->view.shared->join_last, last_rank);
    progress->join.consumed = true;
}

static bool busy(struct rg_progress *progress)
{
    struct rg_record *record, *next;
    bool found = false;

    pthread_mutex_lock(&progress->lock);
    HASH_ITER(hh, progress->table.records, record, next)
    found = found || atomic_load(&record->op) != NULL;
    pthread_mutex_unlock(&progress->lock);
    return found;
}

static void drain(struct rg_progress *progress)
{
    struct rg_view *view = &progress->view;
    struct rg_shared *shared = view->shared;
    bool last = false;

    if (rg_view_lock(view) < 0)
        return;
    progress->join.consumed = false;
    if (atomic_fetch_add(&shared->drained_count, 1) + 1 == (uint32_t) view->n) {
        rg_table_level(view);
        for (int r = 0; r < view->n; r++)
            atomic_store(&view->rows[r].joined, 0);
        atomic_store(&shared->joined_count, 0);
        atomic_store(&shared->drained_count, 0);
        atomic_fetch_and(&shared->attention, ~(uint32_t) RG_ATTENTION_JOINED);
        atomic_fetch_add(&shared->join_round, 1);
        last = true;
    }
    rg_view_unlock(view);
    if (last)
        rg_wake_ring_all(&progress->wake, true);
}

/* The ranks that joined first have counted fewer operations without a name: after the round they
 * all count from the same number again, one that none has used. With the progress engine's lock
 * held. */
static void level_unnamed(struct rg_progress *progress, uint64_t round)
{
    for (size_t kind = 0; kind < rg_array_len(progress->table.unnamed); kind++)
        progress->table.unnamed[kind] = round * UNNAMED_IN_ROUND;
}

bool rg_join_drive(struct rg_progress *progress)
{
    struct rg_shared *shared = progress->view.shared;
    struct rg_op *op = NULL;
    uint64_t round;

    if (atomic_load(&progress->join.unsaid) && !atomic_load(&progress->line.n)) {
        atomic_store(&progress->join.unsaid, false);
        say(progress);
    }
    if (progress->join.consumed && !busy(progress))
        drain(progress);
    pthread_mutex_lock(&progress->lock);
    round = atomic_load(&shared->join_round);
    if (progress->join.op && round != progress->join.round) {
        op = progress->join.op;
        progress->join.op = NULL;
        level_unnamed(progress, round);
    }
    pthread_mutex_unlock(&progress->lock);
    if (!op)
        return false;
    atomic_store(&progress->join.begun, false);
    if (rg_op_claim(op))
        rg_op_finish(progress, op, 1 + atomic_load(&shared->join_last), NULL);
    return true;
}

void rg_join_end(struct rg_progress *progress, int status, const char *text)
{
    struct rg_op *op;

    pthread_mutex_lock(&progress->lock);
    op = progress->join.op;
    progress->join.op = NULL;
    atomic_store(&progress->join.unsaid, false);
    pthread_mutex_unlock(&progress->lock);
    if (op && rg_op_claim(op))
        rg_op_finish(progress, op, status, text);
}
