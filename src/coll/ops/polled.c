/* SPDX-License-Identifier: Apache-2.0 */
/* The list of operations that the driver looks at. */
#include "coll/ops/polled.h"

#include <utlist.h>

#include "coll/ops/op.h"
#include "coll/ops/wake.h"

void rg_polled_add(struct rg_polled *polled, struct rg_op *op)
{
    if (atomic_load(&op->polled.listed))
        return;
    atomic_store(&op->polled.listed, true);
    atomic_fetch_add(&op->refs, 1);
    DL_APPEND2(polled->first, op, polled.prev, polled.next);
    atomic_fetch_add(&polled->n, 1);
}

void rg_polled_later(struct rg_polled *polled, struct rg_op *op)
{
    pthread_mutex_lock(polled->lock);
    rg_polled_add(polled, op);
    pthread_mutex_unlock(polled->lock);
    rg_wake_ring(polled->wake, polled->wake->thread_bells.me, true);
}

struct rg_op *rg_polled_next(struct rg_polled *polled, struct rg_op *op, bool *moved)
{
    struct rg_op *next;
    bool done;

    pthread_mutex_lock(polled->lock);
    next = op ? op->polled.next : polled->first;
    /* A persistent operation may have been started, and queued, again meanwhile. */
    done = op && rg_op_done(op) && atomic_load(&op->polled.listed);
    if (done) {
        DL_DELETE2(polled->first, op, polled.prev, polled.next);
        atomic_store(&op->polled.listed, false);
        atomic_fetch_sub(&polled->n, 1);
        *moved = true;
    }
    if (next)
        atomic_fetch_add(&next->refs, 1);
    pthread_mutex_unlock(polled->lock);
    if (done)
        rg_op_unref(op);
    if (op)
        rg_op_unref(op);
    return next;
}

void rg_polled_clear(struct rg_polled *polled)
{
    while (polled->first) {
        struct rg_op *op = polled->first;

        DL_DELETE2(polled->first, op, polled.prev, polled.next);
        rg_op_unref(op);
    }
}
