/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plot of curves over two logarithmic axes, as an SVG element within a page of HTML. Its colours
 * are classes (c0, c1, ... for lines, f0, f1, ... for fills, and grid, axis), so that the page says
 * what they are on light and on dark screens. A point shows its figures when it is pointed at.
 *
 * Thread rule: any thread; no state.
 */
#ifndef RG_CMD_BENCH_REPORT_PLOT_H
#define RG_CMD_BENCH_REPORT_PLOT_H

#include <stddef.h>

#include "base/buf.h"

#define RG_PLOT_COLOURS 6 /* further curves begin again, dashed */

struct rg_plot_point {
    double x, y; /* above 0 */
};

struct rg_plot_curve {
    const char *name;
    const struct rg_plot_point *points; /* borrowed, in the order of x */
    size_t npoints;
};

struct rg_plot {
    const char *title;
    const char *description; /* for those who do not see it */
    /* A value as text: "4 KiB", "10 us". Into buf, which is returned. */
    const char *(*x_text)(double value, char *buf, size_t room);
    const char *(*y_text)(double value, char *buf, size_t room);
    const struct rg_plot_curve *curves;
    size_t ncurves;
};

/* Append it; nothing where no curve has a point. */
void rg_plot_put(struct rg_buf *text, const struct rg_plot *plot);

/* Text as it stands in HTML. */
void rg_plot_put_text(struct rg_buf *text, const char *words);

/* x_text and y_text for bytes, seconds, and 10^9 bytes a second. */
const char *rg_plot_bytes(double value, char *buf, size_t room);
const char *rg_plot_seconds(double value, char *buf, size_t room);
const char *rg_plot_gbps(double value, char *buf, size_t room);

#endif
