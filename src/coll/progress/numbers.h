/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each rank of a node has done, and who is waited for, on its way to the launcher. Operations
 * and bytes are counted anyway; once a second each rank puts its counts into its row of the node's
 * segment, and the lowest one that is not stopped tells the launcher of all rows.
 *
 * Waiting costs those who wait, and nobody else: a thread that idles looks now and then which rank
 * of the node has not announced its operation. The one that was missing last is blamed for all of
 * the time, since those that came before it would have had to wait as well. So a rank that comes
 * 50 ms late to an operation of four has caused 150 ms, and the others have waited for 50 ms each.
 *
 * Left out: waits that are shorter than RG_BLAME_MIN_NS; operations that no thread waits for, but
 * callbacks or the framework's own streams; and waits for other nodes, which are in wait_ns of
 * the counters like all others: a node whose ranks have less of it is who the others wait for.
 *
 * Thread rule: a struct rg_blame is one waiting thread's own; the rest as each says. Nothing
 * blocks.
 */
#ifndef RG_COLL_PROGRESS_NUMBERS_H
#define RG_COLL_PROGRESS_NUMBERS_H

#include "coll/progress/life/state.h"

struct rg_spent;

#define RG_BLAME_MIN_NS 20000 /* that a wait lasts before anybody looks whom it is for */

/* One wait for one operation. */
struct rg_blame {
    const struct rg_op *op; /* the waiter holds it */
    uint64_t since_ns;      /* not accounted for before */
    uint64_t until_ns;      /* all have been seen to be here; 0: not yet */
    uint64_t cpu_ns;        /* what the thread had used of processors at the first look; 0: none */
    int missing;            /* the node rank that was missing at the last look; -1: none was */
};

static inline struct rg_blame rg_blame_begin(const struct rg_op *op, uint64_t now_ns)
{
    return (struct rg_blame){ op, now_ns, 0, 0, -1 };
}

/* The waiter idles: look who is missing. */
void rg_blame_look(struct rg_progress *progress, struct rg_blame *blame, uint64_t now_ns);
/* The same when it is about to sleep, which takes long: however short the wait was until now. */
void rg_blame_before_sleep(struct rg_progress *progress, struct rg_blame *blame, uint64_t now_ns);
/* The wait is over; it has lasted for so long. */
void rg_blame_end(struct rg_progress *progress, struct rg_blame *blame, uint64_t now_ns,
                  uint64_t wait_ns);

/* This thread waits for operations, even if not for long: it makes the steps. */
void rg_numbers_waiter(struct rg_progress *progress);

/* The program says that a step has ended. Any thread. */
void rg_numbers_step(struct rg_progress *progress);
/* Once a second, by the communication thread: what the process has used of processors since this
 * progress began, the steps that names tell of, and whether this rank speaks for its node. All sums
 * begin at 0: in another epoch this process may have the number of one that had used more. spent:
 * this process's, which is brought up to date. */
void rg_numbers_tick(struct rg_progress *progress, struct rg_spent *spent, uint64_t now_ns,
                     uint64_t cpu_ns, uint64_t nsteps, bool reporter);

#endif
