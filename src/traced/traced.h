/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timeline, read: the operations that the runtime has written down (coll/observe/timeline_json.h
 * has the format), each with when every rank came, when all were there, and when it was over.
 *
 *     first of all comes    all are here      the result is there
 *            |---- NEGOTIATE ----|---- ALLREDUCE ----|
 *            0      2     1 (ranks)
 *
 * The text may be any part of a file: what is cut off at either end is passed over. It may come
 * from another computer: each value is looked at before it is used, and sizes are bounded.
 *
 * Thread rule: functions of their arguments alone; none blocks.
 */
#ifndef RG_TRACED_TRACED_H
#define RG_TRACED_TRACED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_TRACED_WORD 24
#define RG_TRACED_OPS_MAX 1000000
#define RG_TRACED_ARRIVALS_MAX 8000000
#define RG_TRACED_LANES_MAX 65536 /* as RG_TIMELINE_LANES */

/* Times are seconds since the timeline began. */
struct rg_traced_arrival {
    int rank;
    double at_s;
};

struct rg_traced_op {
    uint32_t lane;              /* index into names */
    char kind[RG_TRACED_WORD];  /* "ALLREDUCE" */
    char type[RG_TRACED_WORD];  /* "float32" */
    uint64_t nbytes;
    int ntensors;
    double all_s, end_s;        /* when all were here, and when it was over */
    bool failed;
    size_t first, narrivals;    /* those of its ranks, in arrivals */
};

struct rg_traced {
    double began_s;             /* since 1970; 0: the text lacks its head */
    struct rg_traced_op *ops;   /* owned, in the order of their ends */
    size_t nops, ops_room;
    struct rg_traced_arrival *arrivals; /* owned */
    size_t narrivals, arrivals_room;
    double *waits;              /* owned; when this rank's program began to wait, in order */
    size_t nwaits, waits_room;
    char **names;               /* owned; by lane, NULL where the text lacks it */
    size_t nnames, names_room;
    double first_s, last_s;     /* of the earliest and the latest event */
};

/* 0 or -ENOMEM. */
int rg_traced_parse(const char *text, size_t nbytes, struct rg_traced *ret_traced);
void rg_traced_fini(struct rg_traced *traced); /* of a zeroed one, too */
/* When that rank came to the operation; below 0: it is not known. */
double rg_traced_came(const struct rg_traced *traced, const struct rg_traced_op *op, int rank);
/* The time of the event in the line that begins at text; below 0: it has none, or is cut off. */
double rg_traced_time(const char *text, size_t nbytes);

#endif
