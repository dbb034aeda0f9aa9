/* SPDX-License-Identifier: Apache-2.0 */
/* Who ran where, how long each host took to be ready, and what each rank did. */
#include "cmd/report/places.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report/html.h"
#include "head/show/events.h"

#define OPEN_HOSTS 12 /* what follows is folded */
#define OPEN_RANKS 16

/* --- the start -------------------------------------------------------------------------------- */

/* When it came to the next phase that it came to; end_s where it came to none. */
static double next_s(const struct rg_recorded_host *host, int phase, double end_s)
{
    double next = end_s;

    for (int p = phase + 1; p < RG_RECORDED_PHASES; p++) {
        if (host->at[p] > 0 && host->at[p] >= host->at[phase])
            next = fmin(next, host->at[p]);
    }
    return next;
}

static double ready_s(const struct rg_recorded_host *host)
{
    return host->at[RG_PHASE_READY] > 0 ? host->at[RG_PHASE_READY] : host->at[RG_PHASE_RUNNING];
}

struct start {
    double at_s, end_s;
};

/* The slowest first. */
static int by_ready(const void *a, const void *b)
{
    const struct rg_recorded_host *const *x = a, *const *y = b;
    double rx = ready_s(*x), ry = ready_s(*y);

    rx = rx > 0 ? rx : 1e300;
    ry = ry > 0 ? ry : 1e300;
    return rx < ry ? 1 : rx > ry ? -1 : 0;
}

static void put_phases(struct rg_buf *page, const struct rg_recorded_host *host,
                       const struct start *start)
{
    double span = start->end_s - start->at_s;
    char words[RG_HTML_WORD];

    for (int phase = 0; phase <= RG_PHASE_READY; phase++) {
        double from = host->at[phase], to = next_s(host, phase, start->end_s);
        if (from <= 0 || from > start->end_s || to <= from)
            continue;
        double left = fmax(from - start->at_s, 0) / span * 100;
        rg_buf_printf(page, "<i class=\"p%d\" style=\"left:%.2f%%;width:%.2f%%\" title=\"%s: %s\">"
                            "</i>", phase, left, fmin((to - from) / span * 100, 100 - left),
                      rg_phase_name(phase), rg_html_seconds(to - from, words));
    }
}

static void put_host_start(struct rg_buf *page, const struct rg_recorded_host *host,
                           const struct start *start)
{
    char words[RG_HTML_WORD];

    rg_buf_printf(page, "<div class=\"start\"><span class=\"who\">");
    rg_html_text(page, host->name);
    rg_buf_printf(page, "</span><span class=\"phases\">");
    put_phases(page, host, start);
    rg_buf_printf(page, "</span><span class=\"value\">%s</span>", ready_s(host) > 0
                  ? rg_html_seconds(ready_s(host) - start->at_s, words) : "not ready");
    if (*host->reason && ready_s(host) <= 0) {
        rg_buf_printf(page, "<span class=\"reason\">");
        rg_html_text(page, host->reason);
        rg_buf_printf(page, "</span>");
    }
    rg_buf_printf(page, "</div>\n");
}

static bool has_phase(const struct rg_recorded *record, int phase)
{
    for (size_t i = 0; i < record->nhosts; i++) {
        if (record->hosts[i].at[phase] > 0)
            return true;
    }
    return false;
}

static void put_legend(struct rg_buf *page, const struct rg_recorded *record)
{
    rg_buf_printf(page, "<p class=\"hint\">Until a host was ready, the slowest first:");
    for (int phase = 0; phase <= RG_PHASE_READY; phase++) {
        if (has_phase(record, phase))
            rg_buf_printf(page, " <span class=\"key p%d\">%s</span>", phase, rg_phase_name(phase));
    }
    rg_buf_printf(page, "</p>\n");
}

/* Until all ranks were told to start; where they never were, until the last that is known of it. */
static struct start find_start(const struct rg_recorded *record)
{
    const struct rg_recorded_start *last = &record->starts[record->nstarts - 1];
    struct start start = { last->at_s, last->running_s > 0 ? last->running_s : record->last_s };

    return start;
}

