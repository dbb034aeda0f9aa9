/* SPDX-License-Identifier: Apache-2.0 */
/* Coordinates within the SVG are thousandths of its width and height. */
#include "cmd/report/chart.h"

#include <math.h>
#include <stdio.h>

#define SIDE 1000.0
#define TICKS 6
#define LEAST_TOP 1e-6 /* what is less is drawn as nothing */

static const double time_steps[] = { 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200,
                                     1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
                                     2592000 };

static double clamp(double v)
{
    return fmin(fmax(v, 0), SIDE);
}

static double x_of(const struct rg_chart *chart, double s)
{
    return clamp(s / chart->until_s * SIDE);
}

static double y_of(double top, double value)
{
    return clamp(SIDE - value / top * SIDE);
}

/* --- axes ------------------------------------------------------------------------------------- */

/* "0:05", "1:20:00"; with a fraction where the axis is that short. */
static const char *time_text(double s, double step, char buf[RG_HTML_WORD])
{
    long long whole = llround(s);

    if (step < 1)
        snprintf(buf, RG_HTML_WORD, "%.1f s", s);
    else if (whole < 3600)
        snprintf(buf, RG_HTML_WORD, "%lld:%02lld", whole / 60, whole % 60);
    else
        snprintf(buf, RG_HTML_WORD, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60,
                 whole % 60);
    return buf;
}

void rg_chart_put_times(struct rg_buf *page, double until_s)
{
    double step = time_steps[0];
    char words[RG_HTML_WORD];

    for (size_t i = 0; i < rg_array_len(time_steps) && until_s / step > TICKS; i++)
        step = time_steps[i];
    while (until_s / step > TICKS)
        step *= 2;
    rg_buf_printf(page, "<div class=\"xs\">");
    for (double s = 0; s <= until_s * 0.97; s += step)
        rg_buf_printf(page, "<span style=\"left:%.2f%%\">%s</span>", s / until_s * 100,
                      time_text(s, step, words));
    rg_buf_printf(page, "</div>\n");
}

/* 1, 2 or 5 times a power of ten, of the unit that it is shown in. */
static double nice_step(const struct rg_chart *chart, double top)
{
    double unit = 1, raw = top / 4;

    while (chart->binary && raw >= 1024) {
        raw /= 1024;
        unit *= 1024;
    }
    double power = pow(10, floor(log10(raw)));
    return unit * power * (raw <= power ? 1 : raw <= 2 * power ? 2 : raw <= 5 * power ? 5 : 10);
}

static double find_top(const struct rg_chart *chart)
{
    double most = 0;

    for (size_t l = 0; l < chart->nlines; l++) {
        for (size_t i = 0; i < chart->lines[l].npoints; i++)
            most = fmax(most, fmax(chart->lines[l].points[i].y, chart->lines[l].points[i].high));
    }
    if (chart->top > 0)
        return chart->top;
    most = most > LEAST_TOP ? most * 1.05 : 1;
    return ceil(most / nice_step(chart, most)) * nice_step(chart, most);
}

static void put_values(struct rg_buf *page, const struct rg_chart *chart, double top)
{
    double step = nice_step(chart, top);
    char words[RG_HTML_WORD];

    rg_buf_printf(page, "<div class=\"ys\">");
    for (double y = 0; y <= top * 1.001; y += step)
        rg_buf_printf(page, "<span style=\"bottom:%.1f%%\">%s</span>", y / top * 100,
                      chart->y_text(y, words));
    rg_buf_printf(page, "</div>");
}

static void put_grid(struct rg_buf *page, const struct rg_chart *chart, double top)
{
    double step = nice_step(chart, top);

    for (double y = step; y <= top * 1.001; y += step)
        rg_buf_printf(page, "<line class=\"grid\" x1=\"0\" x2=\"1000\" y1=\"%.1f\" y2=\"%.1f\"/>",
                      y_of(top, y), y_of(top, y));
}

/* --- curves ----------------------------------------------------------------------------------- */

static size_t end_of_run(const struct rg_chart_line *line, size_t first)
{
    size_t end = first + 1;

    while (end < line->npoints && !line->points[end].begins)
        end++;
    return end;
}

static double middle(const struct rg_chart_point *point)
{
    return (point->from_s + point->to_s) / 2;
}

static void put_vertex(struct rg_buf *page, const struct rg_chart *chart, double top, double s,
                       double y)
{
    rg_buf_printf(page, "%.1f,%.1f ", x_of(chart, s), y_of(top, y));
}

