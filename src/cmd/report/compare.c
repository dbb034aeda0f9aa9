/* SPDX-License-Identifier: Apache-2.0 */
/* Two runs: what differs between them, and what became of that. */
#include "cmd/report/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report/happened.h"
#include "cmd/report/html.h"
#include "cmd/report/plots.h"

#define TIMES 4 /* what is so many times as much is told so */
#define NOTABLE 0.05 /* what changed by less is noise, more often than not */

/* --- numbers ---------------------------------------------------------------------------------- */

struct row {
    const char *what;
    double before, after;
    rg_chart_text *text;
    int better; /* 1: more is better; -1: less is; 0: neither */
    bool share; /* they are compared by their difference */
    bool known;
};

static void put_change(struct rg_buf *page, const struct row *row)
{
    double by = row->share ? row->after - row->before
                : row->before > 0 ? row->after / row->before - 1
                : row->after > 0  ? INFINITY : 0;
    bool notable = fabs(by) >= NOTABLE;
    char words[RG_HTML_WORD];
    const char *how = !notable || !row->better ? "" : by * row->better > 0 ? " good" : " bad";

    if (!row->known)
        rg_buf_printf(page, "<td>&#8211;</td>");
    else if (!notable)
        rg_buf_printf(page, "<td class=\"same\">about the same</td>");
    else if (isinf(by))
        rg_buf_printf(page, "<td class=\"change%s\">from nothing</td>", how);
    else if (by > TIMES - 1 && !row->share)
        rg_buf_printf(page, "<td class=\"change%s\">%s times</td>", how,
                      rg_html_number(round(by + 1), words));
    else
        rg_buf_printf(page, "<td class=\"change%s\">%+.0f %s</td>", how, by * 100,
                      row->share ? "points" : "%");
}

static void put_row(struct rg_buf *page, const struct row *row)
{
    char words[RG_HTML_WORD];

    rg_buf_printf(page, "<tr><th class=\"word\">%s</th>", row->what);
    rg_buf_printf(page, "<td>%s</td>", row->known ? row->text(row->before, words) : "&#8211;");
    rg_buf_printf(page, "<td>%s</td>", row->known ? row->text(row->after, words) : "&#8211;");
    put_change(page, row);
    rg_buf_printf(page, "</tr>\n");
}

static void put_numbers(struct rg_buf *page, const struct rg_figures *a, const struct rg_figures *b)
{
    bool rated = a->nrated && b->nrated;
    const struct row rows[] = {
        { "took", a->elapsed_s, b->elapsed_s, rg_html_seconds, -1, false, true },
        { "until all had started", a->start_s, b->start_s, rg_html_seconds, -1, false,
          a->start_s > 0 && b->start_s > 0 },
        { "steps", a->steps, b->steps, rg_html_number, 0, false, a->nranks && b->nranks },
        { "steps per second", a->steps_per_s, b->steps_per_s, rg_html_number, 1, false, rated },
        { "communication", a->communication, b->communication, rg_html_share, -1, true, rated },
        { "payload", a->nbytes_per_s, b->nbytes_per_s, rg_html_bytes_per_s, 0, false, rated },
        { "processors kept busy", a->cpu, b->cpu, rg_html_number, 0, false, rated },
        { "memory, the most", a->resident, b->resident, rg_html_bytes, -1, false,
          a->resident > 0 && b->resident > 0 },
    };

    for (size_t i = 0; i < rg_array_len(rows); i++)
        put_row(page, &rows[i]);
}

/* --- words ------------------------------------------------------------------------------------ */

static void put_words(struct rg_buf *page, const char *what, const char *a, const char *b)
{
    bool same = strcmp(a, b) == 0;

    if (!*a && !*b)
        return;
    rg_buf_printf(page, "<tr><th class=\"word\">%s</th><td class=\"word\"", what);
    rg_buf_printf(page, "%s>", same ? " colspan=\"2\"" : "");
    rg_html_text(page, a);
    if (!same) {
        rg_buf_printf(page, "</td><td class=\"word\">");
        rg_html_text(page, b);
    }
    rg_buf_printf(page, "</td><td class=\"%s</td></tr>\n", same ? "same\">the same"
                                                             : "change\">changed");
}

static void put_size(struct rg_buf *page, const struct rg_recorded *a, const struct rg_recorded *b)
{
    char before[64], after[64];

    snprintf(before, sizeof(before), "%d on %zu", a->np > 0 ? a->np : 0, a->nhosts);
    snprintf(after, sizeof(after), "%d on %zu", b->np > 0 ? b->np : 0, b->nhosts);
    put_words(page, "ranks on hosts", before, after);
}

