/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is being carried out: one item of the log, or several together (a fused run of allreduces).
 * From its operations come steps for exec, one after the other.
 *
 * Thread rule: under `drive`. Nothing blocks.
 */
#ifndef RG_COLL_PROGRESS_RUN_H
#define RG_COLL_PROGRESS_RUN_H

#include "coll/exec/adasum.h"
#include "coll/exec/exec.h"
#include "coll/exec/staged.h"
#include "coll/progress/life/state.h"

/* Our stream on the GPU that this rank uses: operations on its memory are carried out there, after
 * what their submitters' streams had when they were submitted, and in the order of the log. */
struct rg_lane {
    int device;
    void *stream; /* NULL: there has been no such operation; owned */
    struct rg_gpu_spans *spans; /* NULL: nothing on it has been in a timeline; owned */
};

struct rg_run {
    int nitems;                   /* 0: nothing */
    struct rg_run_item items[RG_RUN_MAX];
    struct rg_op *ops[RG_RUN_MAX]; /* NULL: this rank has joined */
    int kind;                     /* enum reigen_kind of the first */
    bool posted;                  /* exec is at it */
    bool timed;                   /* some are in the timeline ... */
    const char *activity;         /* ... where they do this; static */
    struct rg_adasum *adasum;     /* made at its first use ... */
    bool by_adasum;               /* ... and at it, through exec */
    uint64_t started_ns;
    struct rg_coll *colls;        /* allreduces: all tensors of all items */
    int ncolls;
    int nposted;                  /* of them, done or at exec */
    size_t ncount;                /* elements of all */
    char *pack;                   /* all of them in one piece, or NULL */
    int tensor, step;             /* other kinds */
    bool lacks_memory;
    size_t *counts, *recv_counts; /* by rank; one piece of memory */
    /* by rank (allgather), by rank and rank (alltoall), then its own row */
    int64_t *rows;
    size_t nrows;
    struct rg_lane lane;
    struct rg_staged *staged;     /* made at its first use; with exec it does what is on a GPU */
    struct rg_error cause;        /* why the run cannot go on, "": nothing is known */
};

/* size: ranks of the team. 0 or -ENOMEM. */
int rg_run_create(int size, struct rg_run **ret_run);
void rg_run_destroy(struct rg_run *run); /* NULL is fine */

/* Begin the run, or go on with it when exec is done. 1: exec is at work, 0: there is nothing more
 * to do, -errno. */
int rg_run_next(struct rg_progress *progress);

/* Tell the timeline of what the GPU has done meanwhile. Nearly free where it has none of that. */
void rg_run_look(struct rg_progress *progress);
/* At the end: the same, and wait for a moment for what is not over. */
void rg_run_look_last(struct rg_progress *progress);
/* As a plane's poll_us: of exec, of copies that a run waits for, and of what rg_run_look does. */
unsigned rg_run_poll_us(struct rg_progress *progress);
/* The run is over: its operations on a GPU are done where our stream is now. 0, or -errno with
 * run->cause. */
int rg_run_mark(struct rg_progress *progress);

/* The run's operations now do this; a static name. */
static inline void rg_run_activity(struct rg_progress *progress, const char *name)
{
    struct rg_run *run = progress->run;

    if (__builtin_expect(!run->timed, 1) || name == run->activity)
        return;
    run->activity = name;
    progress->observer->ops->activity(progress, run->ops, run->nitems, name);
}

/* ---- rounds (drive.c)
 * What has been decided is carried out in the order of the log, queued and polled operations are
 * looked at, and after a failure everything ends: then, once, this may take 0.3 s. */

/* One round of everything: order, log, exec, polled. True when something moved. */
bool rg_progress_drive(struct rg_progress *progress);
/* Something is there that only a driver can bring on. */
bool rg_progress_has_work(struct rg_progress *progress);

#endif
