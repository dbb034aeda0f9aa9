/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds: runs begin, go on and end; what is polled is looked at. */
#include "coll/progress/run.h"

#include <errno.h>
#include <stdio.h>

#include "base/time.h"
#include "coll/progress/life/finish.h"
#include "coll/progress/life/inline.h"
#include "coll/progress/life/join.h"
#include "coll/progress/multi.h"
#include "coll/progress/life/submit.h"
#include "coll/progress/life/watch.h"

#define CAUSE_WAIT_MS 300
#define DEATH_WAIT_MS 1500 /* for this node to see it, and for the launcher's word */
#define ROUNDS_MAX 64 /* items carried out in one call, so that a waiter sees its own operation */

/* ---- those that nobody else looks at */

static bool polled(struct rg_progress *progress)
{
    struct rg_op *op = NULL;
    bool moved = false;

    while ((op = rg_polled_next(&progress->polled, op, &moved)) != NULL) {
        rg_op_retry(progress, op);
        rg_op_try(progress, op);
    }
    return moved;
}

/* ---- the log */

static void finish_posted(struct rg_progress *progress, uint32_t id, int status, const char *text)
{
    struct rg_op *op = atomic_load(&progress->by_entry[id]);

    if (!op || !rg_op_claim(op))
        return;
    atomic_store(&progress->by_entry[id], NULL);
    rg_op_finish(progress, op, status, text);
}

static void finish_all(struct rg_progress *progress, int status, const char *text)
{
    for (uint32_t id = 0; id < RG_ENTRIES_MAX; id++) {
        if (atomic_load_explicit(&progress->by_entry[id], memory_order_relaxed))
            finish_posted(progress, id, status, text);
    }
    rg_join_end(progress, status, text);
}

/* Whoever gives up after a death closes its connections: its leader tells ours who has died. NCCL
 * hears of a death by its own, before anybody tells. */
static void hear_cause(struct rg_progress *progress, bool by_nccl)
{
    uint64_t wait_ms = by_nccl ? DEATH_WAIT_MS : CAUSE_WAIT_MS;
    uint64_t deadline_ns = rg_now_ns() + wait_ms * RG_NS_PER_MS;

    while (!atomic_load(&progress->view.shared->aborted) && rg_now_ns() < deadline_ns) {
        rg_multi_hurry(progress);
        if (by_nccl)
            rg_watch_glance(progress);
        if (progress->view.nnodes == 1 || !rg_multi_drive(progress))
            rg_sleep_ms(1);
    }
}

static void die(struct rg_progress *progress, int r, const char *what, const char *why)
{
    char text[RG_ERROR_TEXT_MAX + 64];

    if (r == -ECONNABORTED || (progress->view.nnodes > 1 && r == -ECONNRESET))
        hear_cause(progress, r == -ECONNABORTED);
    /* If nobody has died, it is this rank's own affair. */
    r = r == -ECONNABORTED ? -EIO : r;
    snprintf(text, sizeof(text), "%s%s%s", what, why[0] ? ": " : "", why);
    rg_progress_abort(progress, -r, text);
}

/* The operation of an item; NULL: this rank had joined. False: its submission is just under way. */
static bool find_op(struct rg_progress *progress, const struct rg_run_item *item,
                    struct rg_op **ret_op)
{
    struct rg_op *op = atomic_load(&progress->by_entry[item->id]);
    const struct rg_epochs *place = rg_view_place(&progress->view, progress->view.me, item->id);

    *ret_op = op && op->epoch == item->epoch ? op : NULL;
    return *ret_op || atomic_load(&place->posted) < item->epoch;
}