static void put_hosts(struct rg_buf *page, const struct rg_recorded *a,
                      const struct rg_recorded *b)
{
    struct rg_buf lists[2] = { RG_BUF_INIT, RG_BUF_INIT };
    const struct rg_recorded *const both[] = { a, b };

    for (int k = 0; k < 2; k++) {
        for (size_t h = 0; h < both[k]->nhosts; h++)
            rg_buf_printf(&lists[k], "%s%s", h ? ", " : "", both[k]->hosts[h].name);
    }
    put_words(page, "hosts", rg_buf_text(&lists[0]), rg_buf_text(&lists[1]));
    rg_buf_fini(&lists[1]);
    rg_buf_fini(&lists[0]);
}

static void put_parts(struct rg_buf *page, const char *what, const struct rg_report_run *before,
                      const struct rg_report_run *after,
                      void (*put)(struct rg_buf *page, const struct rg_report_run *run))
{
    rg_buf_printf(page, "<tr><th class=\"word\">%s</th><td class=\"word\">", what);
    put(page, before);
    rg_buf_printf(page, "</td><td class=\"word\">");
    put(page, after);
    rg_buf_printf(page, "</td><td></td></tr>\n");
}

/* --- the page --------------------------------------------------------------------------------- */

static void put_plots(struct rg_buf *page, const struct rg_report_run *before,
                      const struct rg_report_run *after)
{
    const struct rg_figures *a = before->figures, *b = after->figures;

    rg_buf_printf(page, "<section><h2>How they went</h2>\n<div class=\"charts\">\n");
    for (int what = 0; what < RG_PLOTS; what++) {
        rg_autofree struct rg_chart_point *first = rg_plots_points(a, what);
        rg_autofree struct rg_chart_point *second = rg_plots_points(b, what);
        const struct rg_chart_line lines[] = {
            { second, second ? b->npoints : 0, "after" },
            { first, first ? a->npoints : 0, "before" },
        };
        rg_chart_put(page, &(struct rg_chart){
            .title = rg_plots_kinds[what].title, .unit = "", .lines = lines, .nlines = 2,
            .binary = rg_plots_kinds[what].binary, .top = rg_plots_kinds[what].top,
            .until_s = fmax(a->elapsed_s, b->elapsed_s), .y_text = rg_plots_kinds[what].text });
    }
    rg_buf_printf(page, "</div></section>\n");
}

static void put_name(struct rg_buf *page, const char *which, const struct rg_report_run *run)
{
    rg_buf_printf(page, "<th class=\"word\">%s: ", which);
    rg_html_text(page, run->name);
    rg_buf_printf(page, "</th>");
}

static void put_one(struct rg_buf *page, const char *which, const struct rg_report_run *run)
{
    rg_buf_printf(page, "<section class=\"one\"><h2>%s: ", which);
    rg_html_text(page, run->name);
    rg_buf_printf(page, "</h2>\n");
    rg_report_facts(page, run);
    rg_report_verdict(page, run);
    rg_report_stragglers(page, run);
    rg_report_happened(page, run);
    rg_buf_printf(page, "</section>\n");
}

void rg_report_compare(struct rg_buf *page, const struct rg_report_run *before,
                       const struct rg_report_run *after)
{
    const struct rg_recorded *a = before->record, *b = after->record;

    rg_report_begin(page, "what changed - reigen report");
    rg_buf_printf(page, "<header><h1>What changed</h1></header>\n<section>"
                        "<div class=\"scroll\"><table class=\"compare\"><thead><tr><th></th>");
    put_name(page, "before", before);
    put_name(page, "after", after);
    rg_buf_printf(page, "<th>change</th></tr></thead>\n");
    put_parts(page, "ended", before, after, rg_report_badge);
    put_numbers(page, before->figures, after->figures);
    put_parts(page, "waited for", before, after, rg_report_late);
    put_words(page, "command", a->command, b->command);
    put_size(page, a, b);
    put_hosts(page, a, b);
    put_words(page, "platform", a->platform, b->platform);
    put_words(page, "image", a->image, b->image);
    put_words(page, "Reigen", a->version, b->version);
    rg_buf_printf(page, "</table></div></section>\n");
    put_plots(page, before, after);
    put_one(page, "Before", before);
    put_one(page, "After", after);
    rg_report_end(page);
}
