/* SPDX-License-Identifier: Apache-2.0 */
/* The table, for eyes and for awk, and the JSON document, for everything else. */
#include "cmd/bench/report/report.h"

#include <stdio.h>
#include <string.h>

#include "base/say.h"
#include "head/console/json.h"
#include "reigen/reigen.h"

#define BOLD "\033[1m"
#define RED "\033[31m"
#define GREEN "\033[32m"
#define PLAIN "\033[0m"
#define US 1e6

int rg_report_add(struct rg_report *report, const struct rg_measure_row *row)
{
    int r = rg_grow(&report->rows, &report->capacity, report->nrows + 1);

    if (r == 0)
        report->rows[report->nrows++] = *row;
    return r;
}

void rg_report_fini(struct rg_report *report)
{
    free(report->rows);
    report->rows = NULL;
    report->nrows = report->capacity = 0;
}

const char *rg_report_operation(const struct rg_bench_case *what, char *buf, size_t room)
{
    const struct rg_bench_op_info *info = &rg_bench_ops[what->op];
    char group[32] = "";

    if (what->group > 1 && info->data)
        snprintf(group, sizeof(group), " x%d%s", what->group, what->separate ? " separate" : "");
    snprintf(buf, room, "%s%s%s%s%s", info->name, info->reduces ? " " : "",
             info->reduces ? rg_bench_reductions[what->reduction] : "",
             what->in_place ? " in place" : "", group);
    return buf;
}

/* --- the table -------------------------------------------------------------------------------- */

void rg_report_head(struct rg_buf *text, const struct rg_report *report, bool colour)
{
    rg_shown_printf(text, "# reigen %s: %d rank%s on %d host%s\n", report->version, report->nranks,
                    report->nranks == 1 ? "" : "s", report->nhosts, report->nhosts == 1 ? "" : "s");
    for (const char *p = report->described ? report->described : ""; *p;) {
        int n = (int) strcspn(p, "\n");
        rg_shown_printf(text, "# %.*s\n", n, p);
        p += n + (p[n] == '\n');
    }
    rg_buf_printf(text, "# time: median, least and largest of the ranks, in us; bandwidths in "
                        "10^9 bytes/s\n");
    if (colour)
        rg_buf_printf(text, BOLD);
    rg_buf_printf(text, "%12s %11s %8s  %-24s %11s %11s %11s %8s %8s %6s", "bytes", "count", "type",
                  "operation", "time", "min", "max", "algbw", "busbw", "wrong");
    for (int i = 1; i < report->nmeasured; i++)
        rg_buf_printf(text, " %11s  ratio", report->names[i]);
    rg_buf_printf(text, "%s\n", colour ? PLAIN : "");
}

static const char *time_text(double seconds, char buf[16])
{
    double us = seconds * US;

    snprintf(buf, 16, us < 100 ? "%.2f" : us < 10000 ? "%.1f" : "%.0f", us);
    return buf;
}

static const char *bandwidth_text(double gbps, char buf[16])
{
    snprintf(buf, 16, gbps == 0 ? "-" : gbps < 0.0001 ? "%.1e" : gbps < 1 ? "%.4f" : "%.2f", gbps);
    return buf;
}

static void put_figures(struct rg_buf *text, const struct rg_measure_result *result, bool colour)
{
    char time[16], least[16], most[16], algorithm[16], bus[16];

    if (!result->measured) {
        rg_buf_printf(text, " %11s %11s %11s %8s %8s %6s", "-", "-", "-", "-", "-", "-");
        return;
    }
    rg_buf_printf(text, " %11s %11s %11s %8s %8s", time_text(result->median_s, time),
                  time_text(result->min_s, least), time_text(result->max_s, most),
                  bandwidth_text(result->algorithm_gbps, algorithm),
                  bandwidth_text(result->bus_gbps, bus));
    if (!result->checked)
        rg_buf_printf(text, " %6s", "-");
    else
        rg_buf_printf(text, "%s %6.0f%s", colour && result->nwrong > 0 ? RED : "", result->nwrong,
                      colour && result->nwrong > 0 ? PLAIN : "");
}

