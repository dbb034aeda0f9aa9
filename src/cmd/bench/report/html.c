/* SPDX-License-Identifier: Apache-2.0 */
/* The page of HTML: for each operation two plots, and below all of them the figures. */
#include <stdio.h>
#include <string.h>

#include "cmd/bench/report/plot.h"
#include "cmd/bench/report/report.h"
#include "reigen/reigen.h"

#define CURVES_MAX (REIGEN_NDTYPES * RG_MEASURED_MAX)
#define CURVE_NAME_NBYTES 48
#define US 1e6

static const char style[] =
    ":root{color-scheme:light dark;--ink:#22262c;--soft:#5d6670;--page:#fdfdfc;--line:#d9dce0;"
    "--card:#fff;--c0:#b3243b;--c1:#2f66b1;--c2:#2b7d6d;--c3:#8a6410;--c4:#7b2d8b;--c5:#5d6670}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--soft:#a3a9b3;--page:#15181c;"
    "--line:#373d45;--card:#1c2025;--c0:#f27c8d;--c1:#7fabea;--c2:#72c6b5;--c3:#dcb565;"
    "--c4:#d092e2;--c5:#a3a9b3}}\n"
    "body{margin:0 auto;padding:24px 20px 60px;max-width:1180px;background:var(--page);"
    "color:var(--ink);font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:36px 0 8px}\n"
    "p{margin:4px 0;color:var(--soft)}p.legend{display:flex;flex-wrap:wrap;gap:4px 18px}\n"
    ".key{display:inline-block;width:22px;height:0;border-top:3px solid;vertical-align:middle;"
    "margin-right:6px}.key.again{border-top-style:dashed}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));"
    "gap:16px}\n"
    "svg{width:100%;height:auto;background:var(--card);border:1px solid var(--line);"
    "border-radius:8px}\n"
    "svg text{font:12px system-ui,sans-serif;fill:var(--soft)}"
    ".heading text{font-weight:600;font-size:13px;fill:var(--ink)}\n"
    ".grid{stroke:var(--line)}.axis{stroke:var(--soft)}.curve{fill:none;stroke-width:2}"
    ".again{stroke-dasharray:5 4}\n"
    "div.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;"
    "width:100%}\n"
    "th,td{padding:3px 10px;text-align:right;border-bottom:1px solid var(--line);"
    "white-space:nowrap}\n"
    "th{font-weight:600}td.word,th.word{text-align:left}td.wrong{color:var(--c0);"
    "font-weight:600}\n";

/* One operation's curves: each type, for each of those who were measured. */
struct section {
    const struct rg_report *report;
    const struct rg_bench_case *what; /* of its first row */
    char names[CURVES_MAX][CURVE_NAME_NBYTES];
    struct rg_plot_curve times[CURVES_MAX], bandwidths[CURVES_MAX];
    size_t ncurves;
    struct rg_plot_point *points; /* two for each row and each measured */
    size_t npoints;
};

static bool is_of(const struct rg_measure_row *row, const struct rg_bench_case *what)
{
    return row->what.op == what->op && row->what.reduction == what->reduction;
}

/* With one rank there is no bus. */
static double bandwidth_of(const struct rg_report *report, const struct rg_measure_result *result)
{
    return report->nranks > 1 ? result->bus_gbps : result->algorithm_gbps;
}

