/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `reigen bench` has measured, and how it is shown: as a table whose rows come while others
 * are still measured, as one JSON document, and as one page of HTML with plots, which needs
 * nothing from elsewhere and no script.
 *
 * Thread rule: main thread of rank 0. The functions append to text; out of memory shows in
 * rg_buf_status.
 */
#ifndef RG_CMD_BENCH_REPORT_REPORT_H
#define RG_CMD_BENCH_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "cmd/bench/measure/measure.h"
#include "simulate/fit.h"

/* Words and types are borrowed, the rows are owned. */
struct rg_report {
    const bool *types;      /* by enum reigen_dtype: those that were asked for */
    int rounds;
    const char *described;  /* the runtime's lines about itself: reigen_describe */
    const char *version;    /* of the runtime */
    int nranks, nhosts;
    int nmeasured;          /* Reigen and its peers */
    const char *names[RG_MEASURED_MAX];
    const struct rg_model *fitted; /* NULL: none was asked for */
    struct rg_measure_row *rows;
    size_t nrows, capacity;
};

/* 0 or -ENOMEM. */
int rg_report_add(struct rg_report *report, const struct rg_measure_row *row);
void rg_report_fini(struct rg_report *report);
/* "allreduce sum in place x4", where four tensors go together: into buf, which is returned. */
const char *rg_report_operation(const struct rg_bench_case *what, char *buf, size_t room);

/* The lines above the table, and one row of it. */
void rg_report_head(struct rg_buf *text, const struct rg_report *report, bool colour);
void rg_report_row(struct rg_buf *text, const struct rg_report *report,
                   const struct rg_measure_row *row, bool colour);
/* What the table has not said: who has left out what, and why. */
void rg_report_notes(struct rg_buf *text, const struct rg_report *report);

/* The samples of the cost model among the rows: operations that it knows, of four bytes an element,
 * one tensor at a time. Into room for all rows; returns how many there are. */
size_t rg_report_samples(const struct rg_report *report, struct rg_fit_sample *ret_samples);
/* How well a fitted model explains them. */
void rg_report_fit(struct rg_buf *text, const struct rg_report *report,
                   const struct rg_model *model);

void rg_report_json(struct rg_buf *text, const struct rg_report *report);
void rg_report_html(struct rg_buf *text, const struct rg_report *report);

#endif
