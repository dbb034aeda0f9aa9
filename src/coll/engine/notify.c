/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling of the ends of operations: who asked by reigen_on_done is called once, by whichever
 * thread comes by first after the end: one that waits or polls, else the communication thread.
 *
 * An operation ends under `drive` or in the midst of a submission, where nothing foreign may be
 * called. So its watchers are put into the engine's list of `ended` ones, in the critical section
 * in which it becomes DONE, and are called later, by rg_notify_flush, when the thread holds
 * nothing. A watcher may submit and look at operations itself: then it comes here again, and the
 * outer call goes on with what has ended meanwhile.
 */
#include <stdlib.h>

#include "coll/engine/engine.h"

static _Thread_local bool flushing;
static _Thread_local int calling; /* depth */

int rg_notify_add(struct rg_engine *engine, struct rg_op *op, const struct rg_watcher *watcher)
{
    struct rg_watcher *copy = malloc(sizeof(*copy));
    bool done;

    if (!copy)
        return -ENOMEM;
    *copy = *watcher;
    copy->op = op;
    pthread_mutex_lock(&engine->lock);
    done = rg_op_done(op);
    if (!done) {
        atomic_fetch_add(&op->refs, 1);
        copy->next = op->watchers;
        op->watchers = copy;
    }
    pthread_mutex_unlock(&engine->lock);
    if (done) {
        free(copy);
        return 1;
    }
    /* Nobody may be waiting for it: the driver looks. */
    rg_op_make_chore(engine, op);
    return 0;
}

void rg_notify_ended_locked(struct rg_engine *engine, struct rg_op *op)
{
    struct rg_watcher *next;

    for (struct rg_watcher *w = op->watchers; w; w = next) {
        next = w->next;
        w->status = op->status;
        w->next = NULL;
        if (engine->last_ended)
            engine->last_ended->next = w;
        else
            engine->ended = w;
        engine->last_ended = w;
        atomic_fetch_add(&engine->nended, 1);
    }
    op->watchers = NULL;
}

bool rg_notify_wanted(const struct rg_engine *engine)
{
    return atomic_load_explicit(&engine->nended, memory_order_relaxed) && !flushing;
}

static struct rg_watcher *take(struct rg_engine *engine)
{
    struct rg_watcher *w;

    pthread_mutex_lock(&engine->lock);
    w = engine->ended;
    if (w) {
        engine->ended = w->next;
        if (!w->next)
            engine->last_ended = NULL;
        atomic_fetch_sub(&engine->nended, 1);
    }
    pthread_mutex_unlock(&engine->lock);
    return w;
}

void rg_notify_call(const struct rg_watcher *watcher)
{
    calling++;
    watcher->fn(watcher->arg, watcher->handle, watcher->status);
    calling--;
}

bool rg_notify_calls(void)
{
    return calling > 0;
}

void rg_notify_flush(struct rg_engine *engine)
{
    struct rg_watcher *w;

    if (!rg_notify_wanted(engine))
        return;
    flushing = true;
    while ((w = take(engine)) != NULL) {
        rg_op_seen(w->op);
        rg_op_unref(w->op);
        rg_notify_call(w);
        free(w);
    }
    flushing = false;
}
