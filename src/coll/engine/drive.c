/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/time.h"
#include "coll/engine/engine.h"
#include "coll/observe/timeline.h"

#define CAUSE_WAIT_MS 300
#define ROUNDS_MAX 64 /* items carried out in one call, so that a waiter sees its own operation */

static struct rg_row *my_row(struct rg_engine *engine)
{
    return &engine->view.rows[engine->view.me];
}

/* ---- chores */

static bool chores(struct rg_engine *engine)
{
    bool moved = false;
    struct rg_op *op, *next;

    pthread_mutex_lock(&engine->lock);
    op = engine->chores;
    if (op)
        atomic_fetch_add(&op->refs, 1);
    pthread_mutex_unlock(&engine->lock);
    while (op) {
        rg_op_retry(engine, op);
        rg_op_try(engine, op);
        pthread_mutex_lock(&engine->lock);
        next = op->next;
        /* A persistent operation may have been started, and queued, again meanwhile. */
        bool done = rg_op_done(op);

        if (done && atomic_load(&op->chore)) {
            DL_DELETE(engine->chores, op);
            atomic_store(&op->chore, false);
            atomic_fetch_sub(&engine->nchores, 1);
            moved = true;
        } else {
            done = false;
        }
        if (next)
            atomic_fetch_add(&next->refs, 1);
        pthread_mutex_unlock(&engine->lock);
        if (done)
            rg_op_unref(op);
        rg_op_unref(op);
        op = next;
    }
    return moved;
}

/* ---- the log */

static void finish_posted(struct rg_engine *engine, uint32_t id, int status, const char *text)
{
    struct rg_op *op = atomic_load(&engine->by_entry[id]);

    if (!op || !rg_op_claim(op))
        return;
    atomic_store(&engine->by_entry[id], NULL);
    rg_op_finish(engine, op, status, text);
}

static void finish_all(struct rg_engine *engine, int status, const char *text)
{
    struct rg_op *join;

    for (uint32_t id = 0; id < RG_ENTRIES_MAX; id++) {
        if (atomic_load_explicit(&engine->by_entry[id], memory_order_relaxed))
            finish_posted(engine, id, status, text);
    }
    pthread_mutex_lock(&engine->lock);
    join = engine->join;
    engine->join = NULL;
    pthread_mutex_unlock(&engine->lock);
    if (join && rg_op_claim(join))
        rg_op_finish(engine, join, status, text);
}

/* Whoever gives up after a death closes its connections: its leader tells ours who has died. */
static void hear_cause(struct rg_engine *engine)
{
    uint64_t deadline_ns = rg_now_ns() + CAUSE_WAIT_MS * RG_NS_PER_MS;

    while (!atomic_load(&engine->view.shared->aborted) && rg_now_ns() < deadline_ns) {
        if (!rg_multi_drive(engine))
            rg_sleep_ms(1);
    }
}

static void die(struct rg_engine *engine, int r, const struct rg_error *err, const char *what)
{
    char text[RG_ERROR_TEXT_MAX + 64];

    if (engine->view.nnodes > 1 && r == -ECONNRESET)
        hear_cause(engine);
    snprintf(text, sizeof(text), "%s%s%s", what, err->text[0] ? ": " : "", err->text);
    if (rg_view_abort(&engine->view, r < 0 ? -r : ECONNRESET, -1, text) && engine->boot)
        rg_boot_note(engine->boot, 0, text);
    rg_engine_ring_all(engine, true);
}

/* The operation of an item. 0 and *ret_op (NULL: this rank had joined), -EAGAIN: its submission
 * is just under way. */
static int find_op(struct rg_engine *engine, const struct rg_run_item *item, struct rg_op **ret_op)
{
    struct rg_op *op = atomic_load(&engine->by_entry[item->id]);
    const struct rg_place *place = rg_view_place(&engine->view, engine->view.me, item->id);

    if (op && op->epoch == item->epoch) {
        *ret_op = op;
        return 0;
    }
    if (atomic_load(&place->posted) >= item->epoch)
        return -EAGAIN;
    *ret_op = NULL;
    return 0;
}

/* The next run of the log, whole, with its operations. */
static bool next_run(struct rg_engine *engine)
{
    struct rg_run *run = &engine->run;
    bool timed = false;
    int n = 0;

    do {
        if (n == RG_RUN_MAX ||
            !rg_runlog_read(&engine->view.log, engine->position + (uint64_t) n, &run->items[n]))
            return false;
        run->ops[n] = NULL;
        if (!(run->items[n].flags & (RG_RUN_JOINED | RG_RUN_TUNE)) &&
            find_op(engine, &run->items[n], &run->ops[n]) < 0)
            return false;
        timed = timed || (run->ops[n] && run->ops[n]->timed);
    } while (run->items[n++].flags & RG_RUN_MORE);
    run->nitems = n;
    /* For a rank that has joined: the entry may have changed since, unless the others need its
     * zeros. */
    if (run->ops[0])
        run->kind = run->ops[0]->kind;
    else
        run->kind = run->items[0].flags & RG_RUN_REDUCE ? REIGEN_ALLREDUCE : REIGEN_BARRIER;
    run->posted = false;
    run->tensor = run->step = 0;
    run->lacks_memory = false;
    run->timed = timed;
    run->activity = NULL;
    if (__builtin_expect(timed, 0))
        rg_timeline_run(engine);
    return true;
}

