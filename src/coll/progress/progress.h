/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress engine: carries operations from their submission to their end (ops/op.h has the
 * states). One per process and process set (tests make several, one per thread). This header is for
 * the API and the observers; it brings what they may call of the engine's other parts.
 *
 * Inline operations need no thread: whoever waits or polls sees that all slots are filled and
 * reduces. Stream operations are carried out by the *driver*, the thread that holds `drive`: a
 * waiting user thread where there is one, else the communication thread. Threads that wait but do
 * not drive sleep on `events` until their operation is done or the drive lock is free. Operations
 * that nobody looks at, or that somebody looks at who does not drive, are *polled*: the driver
 * looks at them. life/state.h has the order of the locks. What a thread does to one operation, from
 * its name to its end, is in life/; what drivers and waiters do is here.
 *
 * A process set has a progress engine of its own over a team of its own, made by the same code;
 * see sets.h for its life. It does not watch for deaths: it follows the progress engine of all
 * ranks (`world`), and what ends it ends that too.
 */
#ifndef RG_COLL_PROGRESS_PROGRESS_H
#define RG_COLL_PROGRESS_PROGRESS_H

#include "coll/ops/handle.h"
#include "coll/progress/life/finish.h"
#include "coll/progress/life/inline.h"
#include "coll/progress/life/join.h"
#include "coll/progress/multi.h"
#include "coll/progress/numbers.h"
#include "coll/progress/life/state.h"
#include "coll/progress/life/submit.h"
#include "coll/progress/wait.h"
#include "coll/progress/waits.h"

#define RG_LEAVE_MIN_MS 5000 /* who leaves waits at least so long for others that stand still */

struct rg_progress_options {
    struct rg_team *team;            /* borrowed */
    const struct rg_config *config;  /* borrowed */
    const struct rg_plane_choice *planes; /* its table is borrowed */
    struct rg_boot *boot;            /* borrowed; NULL in tests: no notes, no deaths told */
    int process_set;                 /* its number, else 0 */
    struct rg_progress *world;       /* of a process set: that of all ranks, which watches */
    struct rg_handles *handles;      /* of the process, borrowed; NULL in tests: no handles */
    uint64_t deadline_ns;            /* for connecting the leaders */
    rg_observe_fn *observe;          /* NULL: nobody looks on */
};

/* Segment bytes that the progress engine and the planes want; arg: a struct rg_plane_choice. */
size_t rg_progress_nbytes(const void *arg, int node_size);
/* rg_team_create for a progress engine with these planes: what they offer is exchanged. */
int rg_progress_team(struct rg_boot *boot, const struct rg_config *config,
                     const struct rg_plane_choice *planes, uint64_t deadline_ns,
                     struct rg_team **ret_team, struct rg_error *err);

/* Over a team whose segment is at least rg_progress_nbytes long; starts the communication thread.
 * Collective in that every rank must do so. 0 or -errno. */
int rg_progress_create(const struct rg_progress_options *options, struct rg_progress **ret_progress,
                     struct rg_error *err);
/* Announce that this rank leaves: what is not in the log ends with -ECANCELED, on all ranks. Does
 * not block; threads that wait in the progress engine drive what is to be carried out, and
 * return. */
void rg_progress_leave(struct rg_progress *progress);
/* Have the threads that wait in the progress engine look whether they may return. late: they
 * may, whether or not the other ranks come. Any thread. */
void rg_progress_hurry(struct rg_progress *progress, bool late);
/* When whoever leaves now may be late at the earliest: after config's silence, and at least
 * RG_LEAVE_MIN_MS. Who is only slow, stopped or starved needs this rank for what is in the log; who
 * dies is heard of otherwise. */
uint64_t rg_progress_leave_until(const struct rg_config *config);
/* Whoever leaves need not wait for the others any more: until_ns is over, and no log that is being
 * left, of all ranks or of a process set, has gone on for as long as rg_progress_leave_until says.
 * A pause between two calls counts for nothing: it was this process that stood still, so call it
 * several times a second. Any thread. */
bool rg_progress_is_late(struct rg_progress *progress, uint64_t until_ns);
/* Leave, carry out what is in the log until that is late (until_ns 0: as if left now), cancel the
 * rest, stop the thread. Nobody may be inside but those whom *users counts (NULL: nobody), who are
 * waited for. Blocks, also until the functions of reigen_on_done that run have returned. NULL is
 * fine. */
void rg_progress_destroy(struct rg_progress *progress, uint64_t until_ns,
                         const _Atomic int *users);
/* Its counters, on top of these. */
void rg_progress_add_stats(const struct rg_progress *progress, struct reigen_stats *stats);
void rg_progress_after_fork(struct rg_progress *progress);

#endif
