/* SPDX-License-Identifier: Apache-2.0 */
/* The list of those to be told, and the telling. */
#include "coll/ops/notify.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "coll/ground/rest.h"
#include "coll/ops/op.h"
#include "coll/ops/polled.h"

static _Thread_local bool flushing;
static _Thread_local int calling; /* depth */

int rg_notify_add(struct rg_notify *notify, struct rg_polled *polled, struct rg_op *op,
                  const struct rg_watcher *watcher)
{
    struct rg_watcher *copy = malloc(sizeof(*copy));
    bool done;

    if (!copy)
        return -ENOMEM;
    *copy = *watcher;
    copy->op = op;
    pthread_mutex_lock(notify->lock);
    done = rg_op_done(op);
    if (!done) {
        atomic_fetch_add(&op->refs, 1);
        DL_PREPEND(op->watchers, copy);
    }
    pthread_mutex_unlock(notify->lock);
    if (done) {
        free(copy);
        return 1;
    }
    /* Nobody may be waiting for it: the driver looks. */
    rg_polled_later(polled, op);
    return 0;
}

void rg_notify_ended(struct rg_notify *notify, struct rg_op *op)
{
    struct rg_watcher *w;

    DL_FOREACH(op->watchers, w)
    {
        w->status = op->status;
        atomic_fetch_add(&notify->n, 1);
    }
    DL_CONCAT(notify->untold, op->watchers);
    op->watchers = NULL;
}

bool rg_notify_wanted(const struct rg_notify *notify)
{
    return atomic_load_explicit(&notify->n, memory_order_relaxed) && !flushing;
}

static struct rg_watcher *take(struct rg_notify *notify)
{
    struct rg_watcher *w;

    pthread_mutex_lock(notify->lock);
    w = notify->untold;
    if (w) {
        DL_DELETE(notify->untold, w);
        atomic_fetch_sub(&notify->n, 1);
    }
    pthread_mutex_unlock(notify->lock);
    return w;
}

void rg_notify_call(const struct rg_watcher *watcher)
{
    calling++;
    rg_rest_call();
    watcher->fn(watcher->arg, watcher->handle, watcher->status);
    rg_rest_return();
    calling--;
}

bool rg_notify_calls(void)
{
    return calling > 0;
}

void rg_notify_tell(struct rg_notify *notify)
{
    struct rg_watcher *w;

    if (!rg_notify_wanted(notify))
        return;
    flushing = true;
    while ((w = take(notify)) != NULL) {
        rg_op_seen(w->op);
        rg_op_unref(w->op);
        rg_notify_call(w);
        free(w);
    }
    flushing = false;
}