/* The next run of the log, whole, with its operations. */
static bool next_run(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;
    bool timed = false;
    int n = 0;

    do {
        if (n == RG_RUN_MAX ||
            !rg_runlog_read(&progress->view.log, progress->position + (uint64_t) n, &run->items[n]))
            return false;
        run->ops[n] = NULL;
        if (!(run->items[n].flags & RG_RUN_JOINED) &&
            !find_op(progress, &run->items[n], &run->ops[n]))
            return false;
        timed = timed || (run->ops[n] && run->ops[n]->timed_ns);
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
    run->cause.text[0] = '\0';
    run->timed = timed;
    run->activity = NULL;
    if (__builtin_expect(timed, 0))
        progress->observer->ops->run(progress, run->ops, n);
    return true;
}

static void end_run(struct rg_progress *progress, int status, const char *text)
{
    struct rg_run *run = progress->run;

    if (run->posted)
        rg_count(&progress->counters.busy_ns, rg_now_ns() - run->started_ns);
    if (run->nitems > 1)
        rg_count(&progress->counters.nfused, (uint64_t) run->nitems);
    for (int i = 0; i < run->nitems; i++) {
        if (run->ops[i])
            finish_posted(progress, run->items[i].id, status, text);
    }
    progress->position += (uint64_t) run->nitems;
    atomic_store(&progress->view.rows[progress->view.me].consumed, progress->position);
    run->nitems = 0;
    run->posted = false;
}

/* Begin what comes next, or go on with it: then exec is at work, or the run has ended. */
static void go_on(struct rg_progress *progress)
{
    struct rg_run *run = progress->run;
    const struct rg_run_item *item = &run->items[0];
    int r;

    if (item->flags & RG_RUN_JOINED) {
        rg_join_consumed(progress, (int) item->epoch - 1);
        end_run(progress, 0, NULL);
        return;
    }
    if (item->flags & RG_RUN_FAILED) {
        end_run(progress, -EINVAL, progress->view.errors[item->id][item->epoch & 1]);
        return;
    }
    if (item->flags & RG_RUN_DIRECT) {
        rg_run_activity(progress, "REIGEN_DIRECT_ALLREDUCE");
        rg_inline_take(progress, run->ops[0]);
        end_run(progress, 0, NULL);
        return;
    }
    r = rg_run_next(progress);
    if (r == 0)
        r = rg_run_mark(progress);
    if (r < 0) {
        die(progress, r, run->posted ? "an operation could not go on"
                                     : "an operation could not be started", run->cause.text);
    } else if (r == 0) {
        end_run(progress, run->lacks_memory ? -ENOMEM : 0,
                run->cause.text[0] ? run->cause.text : "out of memory for the result");
    } else {
        if (!run->posted)
            run->started_ns = rg_now_ns();
        run->posted = true;
        rg_run_activity(progress, rg_exec_activity(progress->exec));
    }
}

/* What is done on a device's stream may still fail. */
static void watch(struct rg_progress *progress)
{
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_exec_watch(progress->exec, &err);

    if (r < 0)
        die(progress, r, "an operation failed", err.text);
}

/* True when something moved. */
static bool progress_run(struct rg_progress *progress)
{
    struct rg_error err = RG_ERROR_INIT;
    bool moved = false;
    int r = 0;

    if (rg_staged_waits(progress->run->staged))
        return false;
    r = rg_exec_progress(progress->exec, &moved, &err);
    if (r < 0) {
        die(progress, r, "an operation failed", err.text);
        return true;
    }
    if (r == 0) {
        rg_run_activity(progress, rg_exec_activity(progress->exec));
        return moved;
    }
    go_on(progress);
    return true;
}

static bool carry_out(struct rg_progress *progress)
{
    const struct rg_run *run = progress->run;
    bool moved = false;

    for (int i = 0; i < ROUNDS_MAX; i++) {
        if (run->nitems == 0 && !next_run(progress)) {
            watch(progress);
            return moved;
        }
        if (!run->posted)
            go_on(progress);
        else if (!progress_run(progress))
            return moved;
        moved = true;
        if (atomic_load_explicit(&progress->view.shared->aborted, memory_order_relaxed))
            return moved;
    }
    return moved;
}

/* After a death: nothing can be carried out any more. */
static void give_up(struct rg_progress *progress, int status, const char *text)
{
    if (!progress->exec_dead) {
        rg_multi_hurry(progress);
        rg_multi_drive(progress); /* the other leaders are to hear of it first, and once */
        rg_multi_stop(progress, false);
        rg_exec_abort(progress->exec);
    }
    progress->exec_dead = true;
    progress->run->nitems = 0;
    progress->run->posted = false;
    finish_all(progress, status, text);
}

static bool look_closer(struct rg_progress *progress)
{
    const char *text = NULL;
    int status = rg_progress_abort_cause(progress, &text);

    if (status == 0)
        return false;
    rg_line_end(progress, status, text);
    if (atomic_load(&progress->view.shared->aborted) || atomic_load(&progress->abandoned)) {
        give_up(progress, status, text);
        return true;
    }
    /* Closed: what is in the log is still carried out, by all ranks. */
    if (progress->run->nitems == 0 && rg_runlog_ended(&progress->view.log, progress->position))
        finish_all(progress, status, text);
    return false;
}

/* Of several nodes. */
static bool drive_multi(struct rg_progress *progress)
{
    struct rg_error err = RG_ERROR_INIT;
    bool moved = rg_multi_drive(progress);
    int r = rg_multi_failure(progress, &err);

    if (r < 0)
        die(progress, r, "an operation failed", err.text);
    return moved;
}

bool rg_progress_drive(struct rg_progress *progress)
{
    bool moved = false;

    if (progress->view.nnodes > 1 && !progress->exec_dead)
        moved |= drive_multi(progress);
    if (!progress->exec_dead && carry_out(progress)) {
        rg_progress_went_on(progress);
        moved = true;
    }
    rg_run_look(progress);
    if (atomic_load_explicit(&progress->polled.n, memory_order_relaxed))
        moved |= polled(progress);
    if (atomic_load_explicit(&progress->line.stirred, memory_order_acquire))
        moved |= rg_line_drive(progress);
    if (atomic_load_explicit(&progress->join.begun, memory_order_relaxed))
        moved |= rg_join_drive(progress);
    if (atomic_load_explicit(&progress->view.shared->attention, memory_order_acquire) ||
        atomic_load_explicit(&progress->abandoned, memory_order_relaxed))
        look_closer(progress);
    if (moved && atomic_load(&progress->wake.nsleepers))
        rg_wake_sleepers(&progress->wake);
    return moved;
}

bool rg_progress_has_work(struct rg_progress *progress)
{
    struct rg_run_item item;

    if (progress->exec_dead)
        return atomic_load(&progress->polled.n) > 0;
    return progress->run->nitems > 0 || atomic_load(&progress->polled.n) > 0 ||
           atomic_load(&progress->line.stirred) || atomic_load(&progress->join.begun) ||
           rg_runlog_read(&progress->view.log, progress->position, &item) ||
           rg_multi_has_work(progress);
}
