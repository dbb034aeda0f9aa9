/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling of the ends of operations: who asked by reigen_on_done is called once, by whichever
 * thread comes by first after the end: one that waits or polls, else the communication thread.
 *
 * An operation ends under `drive` or in the midst of a submission, where nothing foreign may be
 * called. So its watchers are put into the progress engine's list of `ended` ones, in the critical
 * section in which it becomes DONE, and are called later, by rg_notify_flush, when the thread holds
 * nothing. A watcher may submit and look at operations itself: then it comes here again, and the
 * outer call goes on with what has ended meanwhile.
 */
#include <stdlib.h>

#include "coll/progress/progress.h"

static _Thread_local bool flushing;
static _Thread_local int calling; /* depth */

int rg_notify_add(struct rg_progress *progress, struct rg_op *op, const struct rg_watcher *watcher)
{
    struct rg_watcher *copy = malloc(sizeof(*copy));
    bool done;

    if (!copy)
        return -ENOMEM;
    *copy = *watcher;
    copy->op = op;
    pthread_mutex_lock(&progress->lock);
    done = rg_op_done(op);
    if (!done) {
        atomic_fetch_add(&op->refs, 1);
        copy->next = op->watchers;
        op->watchers = copy;
    }
    pthread_mutex_unlock(&progress->lock);
    if (done) {
        free(copy);
        return 1;
    }
    /* Nobody may be waiting for it: the driver looks. */
    rg_op_poll_later(progress, op);
    return 0;
}

void rg_notify_ended_locked(struct rg_progress *progress, struct rg_op *op)
{
    struct rg_watcher *next;

    for (struct rg_watcher *w = op->watchers; w; w = next) {
        next = w->next;
        w->status = op->status;
        w->next = NULL;
        if (progress->last_ended)
            progress->last_ended->next = w;
        else
            progress->ended = w;
        progress->last_ended = w;
        atomic_fetch_add(&progress->nended, 1);
    }
    op->watchers = NULL;
}

bool rg_notify_wanted(const struct rg_progress *progress)
{
    return atomic_load_explicit(&progress->nended, memory_order_relaxed) && !flushing;
}

static struct rg_watcher *take(struct rg_progress *progress)
{
    struct rg_watcher *w;

    pthread_mutex_lock(&progress->lock);
    w = progress->ended;
    if (w) {
        progress->ended = w->next;
        if (!w->next)
            progress->last_ended = NULL;
        atomic_fetch_sub(&progress->nended, 1);
    }
    pthread_mutex_unlock(&progress->lock);
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

void rg_notify_flush(struct rg_progress *progress)
{
    struct rg_watcher *w;

    if (!rg_notify_wanted(progress))
        return;
    flushing = true;
    while ((w = take(progress)) != NULL) {
        rg_op_seen(w->op);
        rg_op_unref(w->op);
        rg_notify_call(w);
        free(w);
    }
    flushing = false;
}
