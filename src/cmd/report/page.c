/* SPDX-License-Identifier: Apache-2.0 */
/* What one wants to know first stands first: how it ended, how fast it was, who was waited for. */
#include "cmd/report/page.h"

#include <stdio.h>
#include <string.h>

#include "cmd/report/happened.h"
#include "cmd/report/html.h"
#include "cmd/report/lanes.h"
#include "cmd/report/places.h"
#include "cmd/report/plots.h"

/* --- the first screen ------------------------------------------------------------------------- */

static void put_card(struct rg_buf *page, const char *what, const char *value, const char *more)
{
    rg_buf_printf(page, "<div class=\"card\"><dt>%s</dt><dd>%s</dd><dd class=\"more\">%s</dd>"
                        "</div>\n", what, value, more);
}

static void put_cards(struct rg_buf *page, const struct rg_report_run *run)
{
    const struct rg_figures *figures = run->figures;
    char a[RG_HTML_WORD], b[RG_HTML_WORD], more[2 * RG_HTML_WORD];
    bool known = figures->nrated > 0;

    rg_buf_printf(page, "<dl class=\"cards\">\n");
    snprintf(more, sizeof(more), "%s until all ranks had started",
             figures->start_s > 0 ? rg_html_seconds(figures->start_s, b) : "not");
    put_card(page, "took", rg_html_seconds(figures->elapsed_s, a),
             figures->start_s > 0 ? more : "");
    snprintf(more, sizeof(more), "%s steps in all", rg_html_number(figures->steps, b));
    put_card(page, "steps per second", known ? rg_html_number(figures->steps_per_s, a) : "&#8211;",
             figures->nranks ? more : "no rank has told of any");
    put_card(page, "communication",
             known ? rg_html_share(figures->communication, a) : "&#8211;",
             "of the ranks&#8217; time");
    put_card(page, "payload", known ? rg_html_bytes_per_s(figures->nbytes_per_s, a) : "&#8211;",
             "of all ranks together");
    rg_buf_printf(page, "<div class=\"card wide\"><dt>waited for</dt><dd>");
    rg_report_late(page, run);
    rg_buf_printf(page, "</dd><dd class=\"more\">");
    if (figures->late_causing > 0)
        rg_buf_printf(page, "the others waited %s in each second, all together",
                      rg_html_waited(figures->late_causing, a));
    rg_buf_printf(page, "</dd></div>\n</dl>\n");
}

static void put_header(struct rg_buf *page, const struct rg_report_run *run)
{
    const struct rg_recorded *record = run->record;

    rg_buf_printf(page, "<header>\n<h1>");
    rg_html_text(page, *record->command ? record->command : run->name);
    rg_buf_printf(page, "</h1>\n");
    rg_report_badge(page, run);
    rg_report_facts(page, run);
    if (*record->cwd) {
        rg_buf_printf(page, "<p class=\"facts\">in ");
        rg_html_text(page, record->cwd);
        if (*record->image) {
            rg_buf_printf(page, ", image ");
            rg_html_text(page, record->image);
        }
        rg_buf_printf(page, "</p>\n");
    }
    rg_buf_printf(page, "</header>\n");
}

void rg_report_page(struct rg_buf *page, const struct rg_report_run *run)
{
    rg_autobuf struct rg_buf title = RG_BUF_INIT;

    rg_buf_printf(&title, "%.80s - reigen report", *run->record->command ? run->record->command
                                                                         : run->name);
    rg_report_begin(page, rg_buf_text(&title));
    put_header(page, run);
    rg_report_verdict(page, run);
    put_cards(page, run);
    rg_report_plots(page, run);
    rg_report_stragglers(page, run);
    rg_report_lanes(page, run);
    rg_report_happened(page, run);
    rg_report_start(page, run);
    rg_report_hosts(page, run);
    rg_report_ranks(page, run);
    rg_report_tails(page, run);
    rg_report_end(page);
}