/* From the begin of the first point to the end of the last one. */
static void put_run(struct rg_buf *page, const struct rg_chart *chart, double top,
                    const struct rg_chart_line *line, size_t first, size_t end, size_t number)
{
    const struct rg_chart_point *v = line->points;

    if (chart->nlines == 1) {
        rg_buf_printf(page, "<polygon class=\"band\" points=\"");
        put_vertex(page, chart, top, v[first].from_s, v[first].high);
        for (size_t i = first; i < end; i++)
            put_vertex(page, chart, top, middle(&v[i]), v[i].high);
        put_vertex(page, chart, top, v[end - 1].to_s, v[end - 1].high);
        put_vertex(page, chart, top, v[end - 1].to_s, v[end - 1].low);
        for (size_t i = end; i-- > first;)
            put_vertex(page, chart, top, middle(&v[i]), v[i].low);
        put_vertex(page, chart, top, v[first].from_s, v[first].low);
        rg_buf_printf(page, "\"/>");
    }
    rg_buf_printf(page, "<polyline class=\"line l%zu\" points=\"", number);
    put_vertex(page, chart, top, v[first].from_s, v[first].y);
    for (size_t i = first; i < end; i++)
        put_vertex(page, chart, top, middle(&v[i]), v[i].y);
    put_vertex(page, chart, top, v[end - 1].to_s, v[end - 1].y);
    rg_buf_printf(page, "\"/>");
}

static void put_line(struct rg_buf *page, const struct rg_chart *chart, double top, size_t number)
{
    const struct rg_chart_line *line = &chart->lines[number];

    for (size_t first = 0; first < line->npoints;) {
        size_t end = end_of_run(line, first);
        put_run(page, chart, top, line, first, end, number);
        first = end;
    }
}

/* What a pointer finds. */
static void put_hits(struct rg_buf *page, const struct rg_chart *chart)
{
    const struct rg_chart_line *line = &chart->lines[0];
    char at[RG_HTML_WORD], y[RG_HTML_WORD], low[RG_HTML_WORD], high[RG_HTML_WORD];

    for (size_t i = 0; chart->nlines == 1 && i < line->npoints; i++) {
        const struct rg_chart_point *point = &line->points[i];
        double left = x_of(chart, point->from_s), right = x_of(chart, point->to_s);
        rg_buf_printf(page, "<rect class=\"hit\" x=\"%.1f\" y=\"0\" width=\"%.1f\" "
                            "height=\"1000\"><title>%s: %s%s", left, fmax(right - left, 0.1),
                      time_text(point->from_s, point->from_s < 10 ? 0.1 : 1, at),
                      chart->y_text(point->y, y), chart->unit);
        if (point->high > point->low)
            rg_buf_printf(page, " (ranks: %s to %s)", chart->y_text(point->low, low),
                          chart->y_text(point->high, high));
        rg_buf_printf(page, "</title></rect>");
    }
}

static void put_svg(struct rg_buf *page, const struct rg_chart *chart, double top)
{
    rg_buf_printf(page, "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" "
                        "role=\"img\" aria-label=\"%s\">", chart->title);
    put_grid(page, chart, top);
    for (size_t i = 0; i < chart->nmarks; i++)
        rg_buf_printf(page, "<line class=\"mark%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" "
                            "y2=\"1000\"/>", chart->marks[i].bad ? " bad" : "",
                      x_of(chart, chart->marks[i].at_s), x_of(chart, chart->marks[i].at_s));
    for (size_t l = chart->nlines; l-- > 0;)
        put_line(page, chart, top, l);
    put_hits(page, chart);
    rg_buf_printf(page, "</svg>");
}

void rg_chart_put(struct rg_buf *page, const struct rg_chart *chart)
{
    double top = find_top(chart);
    size_t npoints = 0;

    for (size_t l = 0; l < chart->nlines; l++)
        npoints += chart->lines[l].npoints;
    if (npoints == 0 || !(chart->until_s > 0))
        return;
    rg_buf_printf(page, "<figure class=\"chart\"><figcaption>%s", chart->title);
    for (size_t l = 0; l < chart->nlines; l++) {
        if (chart->lines[l].name)
            rg_buf_printf(page, " <span class=\"key k%zu\">%s</span>", l, chart->lines[l].name);
    }
    rg_buf_printf(page, "</figcaption>\n<div class=\"plot\">");
    put_values(page, chart, top);
    put_svg(page, chart, top);
    rg_chart_put_times(page, chart->until_s);
    rg_buf_printf(page, "</div></figure>\n");
}
