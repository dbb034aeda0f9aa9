/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of several nodes, seen from the engine: the leader offers what has arrived on its node,
 * and puts what all leaders have decided into its node's log.
 */
#include <stdlib.h>
#include <string.h>

#include "coll/engine/engine.h"
#include "coll/observe/stall.h"
#include "coll/observe/timeline.h"

void rg_multi_flush(struct rg_engine *engine)
{
    int n = engine->ndecided;

    if (n == 0)
        return;
    for (int i = 0; i + 1 < n; i++)
        engine->decided[i].flags |= RG_RUN_MORE;
    engine->ndecided = 0;
    rg_runlog_append(&engine->view.log, engine->decided, n, rg_log_slowest, engine);
    for (int i = engine->nadopted; i > 0 && engine->adopted[i - 1].until == UINT64_MAX; i--)
        engine->adopted[i - 1].until = rg_runlog_tail(&engine->view.log);
    rg_engine_ring_all(engine, true);
}

/* Let go of what all ranks of the node have carried out. */
static void release_adopted(struct rg_engine *engine)
{
    uint64_t low = rg_log_slowest(engine);
    int n = 0;

    while (n < engine->nadopted && engine->adopted[n].until <= low)
        rg_registry_release(&engine->view, engine->adopted[n++].id);
    engine->nadopted -= n;
    memmove(engine->adopted, engine->adopted + n,
            (size_t) engine->nadopted * sizeof(*engine->adopted));
}

static int adopt(struct rg_engine *engine, const char *name, const struct rg_signature *sig,
                 struct rg_run_item *item)
{
    int r;

    if (engine->nadopted == engine->adopted_capacity) {
        int capacity = engine->adopted_capacity ? 2 * engine->adopted_capacity : 64;
        struct rg_adopted *bigger = realloc(engine->adopted, (size_t) capacity * sizeof(*bigger));

        if (!bigger)
            return -ENOMEM;
        engine->adopted = bigger;
        engine->adopted_capacity = capacity;
    }
    r = rg_registry_adopt(&engine->registry, name, sig, &item->id, &item->epoch);
    if (r == 0)
        engine->adopted[engine->nadopted++] = (struct rg_adopted){ item->id, UINT64_MAX };
    return r;
}

/* Whatever does not go with what comes next goes into the log now: before that is adopted, as the
 * log's end tells until when an entry is held. */
static void make_room(struct rg_engine *engine, bool fused)
{
    if (!fused || engine->ndecided == RG_RUN_MAX)
        rg_multi_flush(engine);
}

static void decide(struct rg_engine *engine, struct rg_run_item item, bool fused)
{
    make_room(engine, fused);
    engine->decided[engine->ndecided++] = item;
}

static void on_decided(void *arg, const char *name, const struct rg_signature *sig,
                       const char *error, bool fused)
{
    struct rg_engine *engine = arg;
    struct rg_run_item item = { 0, sig->kind == REIGEN_ALLREDUCE ? RG_RUN_REDUCE : 0, 0 };
    int r;

    make_room(engine, fused && !error);
    r = rg_registry_lookup(&engine->view, name, &item.id);
    if (r == 0 && rg_stall_take_offer(engine->stall, item.id, &item.epoch) == 0)
        r = 0;
    else
        r = adopt(engine, name, sig, &item);
    if (r < 0) {
        rg_view_abort(&engine->view, ENOMEM, -1,
                      "an operation of the other hosts could not be taken up: too many names");
        return;
    }
    if (error) {
        rg_registry_fail(&engine->view, item.id, item.epoch, error);
        item.flags |= RG_RUN_FAILED;
    }
    decide(engine, item, fused && !error);
}

static void on_joined(void *arg, int last_rank)
{
    decide(arg, (struct rg_run_item){ 0, RG_RUN_JOINED, 1 + (uint64_t) last_rank }, false);
}

static void on_tuned(void *arg, const struct rg_tuning *tuning)
{
    decide(arg, rg_tune_item(tuning), false);
}

static void on_died(void *arg, int rank, const char *text)
{
    struct rg_engine *engine = arg;

    rg_view_abort(&engine->view, ECONNRESET, rank, text);
    rg_engine_ring_all(engine, true);
}