static void add_curve(struct section *section, int type, int measured, bool types)
{
    const struct rg_report *report = section->report;
    size_t number = section->ncurves, n = 0;
    struct rg_plot_point *times = section->points + section->npoints;
    struct rg_plot_point *bandwidths = times + report->nrows;

    for (size_t i = 0; i < report->nrows; i++) {
        const struct rg_measure_row *row = &report->rows[i];
        const struct rg_measure_result *result = &row->results[measured];
        if (!is_of(row, section->what) || row->what.type != type || !result->measured ||
            result->median_s <= 0 || bandwidth_of(report, result) <= 0)
            continue;
        double nbytes = (double) row->what.nbytes * row->what.group;
        times[n] = (struct rg_plot_point){ nbytes, result->median_s };
        bandwidths[n++] = (struct rg_plot_point){ nbytes, bandwidth_of(report, result) };
    }
    if (n == 0)
        return;
    char *name = section->names[number];
    snprintf(name, CURVE_NAME_NBYTES, "%s%s%s", report->names[measured], types ? ", " : "",
             types ? rg_bench_types[type].name : "");
    section->times[number] = (struct rg_plot_curve){ name, times, n };
    section->bandwidths[number] = (struct rg_plot_curve){ name, bandwidths, n };
    section->npoints += 2 * report->nrows;
    section->ncurves++;
}

static void put_legend(struct rg_buf *text, const struct section *section)
{
    rg_buf_printf(text, "<p class=\"legend\">");
    for (size_t i = 0; i < section->ncurves; i++) {
        rg_buf_printf(text,
                      "<span><span class=\"key%s\" style=\"border-color:var(--c%zu)\"></span>",
                      i >= RG_PLOT_COLOURS ? " again" : "", i % RG_PLOT_COLOURS);
        rg_plot_put_text(text, section->names[i]);
        rg_buf_printf(text, "</span>\n");
    }
    rg_buf_printf(text, "</p>\n");
}

static void put_section(struct rg_buf *text, struct section *section)
{
    const struct rg_report *report = section->report;
    char operation[64];
    int ntypes = 0;

    for (int type = 0; type < REIGEN_NDTYPES; type++)
        ntypes += report->types[type];
    for (int type = 0; type < REIGEN_NDTYPES; type++)
        for (int i = 0; i < report->nmeasured; i++)
            if (report->types[type])
                add_curve(section, type, i, ntypes > 1);
    if (section->ncurves == 0)
        return;
    rg_report_operation(section->what, operation, sizeof(operation));
    rg_buf_printf(text, "<h2>%s</h2>\n", operation);
    put_legend(text, section);
    rg_buf_printf(text, "<div class=\"plots\">\n");
    rg_plot_put(text, &(struct rg_plot){ "time of one operation", "time by size, as in the table",
                                         rg_plot_bytes, rg_plot_seconds, section->times,
                                         section->ncurves });
    rg_plot_put(text, &(struct rg_plot){ report->nranks > 1 ? "bus bandwidth"
                                                            : "algorithm bandwidth",
                                         "bandwidth by size, as in the table", rg_plot_bytes,
                                         rg_plot_gbps, section->bandwidths, section->ncurves });
    rg_buf_printf(text, "</div>\n");
}

/* --- the table -------------------------------------------------------------------------------- */

static void put_cell(struct rg_buf *text, double value, bool there, const char *format)
{
    char words[32];

    snprintf(words, sizeof(words), format, value);
    rg_buf_printf(text, "<td>%s</td>", there ? words : "&#8211;");
}

static void put_row(struct rg_buf *text, const struct rg_report *report,
                    const struct rg_measure_row *row)
{
    const struct rg_measure_result *own = &row->results[0];
    bool data = rg_bench_ops[row->what.op].data;
    char operation[64];

    rg_buf_printf(text, "<tr><td class=\"word\">%s</td><td class=\"word\">%s</td>",
                  rg_report_operation(&row->what, operation, sizeof(operation)),
                  data ? rg_bench_types[row->what.type].name : "");
    put_cell(text, (double) row->what.nbytes, data, "%.0f");
    put_cell(text, own->median_s * US, own->measured, "%.2f");
    put_cell(text, own->min_s * US, own->measured, "%.2f");
    put_cell(text, own->max_s * US, own->measured, "%.2f");
    put_cell(text, own->algorithm_gbps, own->algorithm_gbps > 0, "%.4g");
    put_cell(text, own->bus_gbps, own->bus_gbps > 0, "%.4g");
    if (own->checked && own->nwrong > 0)
        rg_buf_printf(text, "<td class=\"wrong\">%.0f</td>", own->nwrong);
    else
        put_cell(text, own->nwrong, own->checked, "%.0f");
    for (int i = 1; i < report->nmeasured; i++)
        put_cell(text, row->results[i].median_s * US, row->results[i].measured, "%.2f");
    rg_buf_printf(text, "</tr>\n");
}