/* How long it took until all of them had called init; 0: that is not known. */
static double until_init_s(const struct rg_recorded *record, const struct start *start)
{
    for (size_t i = 0; i < record->nsamples && record->np > 0; i++) {
        const struct rg_recorded_sample *sample = &record->samples[i];
        if (sample->start + 1 == (int) record->nstarts && sample->nrows >= (size_t) record->np)
            return fmax(sample->at_s - start->at_s, 0);
    }
    return 0;
}

static void put_told(struct rg_buf *page, const struct rg_recorded *record,
                     const struct start *start)
{
    double told_s = record->starts[record->nstarts - 1].running_s - start->at_s;
    double init_s = until_init_s(record, start);
    char words[RG_HTML_WORD];

    if (told_s <= 0)
        return;
    rg_buf_printf(page, "<p>The ranks were started after %s", rg_html_seconds(told_s, words));
    if (init_s > 0)
        rg_buf_printf(page, "; all of them had called init after %s, give or take a second",
                      rg_html_seconds(init_s, words));
    rg_buf_printf(page, ".</p>\n");
}

void rg_report_start(struct rg_buf *page, const struct rg_report_run *run)
{
    const struct rg_recorded *record = run->record;
    rg_autofree const struct rg_recorded_host **hosts = calloc(record->nhosts + 1, sizeof(*hosts));
    size_t n = 0;

    if (!hosts || record->nstarts == 0)
        return;
    for (size_t i = 0; i < record->nhosts; i++) {
        const double *at = record->hosts[i].at;
        if (at[RG_PHASE_PENDING] + at[RG_PHASE_STARTING] + at[RG_PHASE_PULLING] +
            at[RG_PHASE_CONNECTING] + at[RG_PHASE_READY] > 0)
            hosts[n++] = &record->hosts[i];
    }
    const struct start start = find_start(record);
    if (n == 0 || start.end_s <= start.at_s)
        return;
    qsort(hosts, n, sizeof(*hosts), by_ready);
    rg_buf_printf(page, "<section><h2>The start</h2>\n");
    put_told(page, record, &start);
    put_legend(page, record);
    for (size_t i = 0; i < n; i++) {
        if (i == OPEN_HOSTS)
            rg_buf_printf(page, "<details><summary>%zu more hosts, which were faster</summary>\n",
                          n - i);
        put_host_start(page, hosts[i], &start);
    }
    rg_buf_printf(page, "%s</section>\n", n > OPEN_HOSTS ? "</details>\n" : "");
}

/* --- hosts ------------------------------------------------------------------------------------ */

/* Of each rank its host, by number: of an elastic job those of its last epoch. */
static int *find_places(const struct rg_recorded *record, size_t *ret_count)
{
    const json_t *event, *ranks = NULL, *name;
    size_t i, n = record->nranks;

    json_array_foreach(record->events, i, event) {
        if (strcmp(rg_recorded_text(event, "event"), "epoch") == 0)
            ranks = json_object_get(event, "ranks");
    }
    n = record->elastic ? json_array_size(ranks) : n;
    int *places = calloc(n + 1, sizeof(*places));
    for (i = 0; places && i < n; i++)
        places[i] = record->elastic ? -1 : record->ranks[i].host;
    json_array_foreach(record->elastic ? ranks : NULL, i, name) {
        for (size_t h = 0; places && h < record->nhosts; h++) {
            if (json_string_value(name) &&
                strcmp(record->hosts[h].name, json_string_value(name)) == 0)
                places[i] = (int) h;
        }
    }
    *ret_count = places ? n : 0;
    return places;
}

/* "0-3, 8": of this host. */
static void put_runs(struct rg_buf *page, const int *places, size_t n, int host)
{
    const char *comma = "";

    for (size_t i = 0; i < n; i++) {
        size_t first = i;
        if (places[i] != host)
            continue;
        while (i + 1 < n && places[i + 1] == host)
            i++;
        rg_buf_printf(page, i > first ? "%s%zu&#8211;%zu" : "%s%zu", comma, first, i);
        comma = ", ";
    }
    rg_buf_printf(page, "%s", *comma ? "" : "&#8211;");
}

struct host_sum {
    double steps_per_s, communication, causing, nbytes_per_s, cpu, resident;
    size_t nrated;
};

static struct host_sum *sum_hosts(const struct rg_report_run *run)
{
    struct host_sum *sums = calloc(run->record->nhosts + 1, sizeof(*sums));

