/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and times span six powers of ten, so both axes are logarithmic, always. */
#include "cmd/bench/report/plot.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define WIDTH 560.0
#define HEIGHT 340.0
#define LEFT 66.0
#define RIGHT 14.0
#define TOP 30.0
#define BOTTOM 34.0
#define LABEL_WIDTH 62.0 /* of a label of the x axis */

struct scale {
    double low, high;  /* values at the ends */
    double start, end; /* where these are */
};

static double place(const struct scale *scale, double value)
{
    double span = log(scale->high) - log(scale->low);

    return scale->start + (log(value) - log(scale->low)) / span * (scale->end - scale->start);
}

void rg_plot_put_text(struct rg_buf *text, const char *words)
{
    for (; *words; words++) {
        switch (*words) {
        case '&': rg_buf_printf(text, "&amp;"); break;
        case '<': rg_buf_printf(text, "&lt;"); break;
        case '>': rg_buf_printf(text, "&gt;"); break;
        case '"': rg_buf_printf(text, "&quot;"); break;
        default: rg_buf_put(text, words, 1);
        }
    }
}

/* In the largest of the units (NULL ends them) of which it is at least one; each is so many of the
 * one before. What is one but for its rounding is one. */
static const char *in_units(double value, double step, const char *const *units, int digits,
                            char *buf, size_t room)
{
    for (; value >= step * (1 - 1e-7) && units[1]; units++)
        value /= step;
    snprintf(buf, room, "%.*g %s", digits, value, *units);
    return buf;
}

const char *rg_plot_bytes(double value, char *buf, size_t room)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", NULL };

    return in_units(value, 1024, units, 4, buf, room);
}

const char *rg_plot_seconds(double value, char *buf, size_t room)
{
    static const char *const units[] = { "ns", "us", "ms", "s", NULL };

    return in_units(value * 1e9, 1000, units, 3, buf, room);
}

const char *rg_plot_gbps(double value, char *buf, size_t room)
{
    static const char *const units[] = { "B/s", "kB/s", "MB/s", "GB/s", "TB/s", NULL };

    return in_units(value * 1e9, 1000, units, 3, buf, room);
}

static void label(struct rg_buf *text, double x, double y, const char *anchor, const char *words)
{
    rg_buf_printf(text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    rg_plot_put_text(text, words);
    rg_buf_printf(text, "</text>\n");
}

/* Lines at powers of ten; between them, where there are few, at 2 and 5 times these. */
static void put_grid(struct rg_buf *text, const struct rg_plot *plot, const struct scale *y)
{
    bool few = y->high / y->low < 150;

    for (double power = pow(10, floor(log10(y->low))); power <= y->high * 1.001; power *= 10) {
        const double steps[] = { 1, 2, 5 };
        for (size_t i = 0; i < (few ? 3 : 1); i++) {
            char words[32];
            double value = power * steps[i];
            if (value < y->low * 0.999 || value > y->high * 1.001)
                continue;
            rg_buf_printf(text, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
                                "y2=\"%.1f\"/>\n",
                          LEFT, WIDTH - RIGHT, place(y, value), place(y, value));
            label(text, LEFT - 8, place(y, value) + 4, "end",
                  plot->y_text(value, words, sizeof(words)));
        }
    }
}

/* Labels below the sizes that were measured, as many as there is room for. */
static void put_sizes(struct rg_buf *text, const struct rg_plot *plot, const struct scale *x)
{
    const struct rg_plot_curve *longest = &plot->curves[0];
    double free_from = 0;

    for (size_t i = 1; i < plot->ncurves; i++) {
        if (plot->curves[i].npoints > longest->npoints)
            longest = &plot->curves[i];
    }
    for (size_t i = 0; i < longest->npoints; i++) {
        double at = place(x, longest->points[i].x);
        char words[32];
        rg_buf_printf(text, "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
                            "y2=\"%.1f\"/>\n",
                      at, at, HEIGHT - BOTTOM, HEIGHT - BOTTOM + 4);
        if (at - LABEL_WIDTH / 2 < free_from || at + LABEL_WIDTH / 2 > WIDTH + 12)
            continue;
        label(text, at, HEIGHT - BOTTOM + 19, "middle",
              plot->x_text(longest->points[i].x, words, sizeof(words)));
        free_from = at + LABEL_WIDTH / 2;
    }
}

static void put_curve(struct rg_buf *text, const struct rg_plot *plot, size_t number,
                      const struct scale *x, const struct scale *y)
{
    const struct rg_plot_curve *curve = &plot->curves[number];
    size_t colour = number % RG_PLOT_COLOURS;

    if (curve->npoints == 0)
        return;
    rg_buf_printf(text, "<polyline class=\"curve c%zu%s\" points=\"", colour,
                  number >= RG_PLOT_COLOURS ? " again" : "");
    for (size_t i = 0; i < curve->npoints; i++)
        rg_buf_printf(text, "%s%.1f,%.1f", i ? " " : "", place(x, curve->points[i].x),
                      place(y, curve->points[i].y));
    rg_buf_printf(text, "\"/>\n");
    for (size_t i = 0; i < curve->npoints; i++) {
        char size[32], value[32];
        rg_buf_printf(text, "<circle class=\"f%zu\" r=\"3\" cx=\"%.1f\" cy=\"%.1f\"><title>",
                      colour, place(x, curve->points[i].x), place(y, curve->points[i].y));
        rg_plot_put_text(text, curve->name);
        rg_buf_printf(text, ": %s, %s</title></circle>\n",
                      plot->x_text(curve->points[i].x, size, sizeof(size)),
                      plot->y_text(curve->points[i].y, value, sizeof(value)));
    }
}

static void widen(const struct rg_plot_curve *curve, struct scale *x, struct scale *y)
{
    for (size_t i = 0; i < curve->npoints; i++) {
        const struct rg_plot_point *p = &curve->points[i];
        x->low = p->x < x->low ? p->x : x->low;
        x->high = p->x > x->high ? p->x : x->high;
        y->low = p->y < y->low ? p->y : y->low;
        y->high = p->y > y->high ? p->y : y->high;
    }
}

void rg_plot_put(struct rg_buf *text, const struct rg_plot *plot)
{
    struct scale x = { DBL_MAX, 0, LEFT + 12, WIDTH - RIGHT - 18 };
    struct scale y = { DBL_MAX, 0, HEIGHT - BOTTOM - 6, TOP + 6 };

    for (size_t i = 0; i < plot->ncurves; i++)
        widen(&plot->curves[i], &x, &y);
    if (x.high == 0)
        return;
    if (x.high < x.low * 2) { /* one size alone stands in the middle */
        x.low /= 2;
        x.high *= 2;
    }
    if (y.high < y.low * 4) { /* small differences are to look small */
        y.low /= 2;
        y.high *= 2;
    }
    rg_buf_printf(text, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    rg_plot_put_text(text, plot->description);
    rg_buf_printf(text, "\">\n<g class=\"heading\">");
    label(text, LEFT, 18, "start", plot->title);
    rg_buf_printf(text, "</g>\n");
    put_grid(text, plot, &y);
    rg_buf_printf(text, "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
                  LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM, HEIGHT - BOTTOM);
    put_sizes(text, plot, &x);
    /* The first one, Reigen's, is drawn last, so that it lies above the others. */
    for (size_t i = plot->ncurves; i-- > 0;)
        put_curve(text, plot, i, &x, &y);
    rg_buf_printf(text, "</svg>\n");
}
