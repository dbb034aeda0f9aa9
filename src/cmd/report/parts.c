/* SPDX-License-Identifier: Apache-2.0 */
/* What the pages of one record and of two have in common. */
#include "cmd/report/parts.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/exitcode.h"
#include "cmd/report/html.h"

/* --- head and foot ---------------------------------------------------------------------------- */

void rg_report_begin(struct rg_buf *page, const char *title)
{
    rg_buf_printf(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
                        "&#39;none&#39;; style-src &#39;unsafe-inline&#39;\"/>\n"
                        "<meta name=\"viewport\" content=\"width=device-width\"/>\n"
                        "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>");
    rg_html_text(page, title);
    rg_buf_printf(page, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", rg_report_style);
}

void rg_report_end(struct rg_buf *page)
{
    rg_buf_printf(page, "<footer>Made by reigen report, Reigen " RG_VERSION ". This page is one "
                        "file: it loads nothing and runs no script.</footer>\n</body>\n</html>\n");
}

/* --- parts ------------------------------------------------------------------------------------ */

static bool is_well(const struct rg_report_run *run)
{
    const json_t *verdict = run->record->verdict;

    return (json_is_true(json_object_get(verdict, "ok")) || (!verdict && run->record->ended)) &&
           (!run->record->ended || run->record->exit_code == 0);
}

static int exit_code_of(const struct rg_recorded *record)
{
    double told = rg_recorded_number(record->verdict, "exit_code");

    return record->ended ? record->exit_code : told < 255 ? (int) told : 255;
}

void rg_report_badge(struct rg_buf *page, const struct rg_report_run *run)
{
    const struct rg_recorded *record = run->record;

    if (is_well(run))
        rg_buf_printf(page, "<span class=\"badge good\">ended well</span>");
    else if (record->verdict || record->ended)
        rg_buf_printf(page, "<span class=\"badge bad\">exit code %d</span>", exit_code_of(record));
    else if (run->runs)
        rg_buf_printf(page, "<span class=\"badge now\">runs</span>");
    else if (rg_recorded_is_copy(record))
        rg_buf_printf(page, "<span class=\"badge now\">copied while it ran</span>");
    else
        rg_buf_printf(page, "<span class=\"badge bad\">no end recorded</span>");
}

void rg_report_late(struct rg_buf *page, const struct rg_report_run *run)
{
    const struct rg_figures *figures = run->figures;

    if (figures->late_rank < 0 && figures->late_host < 0) {
        rg_buf_printf(page, figures->nrated ? "nobody in particular" : "not known");
        return;
    }
    if (figures->late_rank >= 0)
        rg_buf_printf(page, "rank %d", figures->late_rank);
    if (figures->late_host >= 0 && (size_t) figures->late_host < run->record->nhosts) {
        rg_buf_printf(page, figures->late_rank >= 0 ? " on " : "host ");
        rg_html_text(page, run->record->hosts[figures->late_host].name);
    }
}

static void put_count(struct rg_buf *page, double n, const char *what)
{
    char words[RG_HTML_WORD];

    rg_buf_printf(page, "%s %s%s", rg_html_number(n, words), what, n == 1 ? "" : "s");
}

void rg_report_facts(struct rg_buf *page, const struct rg_report_run *run)
{
    const struct rg_recorded *record = run->record;
    const char *job = record->nstarts ? record->starts[0].job : "";
    time_t began = (time_t) record->began_s;
    char when[64] = "";
    struct tm tm;

    if (localtime_r(&began, &tm))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S %z", &tm);
    rg_buf_printf(page, "<p class=\"facts\">");
    if (*job) {
        rg_buf_printf(page, "job ");
        rg_html_text(page, job);
        rg_buf_printf(page, ", ");
    }
    rg_buf_printf(page, "began %s; ", when);
    put_count(page, record->np > 0 ? record->np : 0, "rank");
    rg_buf_printf(page, "%s on ", record->elastic ? " at first" : "");
    put_count(page, (double) record->nhosts, "host");
    if (*record->platform) {
        rg_buf_printf(page, " (");
        rg_html_text(page, record->platform);
        rg_buf_printf(page, ")");
    }
    rg_buf_printf(page, "; Reigen ");
    rg_html_text(page, record->version);
    rg_buf_printf(page, "</p>\n");
}

/* --- how it ended ----------------------------------------------------------------------------- */

static void put_last_lines(struct rg_buf *page, const json_t *lines)
{
    const json_t *line;
    size_t i;

    if (json_array_size(lines) == 0)
        return;
    rg_buf_printf(page, "<pre>");
    json_array_foreach(lines, i, line) {
        rg_html_text(page, json_string_value(line) ? json_string_value(line) : "");
        rg_buf_printf(page, "\n");
    }
    rg_buf_printf(page, "</pre>\n");
}

static void put_exit_code(struct rg_buf *page, int code)
{
    const struct rg_exit_info *info = rg_exit_find(code);

    rg_buf_printf(page, "<p>Exit code %d: ", code);
    rg_html_text(page, info ? info->meaning : "");
    rg_buf_printf(page, " ");
    rg_html_text(page, info ? info->remedy : "");
    rg_buf_printf(page, "</p>\n");
}

static void put_no_end(struct rg_buf *page, const struct rg_report_run *run)
{
    const struct rg_recorded *record = run->record;
    char words[RG_HTML_WORD];

    rg_buf_printf(page, run->runs
                            ? "<p>The job runs, and the record goes on. It is %s old; make this "
                              "page again for what comes.</p>\n"
                        : rg_recorded_is_copy(record)
                            ? "<p>This is a copy of the record, made %s after its begin, while "
                              "the job ran. What came then is not in it.</p>\n"
                            : "<p>The record ends %s after its begin, and nobody has written its "
                              "end: its launcher was killed, its computer went down, or its "
                              "disk was full.</p>\n",
                  rg_html_seconds(record->last_s - record->began_s, words));
}

static void put_lost(struct rg_buf *page, const struct rg_recorded *record)
{
    char words[RG_HTML_WORD];

    if (record->nlost > 0)
        rg_buf_printf(page, "<p class=\"warn\">The record is short: %s times something could not "
                            "be written, or there was no room for it.</p>\n",
                      rg_html_number(record->nlost, words));
    if (record->nskipped > 0)
        rg_buf_printf(page, "<p class=\"warn\">%s line%s of the record could not be read.</p>\n",
                      rg_html_number((double) record->nskipped, words),
                      record->nskipped == 1 ? "" : "s");
}

void rg_report_verdict(struct rg_buf *page, const struct rg_report_run *run)
{
    const struct rg_recorded *record = run->record;
    const char *cause = rg_recorded_text(record->verdict, "cause");

    if (!record->verdict && !record->ended) {
        put_no_end(page, run);
    } else if (!is_well(run)) {
        rg_buf_printf(page, "<section class=\"verdict\"><h2>Why it ended</h2>\n<p "
                            "class=\"cause\">");
        rg_html_text(page, *cause ? cause : "how it ended was said on standard error only");
        rg_buf_printf(page, "</p>\n");
        put_last_lines(page, json_object_get(record->verdict, "last_lines"));
        put_exit_code(page, exit_code_of(record));
        rg_buf_printf(page, "</section>\n");
    }
    put_lost(page, record);
}
