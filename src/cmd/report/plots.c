/* SPDX-License-Identifier: Apache-2.0 */
/* How the job went over time, and who was waited for meanwhile. */
#include "cmd/report/plots.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report/html.h"

#define NOTABLE_RANKS 8  /* rows of who is waited for */
#define LEAST_CAUSING 0.02 /* seconds in a second: what is less is no wait */
#define LEAST_SHARE 0.02 /* likewise of what the first one causes */

/* --- curves ----------------------------------------------------------------------------------- */

struct rg_chart_point *rg_plots_points(const struct rg_figures *figures, enum rg_plots_what what)
{
    struct rg_chart_point *points = calloc(figures->npoints + 1, sizeof(*points));

    for (size_t i = 0; points && i < figures->npoints; i++) {
        const struct rg_figures_point *from = &figures->points[i];
        const struct rg_figure one = { from->nbytes_per_s, from->nbytes_per_s,
                                       from->nbytes_per_s };
        const struct rg_figure cpu = { from->cpu, from->cpu, from->cpu };
        const struct rg_figure *figure = what == RG_PLOTS_STEPS ? &from->steps
                                         : what == RG_PLOTS_COMMUNICATION ? &from->communication
                                         : what == RG_PLOTS_BYTES ? &one : &cpu;
        points[i] = (struct rg_chart_point){ from->from_s, from->to_s, figure->mean, figure->min,
                                             figure->max, from->begins };
    }
    return points;
}

const struct rg_plots_kind rg_plots_kinds[RG_PLOTS] = {
    [RG_PLOTS_STEPS] = { "Steps per second", " a second", 0, rg_html_number, false },
    [RG_PLOTS_COMMUNICATION] = { "Share of the time in communication", "", 1, rg_html_share,
                                 false },
    [RG_PLOTS_BYTES] = { "Payload of all ranks", "", 0, rg_html_bytes_per_s, true },
    [RG_PLOTS_CPU] = { "Processors kept busy", "", 0, rg_html_number, false },
};

/* Starts, epochs, faults and notes. */
static struct rg_chart_mark *find_marks(const struct rg_recorded *record, size_t *ret_count)
{
    struct rg_chart_mark *marks = calloc(json_array_size(record->events) + 1, sizeof(*marks));
    const json_t *event;
    size_t i, n = 0;

    json_array_foreach(record->events, i, event) {
        const char *name = rg_recorded_text(event, "event");
        bool bad = strcmp(name, "restart") == 0 || strcmp(name, "chaos") == 0 ||
                   strcmp(name, "note") == 0;
        if (marks && n < RG_PLOTS_MARKS_MAX && (bad || (strcmp(name, "epoch") == 0 &&
            rg_recorded_number(event, "epoch") > 1)))
            marks[n++] = (struct rg_chart_mark){
                rg_recorded_number(event, "time") - record->began_s, bad };
    }
    *ret_count = n;
    return marks;
}

void rg_report_plots(struct rg_buf *page, const struct rg_report_run *run)
{
    size_t nmarks;
    rg_autofree struct rg_chart_mark *marks = find_marks(run->record, &nmarks);

    if (run->figures->npoints == 0) {
        rg_buf_printf(page, "<section><p>%s</p></section>\n", run->figures->nranks
                      ? "It was too short for rates: the ranks tell of themselves once a second."
                      : "No rank has told what it did: ranks do that once a second, from init on.");
        return;
    }
    rg_buf_printf(page, "<section><h2>How it went</h2>\n<div class=\"charts\">\n");
    for (int what = 0; what < RG_PLOTS; what++) {
        const struct rg_plots_kind *kind = &rg_plots_kinds[what];
        rg_autofree struct rg_chart_point *points = rg_plots_points(run->figures, what);
        const struct rg_chart_line line = { points, points ? run->figures->npoints : 0, NULL };

        rg_chart_put(page, &(struct rg_chart){
            .title = kind->title, .unit = kind->unit, .lines = &line, .nlines = 1, .marks = marks,
            .nmarks = marks ? nmarks : 0, .until_s = run->figures->elapsed_s, .top = kind->top,
            .binary = kind->binary, .y_text = kind->text });
    }
    rg_buf_printf(page, "</div>\n");
    if (run->figures->nranks > 1)
        rg_buf_printf(page, "<p class=\"hint\">A line is the mean of the ranks, the band around it "
                            "goes from the least to the most.%s</p>\n", nmarks
                      ? " Dashed lines are what happened meanwhile, as below." : "");
    rg_buf_printf(page, "</section>\n");
}

/* --- who is waited for ------------------------------------------------------------------------ */

