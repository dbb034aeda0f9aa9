/* SPDX-License-Identifier: Apache-2.0 */
/* Time is cut into columns, and a rank is in one state in each: so a row has a bounded number of
 * bars, whatever happened. What is shorter than a column fills it, as it could not be seen. */
#include "cmd/report/lanes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmd/report/html.h"

#define COLUMNS 500
#define GROUP (RG_LANES_ALL / 3)
#define TICKS 4
#define LATE_SHOWN_S 5e-7

enum state { IDLE, WAITS, MOVES };

/* A rank, in the seconds that are shown. */
struct lane {
    int rank;
    double late_s; /* the mean of how long it came after the first one */
    size_t nops;
    unsigned char states[COLUMNS];
};

struct drawing {
    const struct rg_window *window;
    struct lane *lanes; /* owned; those that came to an operation, by rank */
    size_t nlanes;
};

static size_t column_of(const struct rg_window *window, double at_s)
{
    double part = (at_s - window->from_s) / (window->to_s - window->from_s);

    return (size_t) (fmin(fmax(part, 0), 1 - 1e-9) * COLUMNS);
}

static bool is_shown(const struct rg_window *window, double from_s, double to_s)
{
    return to_s >= window->from_s && from_s <= window->to_s;
}

static void fill(const struct rg_window *window, struct lane *lane, double from_s, double to_s,
                 enum state state)
{
    if (!(to_s > from_s) || !is_shown(window, from_s, to_s))
        return;
    for (size_t i = column_of(window, from_s); i <= column_of(window, to_s); i++) {
        if (lane->states[i] < state)
            lane->states[i] = (unsigned char) state;
    }
}

/* --- what each rank did ----------------------------------------------------------------------- */

static int by_rank(const void *a, const void *b)
{
    return ((const struct lane *) a)->rank - ((const struct lane *) b)->rank;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *) a - *(const int *) b;
}

static int by_lateness(const void *a, const void *b)
{
    const struct lane *x = *(struct lane *const *) a, *y = *(struct lane *const *) b;

    return x->late_s < y->late_s ? 1 : x->late_s > y->late_s ? -1 : x->rank - y->rank;
}

/* The ranks that came to the operations that are shown. */
static int list_lanes(struct drawing *drawing)
{
    const struct rg_traced *traced = &drawing->window->traced;
    rg_autofree int *ranks = calloc(traced->narrivals + 1, sizeof(*ranks));
    size_t n = 0, kept = 0;

    if (!ranks)
        return -ENOMEM;
    for (size_t i = 0; i < traced->nops; i++) {
        const struct rg_traced_op *op = &traced->ops[i];
        for (size_t k = 0; k < op->narrivals; k++) {
            if (is_shown(drawing->window, traced->arrivals[op->first + k].at_s, op->end_s))
                ranks[n++] = traced->arrivals[op->first + k].rank;
        }
    }
    qsort(ranks, n, sizeof(*ranks), by_number);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || ranks[i] != ranks[i - 1])
            ranks[kept++] = ranks[i];
    }
    drawing->lanes = calloc(kept + 1, sizeof(*drawing->lanes));
    if (!drawing->lanes)
        return -ENOMEM;
    for (size_t i = 0; i < kept; i++)
        drawing->lanes[i].rank = ranks[i];
    drawing->nlanes = kept;
    return 0;
}

static struct lane *find_lane(const struct drawing *drawing, int rank)
{
    struct lane wanted = { .rank = rank };

    return bsearch(&wanted, drawing->lanes, drawing->nlanes, sizeof(*drawing->lanes), by_rank);
}

static void add_op(struct drawing *drawing, const struct rg_traced_op *op)
{
    const struct rg_window *window = drawing->window;
    const struct rg_traced_arrival *arrivals = &window->traced.arrivals[op->first];
    double first_s = INFINITY;

    for (size_t k = 0; k < op->narrivals; k++)
        first_s = fmin(first_s, arrivals[k].at_s);
    for (size_t k = 0; k < op->narrivals; k++) {
        struct lane *lane = find_lane(drawing, arrivals[k].rank);
        if (!lane || !is_shown(window, arrivals[k].at_s, op->end_s))
            continue;
        fill(window, lane, arrivals[k].at_s, op->all_s, WAITS);
        fill(window, lane, op->all_s, op->end_s, MOVES);
        lane->late_s += arrivals[k].at_s - first_s;
        lane->nops++;
    }
}

static int look(struct drawing *drawing)
{
    const struct rg_traced *traced = &drawing->window->traced;
    int r = list_lanes(drawing);

    for (size_t i = 0; r == 0 && i < traced->nops; i++)
        add_op(drawing, &traced->ops[i]);
    for (size_t i = 0; r == 0 && i < drawing->nlanes; i++)
        drawing->lanes[i].late_s /= fmax((double) drawing->lanes[i].nops, 1);
    return r;
}

/* --- the picture ------------------------------------------------------------------------------ */