    for (size_t i = 0; sums && i < run->figures->nranks; i++) {
        const struct rg_figures_rank *rank = &run->figures->ranks[i];
        if (rank->host < 0 || (size_t) rank->host >= run->record->nhosts || rank->seen_s <= 0)
            continue;
        struct host_sum *sum = &sums[rank->host];
        sum->nrated++;
        sum->steps_per_s += rank->steps_per_s;
        sum->communication += rank->communication;
        sum->causing += rank->causing;
        sum->nbytes_per_s += rank->nbytes_per_s;
        sum->cpu += rank->cpu;
        sum->resident += rank->resident;
    }
    return sums;
}

static void put_cell(struct rg_buf *page, bool there, const char *text)
{
    rg_buf_printf(page, "<td>%s</td>", there ? text : "&#8211;");
}

static void put_host_sum(struct rg_buf *page, const struct host_sum *sum)
{
    double n = sum->nrated ? (double) sum->nrated : 1;
    char words[RG_HTML_WORD];
    bool there = sum->nrated > 0;

    put_cell(page, there, rg_html_number(sum->steps_per_s / n, words));
    put_cell(page, there, rg_html_share(sum->communication / n, words));
    put_cell(page, there, rg_html_waited(sum->causing, words));
    put_cell(page, there, rg_html_bytes_per_s(sum->nbytes_per_s, words));
    put_cell(page, there, rg_html_number(sum->cpu, words));
    put_cell(page, there && sum->resident > 0, rg_html_bytes(sum->resident, words));
}

static const char figures_head[] =
    "<th>steps/s</th><th>communication</th><th>caused</th><th>payload</th><th>CPU</th>"
    "<th>memory</th>";

void rg_report_hosts(struct rg_buf *page, const struct rg_report_run *run)
{
    const struct rg_recorded *record = run->record;
    size_t n;
    rg_autofree int *places = find_places(record, &n);
    rg_autofree struct host_sum *sums = sum_hosts(run);

    if (record->nhosts == 0 || !places || !sums)
        return;
    rg_buf_printf(page, "<section><h2>Who ran where</h2>\n<details%s><summary>%zu host%s</summary>"
                        "\n<div class=\"scroll\"><table><thead><tr><th class=\"word\">host</th>"
                        "<th class=\"word\">ranks%s</th>%s</tr></thead>\n",
                  record->nhosts <= OPEN_HOSTS ? " open=\"open\"" : "", record->nhosts,
                  record->nhosts == 1 ? "" : "s", record->elastic ? " at the end" : "",
                  figures_head);
    for (size_t h = 0; h < record->nhosts; h++) {
        rg_buf_printf(page, "<tr><td class=\"word\">");
        rg_html_text(page, record->hosts[h].name);
        rg_buf_printf(page, "</td><td class=\"word\">");
        put_runs(page, places, n, (int) h);
        rg_buf_printf(page, "</td>");
        put_host_sum(page, &sums[h]);
        rg_buf_printf(page, "</tr>\n");
    }
    rg_buf_printf(page, "</table></div></details>\n");
    rg_buf_printf(page, "<p class=\"hint\">Caused: how long other ranks waited for it in each "
                        "second, all together. CPU: processors that were kept busy. Memory: the "
                        "most.</p></section>\n");
}

/* --- ranks ------------------------------------------------------------------------------------ */

static void put_how_ended(struct rg_buf *page, const struct rg_recorded_rank *rank)
{
    const char *how = rg_recorded_text(rank->end, "how");

    if (!rank->end)
        rg_buf_printf(page, "&#8211;");
    else if (strcmp(how, "exit") == 0)
        rg_buf_printf(page, "exit %.0f", rg_recorded_number(rank->end, "value"));
    else if (strcmp(how, "signal") == 0)
        rg_buf_printf(page, "signal %.0f", rg_recorded_number(rank->end, "value"));
    else
        rg_html_text(page, how);
}