/* A peer's time, and Reigen's as a part of it: below 1 Reigen is faster. */
static void put_peer(struct rg_buf *text, const struct rg_measure_result *own,
                     const struct rg_measure_result *peer, bool colour)
{
    char time[16];

    if (peer->measured && !own->measured) {
        rg_buf_printf(text, " %11s %6s", time_text(peer->median_s, time), "-");
        return;
    }
    if (!peer->measured || peer->median_s == 0) {
        rg_buf_printf(text, " %11s %6s", "-", "-");
        return;
    }
    double ratio = own->median_s / peer->median_s;
    rg_buf_printf(text, " %11s %s%6.*f%s", time_text(peer->median_s, time),
                  !colour ? "" : ratio <= 1 ? GREEN : RED, ratio < 0.1 ? 4 : 2, ratio,
                  colour ? PLAIN : "");
}

void rg_report_row(struct rg_buf *text, const struct rg_report *report,
                   const struct rg_measure_row *row, bool colour)
{
    char operation[64];
    bool data = rg_bench_ops[row->what.op].data;

    rg_buf_printf(text, "%12zu %11zu %8s  %-24s", row->what.nbytes, row->what.count,
                  data ? rg_bench_types[row->what.type].name : "-",
                  rg_report_operation(&row->what, operation, sizeof(operation)));
    put_figures(text, &row->results[0], colour);
    for (int i = 1; i < report->nmeasured; i++)
        put_peer(text, &row->results[0], &row->results[i], colour);
    rg_buf_printf(text, "\n");
}

/* Whether a row before has the same note of the same one. */
static bool is_noted(const struct rg_report *report, size_t row, int measured)
{
    const char *note = report->rows[row].results[measured].note;
    bool noted = false;

    for (size_t i = 0; i < row && !noted; i++)
        noted = strcmp(report->rows[i].results[measured].note, note) == 0;
    return noted;
}

void rg_report_notes(struct rg_buf *text, const struct rg_report *report)
{
    for (size_t i = 0; i < report->nrows; i++) {
        for (int k = 0; k < report->nmeasured; k++) {
            const char *note = report->rows[i].results[k].note;
            if (*note && !is_noted(report, i, k))
                rg_shown_printf(text, "# %s\n", note);
        }
    }
}

/* --- the cost model --------------------------------------------------------------------------- */

/* The model's name for an operation, or -1. */
static int kind_of(enum rg_bench_op op)
{
    switch (op) {
    case RG_BENCH_ALLREDUCE: return RG_MODEL_ALLREDUCE;
    case RG_BENCH_ALLGATHER:
    case RG_BENCH_ALLGATHER_INTO: return RG_MODEL_ALLGATHER;
    case RG_BENCH_BROADCAST: return RG_MODEL_BROADCAST;
    case RG_BENCH_ALLTOALL: return RG_MODEL_ALLTOALL;
    case RG_BENCH_REDUCESCATTER:
    case RG_BENCH_REDUCESCATTER_INTO: return RG_MODEL_REDUCESCATTER;
    default: return -1;
    }
}

/* False where the model says nothing of this row. */
static bool find_sample(const struct rg_report *report, const struct rg_measure_row *row,
                        struct rg_fit_sample *ret_sample)
{
    int kind = kind_of(row->what.op);

    if (kind < 0 || row->what.group > 1 || row->what.reduction == REIGEN_ADASUM ||
        rg_bench_types[row->what.type].nbytes != 4 || !row->results[0].measured ||
        row->results[0].median_s <= 0 || report->nranks < 2 || report->nranks % report->nhosts)
        return false;
    *ret_sample = (struct rg_fit_sample){
        .task = { .kind = (enum rg_model_kind) kind, .nhosts = report->nhosts,
                  .ranks_per_host = report->nranks / report->nhosts, .nbytes = row->what.nbytes },
        .ns = row->results[0].median_s * 1e9,
    };
    return true;
}