static int by_causing(const void *a, const void *b)
{
    const struct rg_figures_rank *const *x = a, *const *y = b;

    return (*y)->causing > (*x)->causing ? 1 : (*y)->causing < (*x)->causing ? -1
           : (*x)->rank - (*y)->rank;
}

/* The most first. */
static const struct rg_figures_rank **sort_ranks(const struct rg_figures *figures)
{
    const struct rg_figures_rank **sorted = calloc(figures->nranks + 1, sizeof(*sorted));

    for (size_t i = 0; sorted && i < figures->nranks; i++)
        sorted[i] = &figures->ranks[i];
    if (sorted)
        qsort(sorted, figures->nranks, sizeof(*sorted), by_causing);
    return sorted;
}

static double causing_at(const struct rg_report_run *run, size_t i, int rank)
{
    const struct rg_figures_point *point = &run->figures->points[i];
    const struct rg_recorded_sample *samples = run->record->samples;

    return rg_figures_causing(&samples[point->first], &samples[point->last], rank);
}

/* Darker where others waited more. */
static void put_strip(struct rg_buf *page, const struct rg_report_run *run, int rank)
{
    double until_s = run->figures->elapsed_s, most = LEAST_CAUSING;
    char words[RG_HTML_WORD];

    for (size_t i = 0; i < run->figures->npoints; i++)
        most = fmax(most, causing_at(run, i, rank));
    rg_buf_printf(page, "<svg class=\"strip\" viewBox=\"0 0 1000 10\" "
                        "preserveAspectRatio=\"none\">");
    for (size_t i = 0; i < run->figures->npoints; i++) {
        const struct rg_figures_point *point = &run->figures->points[i];
        double causing = causing_at(run, i, rank);
        double left = point->from_s / until_s * 1000, right = point->to_s / until_s * 1000;
        if (causing > LEAST_CAUSING)
            rg_buf_printf(page, "<rect x=\"%.1f\" width=\"%.1f\" y=\"0\" height=\"10\" "
                                "opacity=\"%.2f\"><title>waited %s a second for rank %d</title>"
                                "</rect>", left, fmax(right - left, 1),
                          0.12 + 0.88 * causing / most, rg_html_waited(causing, words), rank);
    }
    rg_buf_printf(page, "</svg>");
}

static void put_late(struct rg_buf *page, const struct rg_report_run *run,
                     const struct rg_figures_rank *rank, double most)
{
    char words[RG_HTML_WORD];

    rg_buf_printf(page, "<div class=\"late\"><span class=\"who\">rank %d", rank->rank);
    if (rank->host >= 0 && (size_t) rank->host < run->record->nhosts && run->record->nhosts > 1) {
        rg_buf_printf(page, " on ");
        rg_html_text(page, run->record->hosts[rank->host].name);
    }
    rg_buf_printf(page, "</span><span class=\"bar\"><i style=\"width:%.1f%%\"></i></span>"
                        "<span class=\"value\">%s</span>", rank->causing / most * 100,
                  rg_html_waited(rank->causing, words));
    put_strip(page, run, rank->rank);
    rg_buf_printf(page, "</div>\n");
}

static size_t count_late(const struct rg_figures_rank *const *sorted, size_t n)
{
    size_t k = 0;

    while (k < n && k < NOTABLE_RANKS &&
           sorted[k]->causing > fmax(LEAST_CAUSING, LEAST_SHARE * sorted[0]->causing))
        k++;
    return k;
}

void rg_report_stragglers(struct rg_buf *page, const struct rg_report_run *run)
{
    size_t nranks = run->figures->nranks;
    rg_autofree const struct rg_figures_rank **sorted = sort_ranks(run->figures);
    size_t n = sorted ? count_late(sorted, nranks) : 0;
    char words[RG_HTML_WORD];

    if (!sorted || run->figures->nrated < 2)
        return;
    bool late = run->figures->late_rank >= 0 || run->figures->late_host >= 0;
    rg_buf_printf(page, "<section%s><h2>Who was waited for</h2>\n<p>The others waited for <b>",
                  late ? "" : " class=\"calm\"");
    rg_report_late(page, run);
    rg_buf_printf(page, "</b>. A bar is the time for which all others together waited for a rank, "
                        "in each second. Below it is when: darker is longer.</p>\n");
    for (size_t i = 0; i < n; i++)
        put_late(page, run, sorted[i], sorted[0]->causing);
    if (n > 0)
        rg_chart_put_times(page, run->figures->elapsed_s);
    if (n < nranks)
        rg_buf_printf(page, "<p class=\"hint\">%s%zu rank%s alike: %s in each second at most.</p>"
                            "\n",
                      n ? "the other " : "all ", nranks - n, nranks - n == 1 ? "" : "s",
                      rg_html_waited(sorted[n]->causing, words));
    rg_buf_printf(page, "</section>\n");
}