static int on_waiting(void *arg, int *ret_rank, struct rg_error *err)
{
    struct rg_engine *engine = arg;
    const char *text = NULL;
    int r;

    rg_watch_start(engine);
    r = rg_engine_doom(engine, &text);
    if (r == 0 && engine->world)
        r = rg_engine_doom(engine->world, &text);
    if (r == 0)
        return 0;
    *ret_rank = rg_view_abort_rank(&engine->view);
    return rg_error_set(err, -r, "%s", text);
}

static void on_shutdown(void *arg, int rank)
{
    struct rg_engine *engine = arg;
    uint32_t nobody = 0;

    rg_multi_flush(engine);
    atomic_compare_exchange_strong(&engine->view.shared->closed_by, &nobody, 1 + (uint32_t) rank);
    rg_runlog_close(&engine->view.log);
    atomic_fetch_or(&engine->view.shared->attention, RG_ATTENTION_CLOSED);
    rg_engine_ring_all(engine, true);
}

static void on_stall_query(void *arg)
{
    struct rg_engine *engine = arg;

    rg_stall_answer(engine);
}

static void on_offered(void *arg, int node, const char *name)
{
    struct rg_engine *engine = arg;

    if (rg_timeline_is_on(engine))
        rg_timeline_offered(engine, node, name);
}

static void on_stall_reply(void *arg, int node, const char *text)
{
    struct rg_engine *engine = arg;

    rg_stall_heard(engine, node, text);
}

void rg_multi_events(struct rg_engine *engine, struct rg_order_events *ret_events)
{
    *ret_events = (struct rg_order_events){
        .on_decided = on_decided,
        .on_joined = on_joined,
        .on_tuned = on_tuned,
        .on_died = on_died,
        .on_shutdown = on_shutdown,
        .on_waiting = on_waiting,
        .on_stall_query = on_stall_query,
        .on_stall_reply = on_stall_reply,
        .on_offered = on_offered,
        .arg = engine,
    };
}

static int offer(struct rg_engine *engine, const struct rg_run_item *item)
{
    const struct rg_view *view = &engine->view;
    const struct rg_entry *entry = &view->entries[item->id];

    if (item->flags & RG_RUN_JOINED)
        return rg_order_offer_join(engine->order, (int) item->epoch - 1);
    /* Whoever wrote the key has stored a version after it. The way from there to here leads through
     * another process, which orders the two, but is not seen by a checker of this one's threads. */
    atomic_load(&entry->version);
    rg_stall_offered(engine->stall, item->id, item->epoch);
    return rg_order_offer(engine->order, entry->key, &entry->sig,
                          item->flags & RG_RUN_FAILED ? view->errors[item->id][item->epoch & 1]
                                                      : NULL);
}

/* What one node's ranks know, the other leaders learn once. */
static void announce(struct rg_engine *engine)
{
    if (rg_view_aborted(&engine->view) && !engine->told_death) {
        int rank = rg_view_abort_rank(&engine->view);

        engine->told_death = true;
        rg_order_announce_death(engine->order, rank < 0 ? engine->team->rank : rank,
                                rg_view_abort_text(&engine->view));
    }
    if (!engine->told_shutdown) {
        for (int r = 0; r < engine->view.n; r++) {
            if (atomic_load(&engine->view.rows[r].left)) {
                engine->told_shutdown = true;
                rg_order_announce_shutdown(engine->order, engine->view.ranks[r]);
                return;
            }
        }
    }
}

bool rg_multi_drive(struct rg_engine *engine)
{
    struct rg_run_item item;
    struct rg_error err = RG_ERROR_INIT;
    bool moved = false;

    if (!engine->order)
        return false;
    while (rg_runlog_read(&engine->view.ready, engine->ready_position, &item)) {
        engine->ready_position++;
        moved = true;
        if (offer(engine, &item) < 0)
            rg_view_abort(&engine->view, ENOMEM, -1,
                          "an operation could not be offered to the other hosts");
    }
    announce(engine);
    rg_stall_drive(engine);
    if (rg_order_progress(engine->order, &moved, &err) < 0 &&
        !atomic_load(&engine->view.shared->closed_by)) {
        rg_view_abort(&engine->view, ECONNRESET, -1, err.text);
        rg_engine_ring_all(engine, true);
    }
    rg_multi_flush(engine);
    if (engine->nadopted)
        release_adopted(engine);
    return moved;
}

void rg_multi_fini(struct rg_engine *engine)
{
    free(engine->adopted);
}
