/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a record's samples amount to: how the job went over time, what each rank did in all of it,
 * and who was waited for. Rates are of what a rank's sums grew by between two samples of one life:
 * of the same start and epoch.
 *
 * Thread rule: pure functions on one thread's objects.
 */
#ifndef RG_CMD_REPORT_READ_FIGURES_H
#define RG_CMD_REPORT_READ_FIGURES_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/report/read/reader.h"

#define RG_FIGURES_POINTS 120 /* about so many; more samples are taken together */

/* Of several ranks: the mean, the least and the most. */
struct rg_figure {
    double mean, min, max;
};

struct rg_figures_point {
    double from_s, to_s;          /* since the record began */
    bool begins;                  /* another life: nothing joins it with the point before */
    size_t first, last;           /* the samples that it is of */
    struct rg_figure steps;       /* per second, of a rank */
    struct rg_figure communication; /* share of a rank's time, 0 to 1 */
    double nbytes_per_s;          /* of all ranks together */
    double cpu, resident;         /* likewise: processors, and bytes of memory */
};

/* All that a rank did; of an elastic job, who had this number. */
struct rg_figures_rank {
    int rank, host;               /* host: index into the record's; -1: not known */
    double steps, nbytes, operations;
    double resident;              /* the most */
    double seen_s;                /* the time that the rates below are of; 0: there are none */
    double steps_per_s, nbytes_per_s, communication, waiting, cpu;
    double causing;               /* seconds in a second for which others waited for it */
};

struct rg_figures {
    struct rg_figures_point *points;
    size_t npoints;
    struct rg_figures_rank *ranks; /* by number, those of which something was heard */
    size_t nranks;
    double start_s;                /* from the begin until all ranks were started; 0: never */
    double elapsed_s;
    double steps;                  /* the fewest that a rank took; the most in an elastic job */
    double steps_per_s, communication, nbytes_per_s, cpu, resident; /* as a point's, of all time */
    size_t nrated;                 /* ranks with rates */
    int late_rank, late_host;      /* who was waited for; -1, -1: nobody in particular; rank -1: all
                                    * ranks of this host alike */
    double late_causing;
};

/* 0 or -ENOMEM. */
int rg_figures_make(const struct rg_recorded *record, struct rg_figures *ret_figures);
void rg_figures_fini(struct rg_figures *figures); /* of a zeroed one, too */

/* Seconds in a second for which others waited for this rank between two samples; -1: not known. */
double rg_figures_causing(const struct rg_recorded_sample *a, const struct rg_recorded_sample *b,
                          int rank);

#endif
