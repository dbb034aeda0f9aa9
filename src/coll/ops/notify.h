/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling of the ends of operations: who asked by reigen_on_done is called once, by whichever
 * thread comes by first after the end: one that waits or polls, else the communication thread.
 *
 * An operation ends under `drive` or in the midst of a submission, where nothing foreign may be
 * called. So its watchers are put into a list of those to be told, in the critical section in which
 * it becomes DONE, and are called later, by rg_notify_flush, when the thread holds nothing. A
 * watcher may submit and look at operations itself: then it comes here again, and the outer call
 * goes on with what has ended meanwhile.
 *
 * Thread rule: any thread. rg_notify_ended with the lock held; rg_notify_flush without any, as it
 * calls the users' functions, which may take their time.
 */
#ifndef RG_COLL_OPS_NOTIFY_H
#define RG_COLL_OPS_NOTIFY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "reigen/reigen.h"

struct rg_op;
struct rg_polled;

/* Who wants to be told of an operation's end. */
struct rg_watcher {
    void (*fn)(void *arg, reigen_handle handle, int status);
    void *arg;
    reigen_handle handle;
    int status;
    struct rg_op *op;     /* referenced */
    struct rg_watcher *prev, *next;
};

struct rg_notify {
    pthread_mutex_t *lock;     /* the progress engine's, borrowed */
    struct rg_watcher *untold; /* under the lock */
    _Atomic int n;
};

/* Tell *watcher, which is copied, of the operation's end; polled: where it is looked at until then.
 * 0: it will be; 1: it has ended already, and nothing is told; -ENOMEM. */
int rg_notify_add(struct rg_notify *notify, struct rg_polled *polled, struct rg_op *op,
                  const struct rg_watcher *watcher);
/* With the lock held, when an operation becomes DONE: its watchers are to be told. */
void rg_notify_ended(struct rg_notify *notify, struct rg_op *op);
/* There is somebody to be told, and this thread is not at it already. */
bool rg_notify_wanted(const struct rg_notify *notify);
/* Tell all of them. The caller holds no lock. */
void rg_notify_tell(struct rg_notify *notify);
/* Tell one, of an operation that has ended already. */
void rg_notify_call(const struct rg_watcher *watcher);
/* This thread is in a function that is being told. */
bool rg_notify_calls(void);

/* rg_notify_tell, where there is somebody. */
static inline void rg_notify_flush(struct rg_notify *notify)
{
    if (__builtin_expect(atomic_load_explicit(&notify->n, memory_order_relaxed) != 0, 0))
        rg_notify_tell(notify);
}

#endif
