/* SPDX-License-Identifier: Apache-2.0 */
/* What happened, one after the other; and what the ranks wrote last. */
#include "cmd/report/happened.h"

#include <stdio.h>
#include <string.h>

#include "cmd/report/html.h"

#define OPEN_EVENTS 12  /* what follows is folded */
#define EVENTS_MAX 500  /* and this is left out */
#define OPEN_TAILS 2    /* of a job with more ranks */

/* --- events ----------------------------------------------------------------------------------- */

static const char *kind_of(const json_t *event)
{
    const char *name = rg_recorded_text(event, "event");

    if (strcmp(name, "epoch") == 0)
        return rg_recorded_number(event, "epoch") > 1 ? "epoch" : NULL;
    if (strcmp(name, "rank-ended") == 0 && !json_is_true(json_object_get(event, "consequence")))
        return strcmp(rg_recorded_text(event, "how"), "exit") != 0 ||
                       rg_recorded_number(event, "value") > 0 ? "end" : NULL;
    return strcmp(name, "note") == 0 ? "note" : strcmp(name, "chaos") == 0 ? "fault"
           : strcmp(name, "restart") == 0 ? "restart"
           : strcmp(name, "slowed") == 0 ? "waits" : NULL;
}

static void put_end(struct rg_buf *page, const json_t *event, bool place)
{
    const char *how = rg_recorded_text(event, "how");
    double rank = rg_recorded_number(event, "rank");
    double value = rg_recorded_number(event, "value");

    rg_buf_printf(page, "%s %.0f on ", place ? "the process in place" : "rank", rank);
    rg_html_text(page, rg_recorded_text(event, "host"));
    rg_buf_printf(page, ": ");
    if (strcmp(how, "exit") == 0)
        rg_buf_printf(page, "exit code %.0f", value);
    else if (strcmp(how, "signal") == 0)
        rg_buf_printf(page, "signal %.0f", value);
    else
        rg_buf_printf(page, strcmp(how, "lost") == 0 ? "lost with its host"
                                                     : "could not be started");
    if (json_is_true(json_object_get(event, "oom")))
        rg_buf_printf(page, ", for lack of memory");
    if (*rg_recorded_text(event, "note")) {
        rg_buf_printf(page, ": ");
        rg_html_text(page, rg_recorded_text(event, "note"));
    }
}

static void put_fault(struct rg_buf *page, const json_t *event)
{
    rg_html_text(page, rg_recorded_text(event, "action"));
    if (json_is_integer(json_object_get(event, "rank")))
        rg_buf_printf(page, " rank %.0f", rg_recorded_number(event, "rank"));
    rg_buf_printf(page, " on ");
    rg_html_text(page, rg_recorded_text(event, "host"));
    rg_buf_printf(page, ", as --chaos says");
}

/* Who was waited for most of the time, and why, if that is known. */
static void put_waits(struct rg_buf *page, const json_t *event)
{
    if (json_is_integer(json_object_get(event, "rank")))
        rg_buf_printf(page, "rank %.0f", rg_recorded_number(event, "rank"));
    if (*rg_recorded_text(event, "host")) {
        rg_buf_printf(page, " on ");
        rg_html_text(page, rg_recorded_text(event, "host"));
    }
    rg_buf_printf(page, ": %.0f %% of the time", 100 * rg_recorded_number(event, "share"));
    if (*rg_recorded_text(event, "cause")) {
        rg_buf_printf(page, ", ");
        rg_html_text(page, rg_recorded_text(event, "cause"));
    }
}

static void put_event(struct rg_buf *page, const json_t *event, const char *kind, bool place)
{
    if (strcmp(kind, "end") == 0) {
        put_end(page, event, place);
    } else if (strcmp(kind, "fault") == 0) {
        put_fault(page, event);
    } else if (strcmp(kind, "waits") == 0) {
        put_waits(page, event);
    } else if (strcmp(kind, "epoch") == 0) {
        rg_buf_printf(page, "epoch %.0f: %.0f ranks", rg_recorded_number(event, "epoch"),
                      rg_recorded_number(event, "size"));
    } else if (strcmp(kind, "restart") == 0) {
        rg_buf_printf(page, "restart %.0f: ", rg_recorded_number(event, "restart"));
        rg_html_text(page, rg_recorded_text(event, "cause"));
    } else {
        if (json_is_integer(json_object_get(event, "rank")))
            rg_buf_printf(page, "rank %.0f: ", rg_recorded_number(event, "rank"));
        rg_html_text(page, rg_recorded_text(event, "text"));
    }
}

