/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of several nodes, seen from the progress engine: the leader offers what has arrived on its
 * node, and puts what all leaders have decided into its node's log.
 */
#include <stdlib.h>
#include <string.h>

#include "coll/progress/progress.h"
#include "coll/observe/stall.h"
#include "coll/observe/timeline.h"

void rg_multi_flush(struct rg_progress *progress)
{
    int n = progress->ndecided;

    if (n == 0)
        return;
    for (int i = 0; i + 1 < n; i++)
        progress->decided[i].flags |= RG_RUN_MORE;
    progress->ndecided = 0;
    rg_runlog_append(&progress->view.log, progress->decided, n, rg_log_slowest, progress);
    for (int i = progress->nadopted; i > 0 && progress->adopted[i - 1].until == UINT64_MAX; i--)
        progress->adopted[i - 1].until = rg_runlog_tail(&progress->view.log);
    rg_progress_ring_all(progress, true);
}

/* Let go of what all ranks of the node have carried out. */
static void release_adopted(struct rg_progress *progress)
{
    uint64_t low = rg_log_slowest(progress);
    int n = 0;

    while (n < progress->nadopted && progress->adopted[n].until <= low)
        rg_table_release(&progress->view, progress->adopted[n++].id);
    progress->nadopted -= n;
    memmove(progress->adopted, progress->adopted + n,
            (size_t) progress->nadopted * sizeof(*progress->adopted));
}

static int adopt(struct rg_progress *progress, const char *name, const struct rg_signature *sig,
                 struct rg_run_item *item)
{
    int r;

    if (progress->nadopted == progress->adopted_capacity) {
        int capacity = progress->adopted_capacity ? 2 * progress->adopted_capacity : 64;
        struct rg_adopted *bigger = realloc(progress->adopted, (size_t) capacity * sizeof(*bigger));

        if (!bigger)
            return -ENOMEM;
        progress->adopted = bigger;
        progress->adopted_capacity = capacity;
    }
    r = rg_table_adopt(&progress->table, name, sig, &item->id, &item->epoch);
    if (r == 0)
        progress->adopted[progress->nadopted++] = (struct rg_adopted){ item->id, UINT64_MAX };
    return r;
}

/* Whatever does not go with what comes next goes into the log now: before that is adopted, as the
 * log's end tells until when an entry is held. */
static void make_room(struct rg_progress *progress, bool fused)
{
    if (!fused || progress->ndecided == RG_RUN_MAX)
        rg_multi_flush(progress);
}

static void decide(struct rg_progress *progress, struct rg_run_item item, bool fused)
{
    make_room(progress, fused);
    progress->decided[progress->ndecided++] = item;
}

static void on_decided(void *arg, const char *name, const struct rg_signature *sig,
                       const char *error, bool fused)
{
    struct rg_progress *progress = arg;
    struct rg_run_item item = { 0, sig->kind == REIGEN_ALLREDUCE ? RG_RUN_REDUCE : 0, 0 };
    int r;

    make_room(progress, fused && !error);
    r = rg_table_lookup(&progress->view, name, &item.id);
    if (r == 0 && rg_stall_take_offer(progress->stall, item.id, &item.epoch) == 0)
        r = 0;
    else
        r = adopt(progress, name, sig, &item);
    if (r < 0) {
        rg_view_abort(&progress->view, ENOMEM, -1,
                      "an operation of the other hosts could not be taken up: too many names");
        return;
    }
    if (error) {
        rg_table_fail(&progress->view, item.id, item.epoch, error);
        item.flags |= RG_RUN_FAILED;
    }
    decide(progress, item, fused && !error);
}

static void on_joined(void *arg, int last_rank)
{
    decide(arg, (struct rg_run_item){ 0, RG_RUN_JOINED, 1 + (uint64_t) last_rank }, false);
}

static void on_died(void *arg, int rank, const char *text)
{
    struct rg_progress *progress = arg;

    rg_view_abort(&progress->view, ECONNRESET, rank, text);
    rg_progress_ring_all(progress, true);
}