static void put_table(struct rg_buf *text, const struct rg_report *report)
{
    rg_buf_printf(text, "<h2>Figures</h2>\n<p>Times are in microseconds: the median, the least and "
                        "the largest of the ranks&#8217; times. Bandwidths are in 10<sup>9</sup> "
                        "bytes per second.</p>\n<div class=\"wide\"><table>\n<tr>"
                        "<th class=\"word\">operation</th><th class=\"word\">type</th>"
                        "<th>bytes</th><th>time</th><th>min</th><th>max</th><th>algorithm</th>"
                        "<th>bus</th><th>wrong</th>");
    for (int i = 1; i < report->nmeasured; i++) {
        rg_buf_printf(text, "<th>");
        rg_plot_put_text(text, report->names[i]);
        rg_buf_printf(text, "</th>");
    }
    rg_buf_printf(text, "</tr>\n");
    for (size_t i = 0; i < report->nrows; i++)
        put_row(text, report, &report->rows[i]);
    rg_buf_printf(text, "</table></div>\n");
}

/* What the runtime says of itself, on one line. */
static void put_facts(struct rg_buf *text, const struct rg_report *report)
{
    rg_buf_printf(text, "<p>");
    for (const char *p = report->described ? report->described : ""; *p;) {
        size_t n = strcspn(p, "\n");
        rg_autofree char *line = strndup(p, n);
        rg_plot_put_text(text, line ? line : "");
        p += n + (p[n] == '\n');
        rg_buf_printf(text, "%s", *p ? "; " : "");
    }
    rg_buf_printf(text, "</p>\n");
}

static void put_sections(struct rg_buf *text, const struct rg_report *report)
{
    rg_autofree struct section *section = calloc(1, sizeof(*section));
    size_t npoints = 2 * report->nrows * CURVES_MAX;
    rg_autofree struct rg_plot_point *points = calloc(npoints ? npoints : 1, sizeof(*points));

    if (!section || !points) {
        text->status = -ENOMEM;
        return;
    }
    for (size_t i = 0; i < report->nrows; i++) {
        bool known = false;
        for (size_t k = 0; k < i; k++)
            known |= is_of(&report->rows[k], &report->rows[i].what);
        if (known)
            continue;
        *section = (struct section){ .report = report, .what = &report->rows[i].what,
                                     .points = points };
        put_section(text, section);
    }
}

void rg_report_html(struct rg_buf *text, const struct rg_report *report)
{
    rg_buf_printf(text, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                        "<meta name=\"viewport\" content=\"width=device-width\"/>\n"
                        "<title>reigen bench</title>\n<style>\n%s", style);
    for (int i = 0; i < RG_PLOT_COLOURS; i++)
        rg_buf_printf(text, ".c%d{stroke:var(--c%d)}.f%d{fill:var(--c%d)}\n", i, i, i, i);
    rg_buf_printf(text, "</style>\n</head>\n<body>\n<h1>reigen bench</h1>\n"
                        "<p>Reigen %s, %d rank%s on %d host%s. Both axes of each plot are "
                        "logarithmic.</p>\n",
                  report->version, report->nranks, report->nranks == 1 ? "" : "s", report->nhosts,
                  report->nhosts == 1 ? "" : "s");
    put_facts(text, report);
    put_sections(text, report);
    put_table(text, report);
    rg_buf_printf(text, "</body>\n</html>\n");
}
