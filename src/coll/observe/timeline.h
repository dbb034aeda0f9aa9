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
 * Thread rule: start and stop from any thread, while operations run: they block for a write. The
 * rest from any thread; it takes no lock but to name a new lane.
 */
#ifndef RG_COLL_OBSERVE_TIMELINE_H
#define RG_COLL_OBSERVE_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct rg_trace_event;
struct rg_view;

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
/* The view of a new progress engine, and before it is freed. */
void rg_timeline_attach(struct rg_view *view);
void rg_timeline_detach(const struct rg_view *view);
/* In a forked child: there is no timeline. */
void rg_timeline_after_fork(void);

/* ---- for observe.c */
/* The number of the running timeline, 0: this process writes none. */
uint32_t rg_timeline_generation(void);
bool rg_timeline_marks_cycles(void);
/* The lane of a name, of this generation; 0: there is no such timeline any more. */
uint32_t rg_timeline_lane(uint32_t generation, const char *name);
void rg_timeline_push(const struct rg_trace_event *event);

#endif