static int on_waiting(void *arg, int *ret_rank, struct rg_error *err)
{
    struct rg_progress *progress = arg;
    const char *text = NULL;
    int r;

    rg_watch_start(progress);
    r = rg_progress_abort_cause(progress, &text);
    if (r == 0 && progress->world)
        r = rg_progress_abort_cause(progress->world, &text);
    if (r == 0)
        return 0;
    *ret_rank = rg_view_abort_rank(&progress->view);
    return rg_error_set(err, -r, "%s", text);
}

static void on_shutdown(void *arg, int rank)
{
    struct rg_progress *progress = arg;
    uint32_t nobody = 0;

    rg_multi_flush(progress);
    atomic_compare_exchange_strong(&progress->view.shared->closed_by, &nobody, 1 + (uint32_t) rank);
    rg_runlog_close(&progress->view.log);
    atomic_fetch_or(&progress->view.shared->attention, RG_ATTENTION_CLOSED);
    rg_progress_ring_all(progress, true);
}

static void on_stall_query(void *arg)
{
    struct rg_progress *progress = arg;

    rg_stall_answer(progress);
}

static void on_offered(void *arg, int node, const char *name)
{
    struct rg_progress *progress = arg;

    if (rg_timeline_is_on(progress))
        rg_timeline_offered(progress, node, name);
}

static void on_stall_reply(void *arg, int node, const char *text)
{
    struct rg_progress *progress = arg;

    rg_stall_heard(progress, node, text);
}

void rg_multi_events(struct rg_progress *progress, struct rg_order_events *ret_events)
{
    *ret_events = (struct rg_order_events){
        .on_decided = on_decided,
        .on_joined = on_joined,
        .on_died = on_died,
        .on_shutdown = on_shutdown,
        .on_waiting = on_waiting,
        .on_stall_query = on_stall_query,
        .on_stall_reply = on_stall_reply,
        .on_offered = on_offered,
        .arg = progress,
    };
}

static int offer(struct rg_progress *progress, const struct rg_run_item *item)
{
    const struct rg_view *view = &progress->view;
    const struct rg_entry *entry = &view->entries[item->id];

    if (item->flags & RG_RUN_JOINED)
        return rg_order_offer_join(progress->order, (int) item->epoch - 1);
    /* Whoever wrote the key has stored a version after it. The way from there to here leads through
     * another process, which orders the two, but is not seen by a checker of this one's threads. */
    atomic_load(&entry->version);
    rg_stall_offered(progress->stall, item->id, item->epoch);
    return rg_order_offer(progress->order, entry->key, &entry->sig,
                          item->flags & RG_RUN_FAILED ? view->errors[item->id][item->epoch & 1]
                                                      : NULL);
}

/* What one node's ranks know, the other leaders learn once. */
static void announce(struct rg_progress *progress)
{
    if (rg_view_aborted(&progress->view) && !progress->told_death) {
        int rank = rg_view_abort_rank(&progress->view);

        progress->told_death = true;
        rg_order_announce_death(progress->order, rank < 0 ? progress->team->rank : rank,
                                rg_view_abort_text(&progress->view));
    }
    if (!progress->told_shutdown) {
        for (int r = 0; r < progress->view.n; r++) {
            if (atomic_load(&progress->view.rows[r].left)) {
                progress->told_shutdown = true;
                rg_order_announce_shutdown(progress->order, progress->view.ranks[r]);
                return;
            }
        }
    }
}

bool rg_multi_drive(struct rg_progress *progress)
{
    struct rg_run_item item;
    bool moved = false;

    if (!progress->order)
        return false;
    while (rg_runlog_read(&progress->view.ready, progress->ready_position, &item)) {
        progress->ready_position++;
        moved = true;
        if (offer(progress, &item) < 0)
            rg_view_abort(&progress->view, ENOMEM, -1,
                          "an operation could not be offered to the other hosts");
    }
    announce(progress);
    rg_stall_drive(progress);
    if (rg_order_progress(progress->order))
        moved = true;
    rg_multi_flush(progress);
    if (progress->nadopted)
        release_adopted(progress);
    return moved;
}

void rg_multi_fini(struct rg_progress *progress)
{
    free(progress->adopted);
}
