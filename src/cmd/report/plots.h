/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections of how a job went over time, and of who was waited for; and the curves of the first,
 * for who lays two of them over each other.
 *
 * Thread rule: pure functions; the buffer has the error.
 */
#ifndef RG_CMD_REPORT_PLOTS_H
#define RG_CMD_REPORT_PLOTS_H

#include "cmd/report/chart.h"
#include "cmd/report/parts.h"

#define RG_PLOTS_MARKS_MAX 200

void rg_report_plots(struct rg_buf *page, const struct rg_report_run *run);
void rg_report_stragglers(struct rg_buf *page, const struct rg_report_run *run);

enum rg_plots_what {
    RG_PLOTS_STEPS, RG_PLOTS_COMMUNICATION, RG_PLOTS_BYTES, RG_PLOTS_CPU, RG_PLOTS
};

struct rg_plots_kind {
    const char *title, *unit;
    double top; /* as of struct rg_chart */
    rg_chart_text *text;
    bool binary;
};

extern const struct rg_plots_kind rg_plots_kinds[RG_PLOTS];

/* The figures' points of that curve, for the caller to free; NULL: out of memory. */
struct rg_chart_point *rg_plots_points(const struct rg_figures *figures, enum rg_plots_what what);

#endif
