/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline: what happened to each operation, and when, in a file that a trace viewer shows
 * (timeline_json.h). One per process, over all its progress engines; by default rank 0's only.
 *
 *     submit      all ranks are here     carried out                         the result is there
 *        |--NEGOTIATE_ALLREDUCE--|------------------ ALLREDUCE ------------------|
 *           0    1    2 (ranks)  |--QUEUE--|--MEMCPY_IN..--|--REIGEN_SHM_..--|...
 *
 * Off, it costs a submission one look at `timed`, which lies beside what a submission reads anyway,
 * and an ending one look at the operation. On, events go to a ring without locks (the bounded queue
 * of D. Vyukov), and a thread of its own formats and writes them every RG_TIMELINE_MS. What finds
 * the ring full is counted, and the count is in the file and in the log. When the file cannot be
 * written any more there is one warning, and the job goes on.
 *
 * Ranks of the node that write no timeline leave the time of their submissions in shared memory
 * while anyone does (rg_shared.timed), which is how the writer knows when each came.
 *
 * Thread rule: hooks from any thread, they take no lock but to name a new lane; start and stop from
 * any thread, while operations run: they block for a write.
 */
#ifndef RG_COLL_OBSERVE_TIMELINE_H
#define RG_COLL_OBSERVE_TIMELINE_H

#include "coll/progress/progress.h"

#define RG_TIMELINE_MS 20         /* how often events are written */
#define RG_TIMELINE_RING 65536    /* events; a power of two */
#define RG_TIMELINE_LANES 65536   /* names; what comes after shares one lane */

/* Start writing to path, in place of a timeline that runs. mark_cycles: a mark for each run that
 * is carried out. "{rank}" and "%r" in path stand for the rank; without them only rank 0 writes,
 * unless all_ranks, and then ".N" is appended for rank N > 0. Does nothing where this rank does
 * not write. 0; -errno with the path and the cause, and no timeline runs. */
int rg_timeline_start(const char *path, int rank, bool mark_cycles, bool all_ranks,
                      struct rg_error *err);
/* Write what is left, and close. Does nothing when none runs. */
void rg_timeline_stop(void);
/* A new progress engine, and before it is freed. */
void rg_timeline_attach(struct rg_progress *progress);
void rg_timeline_detach(struct rg_progress *progress);
/* In a forked child: there is no timeline. */
void rg_timeline_after_fork(void);

/* ---- hooks; called only while rg_timeline_is_on, or for what was begun then */
static inline bool rg_timeline_is_on(const struct rg_progress *progress)
{
    return __builtin_expect(
        atomic_load_explicit(&progress->view.shared->timed, memory_order_relaxed) != 0, 0);
}

/* Announced, but nobody knows yet; sets op->timed. */
void rg_timeline_submitted(struct rg_progress *progress, struct rg_op *op);
/* It could not be announced: another rank still reads what was there before. */
void rg_timeline_waits(struct rg_progress *progress, struct rg_op *op);
/* Inline: all ranks are here. */
void rg_timeline_arrived(struct rg_progress *progress, struct rg_op *op);
/* Over; before it is DONE. Takes op->timed away. */
void rg_timeline_finished(struct rg_progress *progress, struct rg_op *op);
/* The driver begins the run. */
void rg_timeline_run(struct rg_progress *progress);
/* Coordinator: a node has offered an operation. */
void rg_timeline_offered(struct rg_progress *progress, int node, const char *name);

void rg_timeline_begin_activity(struct rg_progress *progress, const char *name);
/* The run's operations now do this; a static name. */
static inline void rg_timeline_activity(struct rg_progress *progress, const char *name)
{
    if (__builtin_expect(progress->run.timed, 0))
        rg_timeline_begin_activity(progress, name);
}

/* ---- for timeline_hooks.c */
struct rg_trace_event;

/* The number of the running timeline, 0: this process writes none. */
uint32_t rg_timeline_generation(void);
bool rg_timeline_marks_cycles(void);
/* The lane of a name, of this generation; 0: there is no such timeline any more. */
uint32_t rg_timeline_lane(uint32_t generation, const char *name);
void rg_timeline_push(const struct rg_trace_event *event);

#endif