/* All bars of a state as one path. */
static void put_path(struct rg_buf *page, const struct lane *lane, enum state state)
{
    size_t nbars = 0;

    for (size_t i = 0, end; i < COLUMNS; i = end) {
        for (end = i + 1; end < COLUMNS && lane->states[end] == lane->states[i]; end++)
            ;
        if (lane->states[i] != state)
            continue;
        if (nbars++ == 0)
            rg_buf_printf(page, "<path class=\"t%d\" d=\"", (int) state);
        rg_buf_printf(page, "M%zu 7h%zu", i, end - i);
    }
    if (nbars)
        rg_buf_printf(page, "\"/>");
}

static void put_lane(struct rg_buf *page, const struct rg_report_run *run, const struct lane *lane)
{
    const struct rg_recorded *record = run->record;
    int host = (size_t) lane->rank < record->nranks ? record->ranks[lane->rank].host : -1;
    char words[RG_HTML_WORD];

    rg_buf_printf(page, "<div class=\"lane\"><span class=\"who\">rank %d", lane->rank);
    if (host >= 0 && (size_t) host < record->nhosts && record->nhosts > 1) {
        rg_buf_printf(page, " on ");
        rg_html_text(page, record->hosts[host].name);
    }
    rg_buf_printf(page, "</span><svg class=\"track\" viewBox=\"0 0 %d 14\" "
                        "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"rank %d\">",
                  COLUMNS, lane->rank);
    put_path(page, lane, WAITS);
    put_path(page, lane, MOVES);
    rg_buf_printf(page, "</svg><span class=\"value\">%s</span></div>\n",
                  lane->late_s > LATE_SHOWN_S ? rg_html_short(lane->late_s, words) : "first");
}

static void put_group(struct rg_buf *page, const struct rg_report_run *run,
                      struct lane *const *lanes, size_t n, const char *heading)
{
    if (heading)
        rg_buf_printf(page, "<p class=\"hint\">%s</p>\n", heading);
    for (size_t i = 0; i < n; i++)
        put_lane(page, run, lanes[i]);
}

static void put_times(struct rg_buf *page, const struct rg_window *window)
{
    double length_s = window->to_s - window->from_s;
    char words[RG_HTML_WORD];

    rg_buf_printf(page, "<div class=\"lane\"><span></span><div class=\"xs\">");
    for (int i = 0; i <= TICKS; i++)
        rg_buf_printf(page, "<span style=\"left:%d%%\">%s</span>", i * 100 / TICKS,
                      i ? rg_html_short(length_s * i / TICKS, words) : "0");
    rg_buf_printf(page, "</div><span></span></div>\n");
}

static void put_rows(struct rg_buf *page, const struct rg_report_run *run,
                     const struct drawing *drawing)
{
    size_t n = drawing->nlanes;
    rg_autofree struct lane **sorted = calloc(n + 1, sizeof(struct lane *));

    for (size_t i = 0; sorted && i < n; i++)
        sorted[i] = &drawing->lanes[i];
    if (sorted && n <= RG_LANES_ALL) {
        put_group(page, run, sorted, n, NULL);
    } else if (sorted) {
        qsort(sorted, n, sizeof(struct lane *), by_lateness);
        put_group(page, run, sorted, GROUP, "The latest:");
        put_group(page, run, sorted + (n - GROUP) / 2, GROUP, "In the middle:");
        put_group(page, run, sorted + n - GROUP, GROUP, "The earliest:");
        rg_buf_printf(page, "<p class=\"hint\">%zu ranks in all.</p>\n", n);
    }
    put_times(page, drawing->window);
}

static void put_drawing(struct rg_buf *page, const struct rg_report_run *run)
{
    const struct rg_window *window = run->window;
    struct drawing drawing = { .window = window };
    double from_s = window->traced.began_s + window->from_s - run->record->began_s;
    char length[RG_HTML_WORD];

    if (look(&drawing) == 0 && drawing.nlanes > 0) {
        rg_buf_printf(page, "<p>%s, from %.3f s after the job began: "
                            "<span class=\"key p2\">waits for other ranks</span>"
                            "<span class=\"key p3\">data moves</span></p>\n"
                            "<p class=\"hint\">Elsewhere no operation is under way. At the right "
                            "is how much later than the first rank each one came, on average."
                            "</p>\n",
                      rg_html_short(window->to_s - window->from_s, length), from_s);
        put_rows(page, run, &drawing);
    }
    free(drawing.lanes);
}

void rg_report_lanes(struct rg_buf *page, const struct rg_report_run *run)
{
    if (!*run->record->timeline)
        return;
    rg_buf_printf(page, "<section><h2>Timeline</h2>\n");
    if (run->window)
        put_drawing(page, run);
    rg_buf_printf(page, "<p class=\"facts\">All of it: ");
    if (run->timeline) {
        rg_buf_printf(page, "<a href=\"");
        rg_html_text(page, run->timeline);
        rg_buf_printf(page, "\">");
    }
    rg_html_text(page, run->record->timeline);
    rg_buf_printf(page, "%s. Load it at ui.perfetto.dev or in chrome://tracing.",
                  run->timeline ? "</a>" : "");
    if (!run->window)
        rg_buf_printf(page, run->timeline ? " It has no operation in the seconds that are asked "
                                            "for." : " It is not where the report was made.");
    rg_buf_printf(page, "</p></section>\n");
}
