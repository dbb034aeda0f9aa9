/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plots over time, as pieces of HTML: the curve is an SVG that is stretched to the page's width,
 * and its labels are text beside it, so that they can be read on a phone, too. Nothing in them is a
 * record's words.
 *
 * Thread rule: pure functions; the buffer has the error.
 */
#ifndef RG_CMD_REPORT_CHART_H
#define RG_CMD_REPORT_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "cmd/report/html.h"

struct rg_chart_point {
    double from_s, to_s;
    double y, low, high; /* low and high are of the band around it */
    bool begins;         /* no line comes from the point before */
};

struct rg_chart_line {
    const struct rg_chart_point *points;
    size_t npoints;
    const char *name; /* of several; NULL: it is the only one */
};

/* A moment at which something happened. */
struct rg_chart_mark {
    double at_s;
    bool bad;
};

typedef const char *rg_chart_text(double value, char buf[RG_HTML_WORD]);

struct rg_chart {
    const char *title, *unit; /* unit: behind each value that is pointed at; or "" */
    const struct rg_chart_line *lines; /* at most two */
    size_t nlines;
    const struct rg_chart_mark *marks;
    size_t nmarks;
    double until_s;           /* the end of the x axis */
    double top;               /* of the y axis; 0: as the lines need it */
    bool binary;              /* units of y are powers of 1024 */
    rg_chart_text *y_text;
};

/* Nothing where no line has a point. */
void rg_chart_put(struct rg_buf *page, const struct rg_chart *chart);
/* "0:00" and so on below a plot of that length. */
void rg_chart_put_times(struct rg_buf *page, double until_s);

#endif