size_t rg_report_samples(const struct rg_report *report, struct rg_fit_sample *ret_samples)
{
    size_t n = 0;

    for (size_t i = 0; i < report->nrows; i++)
        n += find_sample(report, &report->rows[i], &ret_samples[n]);
    return n;
}

void rg_report_fit(struct rg_buf *text, const struct rg_report *report,
                   const struct rg_model *model)
{
    rg_buf_printf(text,
                  "# the model with the fitted parameters, us\n%12s  %-24s %11s %11s %7s\n",
                  "bytes", "operation", "measured", "predicted", "ratio");
    for (size_t i = 0; i < report->nrows; i++) {
        const struct rg_measure_row *row = &report->rows[i];
        struct rg_fit_sample sample;
        char operation[64], measured[16], predicted[16];
        if (!find_sample(report, row, &sample))
            continue;
        double ns = rg_fit_predict(model, &sample.task);
        rg_buf_printf(text, "%12zu  %-24s %11s %11s %7.2f\n", row->what.nbytes,
                      rg_report_operation(&row->what, operation, sizeof(operation)),
                      time_text(sample.ns / 1e9, measured), time_text(ns / 1e9, predicted),
                      ns / sample.ns);
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *result_json(const struct rg_measure_result *result)
{
    if (!result->measured)
        return json_pack("{s:n, s:o}", "time_us", "note", rg_json_text(result->note));
    return json_pack("{s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:o}", "time_us", result->median_s * US,
                     "min_us", result->min_s * US, "max_us", result->max_s * US, "p10_us",
                     result->tenth_s * US, "iterations", result->niterations, "algorithm_GBps",
                     result->algorithm_gbps, "bus_GBps", result->bus_gbps, "wrong",
                     result->checked ? json_integer((json_int_t) result->nwrong) : json_null());
}

static json_t *row_json(const struct rg_report *report, const struct rg_measure_row *row)
{
    const struct rg_bench_op_info *info = &rg_bench_ops[row->what.op];
    json_t *results = json_object();
    struct rg_fit_sample sample;
    bool predicted = report->fitted && find_sample(report, row, &sample);

    for (int i = 0; i < report->nmeasured; i++)
        json_object_set_new(results, report->names[i], result_json(&row->results[i]));
    return json_pack("{s:s, s:s?, s:s?, s:I, s:I, s:i, s:b, s:b, s:o, s:o}", "operation",
                     info->name, "type", info->data ? rg_bench_types[row->what.type].name : NULL,
                     "reduction",
                     info->reduces ? rg_bench_reductions[row->what.reduction] : NULL, "bytes",
                     (json_int_t) row->what.nbytes, "count", (json_int_t) row->what.count, "group",
                     row->what.group, "in_place", row->what.in_place, "separate",
                     row->what.separate, "results", results, "predicted_us",
                     predicted ? json_real(rg_fit_predict(report->fitted, &sample.task) / 1e3)
                               : json_null());
}

static json_t *lines_json(const char *lines)
{
    json_t *list = json_array();

    for (const char *p = lines ? lines : ""; *p;) {
        size_t n = strcspn(p, "\n");
        rg_autofree char *line = strndup(p, n);
        json_array_append_new(list, rg_json_text(line));
        p += n + (p[n] == '\n');
    }
    return list;
}

void rg_report_json(struct rg_buf *text, const struct rg_report *report)
{
    json_t *rows = json_array();

    for (size_t i = 0; i < report->nrows; i++)
        json_array_append_new(rows, row_json(report, &report->rows[i]));
    rg_json_put(text, json_pack("{s:s, s:i, s:i, s:i, s:o, s:o}", "version", report->version,
                                "ranks", report->nranks, "hosts", report->nhosts, "rounds",
                                report->rounds, "runtime", lines_json(report->described),
                                "rows", rows),
                JSON_INDENT(1) | JSON_REAL_PRECISION(9));
}
