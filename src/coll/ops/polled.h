/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that nobody looks at, or that somebody looks at who does not drive: the driver looks
 * at them in its rounds.
 *
 * Thread rule: any thread; rg_polled_add with the lock held, the others take it for a moment.
 */
#ifndef RG_COLL_OPS_POLLED_H
#define RG_COLL_OPS_POLLED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct rg_op;
struct rg_wake;

struct rg_polled {
    pthread_mutex_t *lock;      /* the progress engine's, borrowed as the next */
    const struct rg_wake *wake;
    struct rg_op *first;        /* each with a reference; under the lock */
    _Atomic int n;
};

/* With the lock held; wakes nobody. An operation that is listed stays so. */
void rg_polled_add(struct rg_polled *polled, struct rg_op *op);
/* Put an operation under the driver's eyes; wakes whoever must look. Any lock but this one may be
 * held. */
void rg_polled_later(struct rg_polled *polled, struct rg_op *op);
/* Go through the list: the one after op, whose reference the caller gives back, or the first where
 * op is NULL, with a reference for the caller; NULL: none is left. An op that is done leaves the
 * list, and *moved is set. */
struct rg_op *rg_polled_next(struct rg_polled *polled, struct rg_op *op, bool *moved);
/* Let go of all of them; no other thread is there any more. */
void rg_polled_clear(struct rg_polled *polled);

#endif