/* What is known of its process; in an elastic job that has a place, and no fixed number. */
static void put_process(struct rg_buf *page, const struct rg_recorded *record, size_t i,
                        bool bound)
{
    const struct rg_recorded_rank *rank = i < record->nranks ? &record->ranks[i] : NULL;

    rg_buf_printf(page, "<td class=\"word\">");
    if (rank && rank->host >= 0)
        rg_html_text(page, record->hosts[rank->host].name);
    rg_buf_printf(page, "</td><td>");
    if (rank && rank->pid)
        rg_buf_printf(page, "%d", rank->pid);
    rg_buf_printf(page, "</td>%s", bound ? "<td class=\"word\">" : "");
    if (rank && rank->cpus)
        rg_html_text(page, rank->cpus);
    rg_buf_printf(page, "%s<td class=\"word\">", bound ? "</td>" : "");
    if (rank)
        put_how_ended(page, rank);
    rg_buf_printf(page, "</td>");
}

static void put_figures(struct rg_buf *page, const struct rg_figures_rank *rank)
{
    char words[RG_HTML_WORD];
    bool rated = rank && rank->seen_s > 0;

    put_cell(page, rank, rank ? rg_html_number(rank->steps, words) : "");
    put_cell(page, rated, rated ? rg_html_number(rank->steps_per_s, words) : "");
    put_cell(page, rated, rated ? rg_html_share(rank->communication, words) : "");
    put_cell(page, rated, rated ? rg_html_waited(rank->causing, words) : "");
    put_cell(page, rated, rated ? rg_html_bytes_per_s(rank->nbytes_per_s, words) : "");
    put_cell(page, rated, rated ? rg_html_number(rank->cpu, words) : "");
    put_cell(page, rank && rank->resident > 0, rank ? rg_html_bytes(rank->resident, words) : "");
}

static const struct rg_figures_rank *figures_of(const struct rg_figures *figures, size_t rank,
                                                size_t *at)
{
    while (*at < figures->nranks && (size_t) figures->ranks[*at].rank < rank)
        ++*at;
    return *at < figures->nranks && (size_t) figures->ranks[*at].rank == rank
               ? &figures->ranks[*at] : NULL;
}

static bool is_bound(const struct rg_recorded *record)
{
    for (size_t i = 0; i < record->nranks; i++) {
        if (record->ranks[i].cpus)
            return true;
    }
    return false;
}

static void put_table(struct rg_buf *page, const struct rg_report_run *run, bool processes,
                      bool figures, size_t n)
{
    bool bound = is_bound(run->record);
    size_t at = 0;

    rg_buf_printf(page, "<div class=\"scroll\"><table><thead><tr><th>%s</th>%s%s%s%s%s</tr>"
                        "</thead>\n", figures ? "rank" : "place",
                  processes ? "<th class=\"word\">host</th><th>process</th>" : "",
                  processes && bound ? "<th class=\"word\">bound to</th>" : "",
                  processes ? "<th class=\"word\">ended</th>" : "",
                  figures ? "<th>steps</th>" : "", figures ? figures_head : "");
    for (size_t i = 0; i < n; i++) {
        rg_buf_printf(page, "<tr><td>%zu</td>", i);
        if (processes)
            put_process(page, run->record, i, bound);
        if (figures)
            put_figures(page, figures_of(run->figures, i, &at));
        rg_buf_printf(page, "</tr>\n");
    }
    rg_buf_printf(page, "</table></div>\n");
}

static void put_folded(struct rg_buf *page, const struct rg_report_run *run, const char *what,
                       bool processes, bool figures, size_t n)
{
    if (n == 0)
        return;
    rg_buf_printf(page, "<details%s><summary>%zu %s%s</summary>\n",
                  n <= OPEN_RANKS ? " open=\"open\"" : "", n, what,
                  n == 1 ? "" : *what == 'p' ? "es" : "s");
    put_table(page, run, processes, figures, n);
    rg_buf_printf(page, "</details>\n");
}

void rg_report_ranks(struct rg_buf *page, const struct rg_report_run *run)
{
    const struct rg_figures *figures = run->figures;
    size_t told = figures->nranks ? (size_t) figures->ranks[figures->nranks - 1].rank + 1 : 0;
    size_t nranks = run->record->nranks;

    if (told == 0 && nranks == 0)
        return;
    rg_buf_printf(page, "<section><h2>Rank by rank</h2>\n");
    if (run->record->elastic) {
        put_folded(page, run, "rank", false, true, told);
        put_folded(page, run, "process", true, false, nranks);
    } else {
        put_folded(page, run, "rank", true, true, told > nranks ? told : nranks);
    }
    rg_buf_printf(page, "</section>\n");
}
