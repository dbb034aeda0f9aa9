/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the progress engine share, those of progress/ above included. What only one of
 * them uses is its own: the structs that are named here and defined elsewhere.
 *
 * Locks, in this order: drive, lock, the segment's mutex. `lock` protects the records, the polled
 * and the watchers; it is never held while blocking; the handles have a lock of their own, which is
 * taken last. An operation is finished by whoever moves it from POSTED to CLAIMED.
 */
#ifndef RG_COLL_PROGRESS_LIFE_STATE_H
#define RG_COLL_PROGRESS_LIFE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/time.h"
#include "coll/node/table.h"
#include "coll/ops/notify.h"
#include "coll/ops/observer.h"
#include "coll/ops/op.h"
#include "coll/ops/polled.h"
#include "coll/ops/wake.h"

#define RG_CLOSE_MS 1000 /* for connections to end */

struct rg_boot;
struct rg_config;
struct rg_exec;
struct rg_handles;
struct rg_team;
struct rg_multi;   /* progress/multi.c */
struct rg_run;     /* progress/run.h */
struct rg_waiting; /* progress/wait.c */
struct rg_waits;   /* progress/waits.c */

/* What of the counters the row of numbers has already (progress/numbers.h). Communication thread's
 * alone. */
struct rg_published {
    uint64_t noperations, nbytes, wait_ns;
    uint64_t nsteps, stepped_ns; /* and when that number was first seen */
};

/* What has been done, by whom, and how long it took; any thread. */
struct rg_counters {
    _Atomic uint64_t noperations, nbytes, wait_ns, busy_ns, cache_hits, nfused;
    _Atomic int waiter; /* the thread that has waited since the last look; 0: none, -1: several */
    _Atomic uint64_t moved_ns; /* of all ranks: when a log that is being left last went on ... */
    _Atomic uint64_t asked_ns; /* ... and when it was last asked whether that is too long ago */
    _Atomic pthread_t submitter; /* the thread that has called something last; 0: none */
    struct rg_published published;
};

static inline void rg_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* In the progress engine of all ranks: what the launcher has been told of failures, and whether it
 * says anything itself. */
struct rg_told {
    _Atomic int cut_by; /* 1 + the rank by whose end operations failed here */
    _Atomic bool stall; /* a stall ends it */
    bool lost;          /* nothing is heard of it any more; communication thread */
};

/* Operations that wait for a name, in the order of their submission; under the lock. */
struct rg_line {
    struct rg_op *first;
    uint64_t looks;       /* at the line, of the driver's */
    _Atomic bool stirred; /* a name may have come free since the last one */
    _Atomic int n;        /* that have not been announced */
};

/* A join (join.h). */
struct rg_join {
    _Atomic bool begun;  /* until it has ended, nothing can be submitted */
    struct rg_op *op;  /* in flight */
    uint64_t round;    /* that it waits to see complete; both under the lock */
    _Atomic bool unsaid; /* the others are told when nothing stands in line here any more */
    bool consumed;     /* all have joined; my operations may not have ended yet */
};

struct rg_progress {
    struct rg_team *team;           /* borrowed, as the next two */
    const struct rg_config *config;
    struct rg_boot *boot;           /* NULL in tests: no notes, no deaths told */
    int process_set;                /* 0, with the next one NULL: all ranks */
    struct rg_progress *world;
    struct rg_handles *handles;     /* of the process, borrowed; NULL in tests */

    _Atomic bool leaving;           /* what goes wrong now is this set's alone */
    _Atomic bool removed;           /* reigen_process_set_remove */
    _Atomic bool abandoned;         /* what is in flight ends here, whatever the others do */
    _Atomic bool stopping;
    struct rg_told told;

    struct rg_view view;
    struct rg_table table;
    pthread_mutex_t lock;
    struct rg_polled polled;
    struct rg_notify notify;
    struct rg_line line;
    struct rg_wake wake;
    _Atomic(struct rg_op *) *by_entry; /* stream operations posted, by entry */

    pthread_mutex_t drive;
    uint64_t position;              /* in the log */
    struct rg_exec *exec;
    bool exec_dead;
    struct rg_run *run;
    struct rg_join join;
    struct rg_multi *multi;         /* leaders of jobs with several nodes; else NULL */
    struct rg_waits *waits;
    struct rg_waiting *waiting;
    struct rg_observer *observer;   /* NULL: nobody looks on */
    struct rg_counters counters;
};

/* The log has gone on: a rank that leaves waits as long as it does. */
static inline void rg_progress_went_on(struct rg_progress *progress)
{
    struct rg_progress *world = progress->world ? progress->world : progress;

    if (atomic_load_explicit(&progress->view.rows[progress->view.me].left, memory_order_relaxed))
        atomic_store(&world->counters.moved_ns, rg_now_ns());
}

/* Who is told of the timeline's events; NULL, mostly: nobody on this node writes one. */
static inline struct rg_observer *rg_progress_timed(const struct rg_progress *progress)
{
    if (__builtin_expect(
            atomic_load_explicit(&progress->view.shared->timed, memory_order_relaxed) == 0, 1))
        return NULL;
    return progress->observer;
}

#endif