static void end_run(struct rg_engine *engine, int status, const char *text)
{
    struct rg_run *run = &engine->run;

    if (run->posted)
        atomic_fetch_add_explicit(&engine->busy_ns, rg_now_ns() - run->started_ns,
                                  memory_order_relaxed);
    if (run->nitems > 1)
        atomic_fetch_add_explicit(&engine->nfused, (uint64_t) run->nitems, memory_order_relaxed);
    for (int i = 0; i < run->nitems; i++) {
        if (run->ops[i])
            finish_posted(engine, run->items[i].id, status, text);
    }
    if (engine->autotune && run->ops[0])
        rg_tune_watch(engine, run->items[0].id);
    engine->position += (uint64_t) run->nitems;
    atomic_store(&my_row(engine)->consumed, engine->position);
    run->nitems = 0;
    run->posted = false;
}

/* Begin what comes next. True when exec is at work or the run has ended. */
static bool post_run(struct rg_engine *engine)
{
    struct rg_run *run = &engine->run;
    const struct rg_run_item *item = &run->items[0];
    int r;

    if (item->flags & RG_RUN_JOINED) {
        rg_join_consumed(engine, (int) item->epoch - 1);
        end_run(engine, 0, NULL);
        return true;
    }
    if (item->flags & RG_RUN_TUNE) {
        rg_tune_apply(engine, item->epoch);
        end_run(engine, 0, NULL);
        return true;
    }
    if (item->flags & RG_RUN_FAILED) {
        end_run(engine, -EINVAL, engine->view.errors[item->id][item->epoch & 1]);
        return true;
    }
    if (run->kind == REIGEN_ALLREDUCE) {
        r = rg_run_reduce_post(engine);
    } else if (run->kind == REIGEN_BARRIER || !run->ops[0]) {
        r = 0;
    } else {
        r = rg_run_step(engine, run->ops[0]);
    }
    if (r < 0) {
        struct rg_error err = RG_ERROR_INIT;

        die(engine, r, &err, "an operation could not be started");
        return true;
    }
    if (r == 0) {
        end_run(engine, run->lacks_memory ? -ENOMEM : 0, "out of memory for the result");
        return true;
    }
    if (!run->posted)
        run->started_ns = rg_now_ns();
    run->posted = true;
    rg_timeline_activity(engine, rg_exec_activity(engine->exec));
    return true;
}

/* True when something moved. */
static bool progress_run(struct rg_engine *engine)
{
    struct rg_error err = RG_ERROR_INIT;
    bool moved = false;
    int r = rg_exec_progress(engine->exec, &moved, &err);

    if (r < 0) {
        die(engine, r, &err, "an operation failed");
        return true;
    }
    if (r == 0) {
        rg_timeline_activity(engine, rg_exec_activity(engine->exec));
        return moved;
    }
    if (engine->run.kind != REIGEN_ALLREDUCE)
        return post_run(engine);
    r = rg_run_reduce_next(engine);
    if (r < 0) {
        die(engine, r, &err, "an operation could not go on");
        return true;
    }
    if (r == 0)
        end_run(engine, 0, NULL);
    return true;
}

static bool carry_out(struct rg_engine *engine)
{
    const struct rg_run *run = &engine->run;
    bool moved = false;

    for (int i = 0; i < ROUNDS_MAX; i++) {
        if (run->nitems == 0 && !next_run(engine))
            return moved;
        if (!(run->posted ? progress_run(engine) : post_run(engine)))
            return moved;
        moved = true;
        if (atomic_load_explicit(&engine->view.shared->aborted, memory_order_relaxed))
            return moved;
    }
    return moved;
}

/* After a death: nothing can be carried out any more. */
static void give_up(struct rg_engine *engine, int status, const char *text)
{
    if (!engine->exec_dead) {
        rg_multi_drive(engine); /* the other leaders are to hear of it first, and once */
        rg_exec_abort(engine->exec);
    }
    engine->exec_dead = true;
    engine->run.nitems = 0;
    engine->run.posted = false;
    finish_all(engine, status, text);
}

static bool look_closer(struct rg_engine *engine)
{
    const char *text = NULL;
    int status = rg_engine_doom(engine, &text);

    if (status == 0)
        return false;
    if (atomic_load(&engine->view.shared->aborted) || atomic_load(&engine->abandoned)) {
        give_up(engine, status, text);
        return true;
    }
    /* Closed: what is in the log is still carried out, by all ranks. */
    if (engine->run.nitems == 0 && rg_runlog_ended(&engine->view.log, engine->position))
        finish_all(engine, status, text);
    return false;
}

bool rg_engine_drive(struct rg_engine *engine)
{
    bool moved = false;

    if (engine->view.nnodes > 1 && !engine->exec_dead)
        moved |= rg_multi_drive(engine);
    if (!engine->exec_dead)
        moved |= carry_out(engine);
    if (atomic_load_explicit(&engine->nchores, memory_order_relaxed))
        moved |= chores(engine);
    if (atomic_load_explicit(&engine->joining, memory_order_relaxed))
        moved |= rg_join_drive(engine);
    if (atomic_load_explicit(&engine->view.shared->attention, memory_order_acquire) ||
        atomic_load_explicit(&engine->abandoned, memory_order_relaxed))
        look_closer(engine);
    if (moved && atomic_load(&engine->nsleepers))
        rg_engine_wake_sleepers(engine);
    return moved;
}

bool rg_engine_has_work(struct rg_engine *engine)
{
    struct rg_run_item item;

    if (engine->exec_dead)
        return atomic_load(&engine->nchores) > 0;
    return engine->run.nitems > 0 || atomic_load(&engine->nchores) > 0 ||
           atomic_load(&engine->joining) ||
           rg_runlog_read(&engine->view.log, engine->position, &item) ||
           (engine->order && rg_runlog_read(&engine->view.ready, engine->ready_position, &item));
}