static void put_happened(struct rg_buf *page, const struct rg_report_run *run, const json_t *event,
                         const char *kind)
{
    char words[RG_HTML_WORD];
    double s = rg_recorded_number(event, "time") - run->record->began_s;

    rg_buf_printf(page, "<li><b class=\"at\">%s</b><b class=\"kind %s\">%s</b><span>",
                  rg_html_seconds(s > 0 ? s : 0, words), kind, kind);
    put_event(page, event, kind, run->record->elastic);
    rg_buf_printf(page, "</span></li>\n");
}

void rg_report_happened(struct rg_buf *page, const struct rg_report_run *run)
{
    const json_t *event;
    size_t i, n = 0, nconsequences = 0;

    json_array_foreach(run->record->events, i, event) {
        const char *kind = kind_of(event);
        nconsequences += json_is_true(json_object_get(event, "consequence"));
        if (!kind || ++n > EVENTS_MAX)
            continue;
        if (n == 1)
            rg_buf_printf(page, "<section><h2>What happened</h2>\n<ol class=\"happened\">\n");
        if (n == OPEN_EVENTS + 1)
            rg_buf_printf(page, "</ol>\n<details><summary>what came after that</summary>"
                                "<ol class=\"happened\">\n");
        put_happened(page, run, event, kind);
    }
    if (n == 0)
        return;
    rg_buf_printf(page, "</ol>%s\n", n > OPEN_EVENTS ? "</details>" : "");
    if (nconsequences)
        rg_buf_printf(page, "<p class=\"hint\">%zu rank%s ended as a consequence.</p>\n",
                      nconsequences, nconsequences == 1 ? "" : "s");
    if (n > EVENTS_MAX)
        rg_buf_printf(page, "<p class=\"hint\">%zu more are in the record&#8217;s "
                            "events.jsonl.</p>\n", n - EVENTS_MAX);
    rg_buf_printf(page, "</section>\n");
}

/* --- last lines ------------------------------------------------------------------------------- */

static bool is_tail(const json_t *tail)
{
    return json_array_size(json_object_get(tail, "lines")) > 0;
}

static void put_tail(struct rg_buf *page, const json_t *tail, bool open)
{
    const json_t *line, *rank = json_object_get(tail, "rank");
    size_t i;

    rg_buf_printf(page, "<details%s><summary>", open ? " open=\"open\"" : "");
    if (json_is_integer(rank) && json_integer_value(rank) >= 0)
        rg_buf_printf(page, "rank %lld on ", (long long) json_integer_value(rank));
    else
        rg_buf_printf(page, "a process without a rank on ");
    rg_html_text(page, rg_recorded_text(tail, "host"));
    rg_buf_printf(page, "</summary><pre>");
    json_array_foreach(json_object_get(tail, "lines"), i, line) {
        rg_html_text(page, json_string_value(line) ? json_string_value(line) : "");
        rg_buf_printf(page, "\n");
    }
    rg_buf_printf(page, "</pre></details>\n");
}

/* The rank that failed first, and else the first ones. */
static bool is_open(const struct rg_report_run *run, const json_t *tail, size_t n)
{
    const json_t *first = json_object_get(run->record->verdict, "first");

    if (json_is_integer(first))
        return json_equal(first, json_object_get(tail, "place"));
    return n < OPEN_TAILS;
}

void rg_report_tails(struct rg_buf *page, const struct rg_report_run *run)
{
    const json_t *tail;
    size_t i, n = 0;

    for (int folded = 0; folded < 2; folded++) {
        size_t before = n, seen = 0;
        json_array_foreach(run->record->tails, i, tail) {
            if (!is_tail(tail) || is_open(run, tail, seen++) == folded)
                continue;
            if (n == 0)
                rg_buf_printf(page, "<section><h2>Last lines</h2>\n");
            if (folded && n == before)
                rg_buf_printf(page, "<details class=\"fold\"><summary>the other ranks</summary>\n");
            put_tail(page, tail, !folded);
            n++;
        }
        if (folded && n > before)
            rg_buf_printf(page, "</details>\n");
    }
    if (n > 0)
        rg_buf_printf(page, "</section>\n");
}
