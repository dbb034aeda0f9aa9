/* SPDX-License-Identifier: Apache-2.0 */
/* A line has a row for each rank, so it is the ranks that make a record large, and the more there
 * are the fewer samples it keeps. */
#include "head/record/samples.h"

#include <errno.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/time.h"
#include "head/record/files.h"

#define NBYTES_MAX (8u << 20) /* of all samples, about */
#define ROW_NBYTES 110
#define LEAST 16
#define MOST 720

size_t rg_record_samples_max(int nranks)
{
    size_t n = NBYTES_MAX / (ROW_NBYTES * ((size_t) (nranks > 0 ? nranks : 1) + 2));

    return n < LEAST ? LEAST : n > MOST ? MOST : n;
}

/* --- a line ----------------------------------------------------------------------------------- */

static void put_seconds(struct rg_buf *line, uint64_t ns)
{
    rg_buf_printf(line, ",%.6f", (double) ns / 1e9);
}

static void put_row(struct rg_buf *line, const struct rg_session_rank *told, bool first)
{
    const struct rg_numbers *n = &told->numbers;

    rg_buf_printf(line, "%s[%u,%d,%llu,%llu,%llu", first ? "" : ",", n->rank, told->host,
                  (unsigned long long) n->operations, (unsigned long long) n->nbytes,
                  (unsigned long long) n->steps);
    put_seconds(line, told->age_ns);
    put_seconds(line, n->step_ns);
    put_seconds(line, n->blocked_ns);
    put_seconds(line, n->waited_ns);
    put_seconds(line, n->caused_ns);
    put_seconds(line, n->cpu_ns);
    rg_buf_printf(line, ",%llu,%d]", (unsigned long long) n->resident_nbytes, told->ended);
}

/* In the order of put_row. */
static const char columns[] = "\"columns\":[\"rank\",\"host\",\"operations\",\"bytes\",\"steps\","
                              "\"age_s\",\"step_s\",\"blocked_s\",\"waited_s\",\"caused_s\","
                              "\"cpu_s\",\"resident_bytes\",\"ended\"]";

/* How many ranks there is something of. */
static int put_rows(struct rg_buf *line, const struct rg_metrics_state *state)
{
    struct rg_session_rank told;
    int n = 0;

    rg_buf_printf(line, ",%s,\"rows\":[", columns);
    for (int place = 0; place < state->plan->nranks; place++) {
        if (rg_session_numbers(state->session, place, &told))
            put_row(line, &told, n++ == 0);
    }
    rg_buf_printf(line, "],\"hosts\":[");
    for (int host = 0; host < state->plan->nhosts; host++) {
        rg_buf_printf(line, host ? "," : "");
        rg_json_put_text(line, state->plan->hosts[host].name);
    }
    rg_buf_printf(line, "]}\n");
    return n;
}

/* --- many of them ----------------------------------------------------------------------------- */

static bool ends_a_life(const struct rg_record_samples *samples, size_t i)
{
    const struct rg_record_sample *v = samples->v;

    return i + 1 < samples->count &&
           (v[i].start != v[i + 1].start || v[i].epoch != v[i + 1].epoch);
}

static void thin_out(struct rg_record_samples *samples, size_t max)
{
    size_t kept = 0;

    for (size_t i = 0; i < samples->count; i++) {
        bool keep = i % 2 == 0 || i + 1 == samples->count ||
                    (ends_a_life(samples, i) && kept < max * 3 / 4);
        if (keep)
            samples->v[kept++] = samples->v[i];
        else
            rg_buf_fini(&samples->v[i].line);
    }
    samples->count = kept;
    samples->every_ms *= 2;
}

static int write_all(const struct rg_record_samples *samples, struct rg_record_folder *folder)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    for (size_t i = 0; i < samples->count; i++)
        rg_buf_put(&text, rg_buf_bytes(&samples->v[i].line), rg_buf_nbytes(&samples->v[i].line));
    return rg_record_folder_replace(folder, RG_RECORD_SAMPLES, &text);
}

int rg_record_samples_add(struct rg_record_samples *samples, struct rg_record_folder *folder,
                          int nranks, struct rg_record_sample *take_sample)
{
    size_t max = rg_record_samples_max(nranks);
    int r = rg_grow(&samples->v, &samples->room, samples->count + 1);
    bool many = r == 0 && samples->count >= max;

    if (r < 0) {
        rg_buf_fini(&take_sample->line);
        return r;
    }
    samples->v[samples->count++] = *take_sample;
    if (many)
        thin_out(samples, max);
    r = many || samples->behind
            ? write_all(samples, folder)
            : rg_record_folder_add(folder, RG_RECORD_SAMPLES, &take_sample->line);
    samples->behind = r < 0;
    return r < 0 ? r : many;
}

int rg_record_samples_take(struct rg_record_samples *samples, struct rg_record_folder *folder,
                           const struct rg_metrics_state *state)
{
    struct rg_session_counts counts = { .epoch = 0 };
    struct rg_record_sample sample = { .start = state->restarts };

    if (!state->session || !state->plan)
        return 0;
    rg_session_count(state->session, &counts);
    sample.epoch = counts.epoch;
    rg_buf_printf(&sample.line, "{\"time\":%.6f,\"start\":%d,\"epoch\":%u,\"running\":%d",
                  (double) rg_wall_ns() / 1e9, sample.start, sample.epoch,
                  counts.ranks[RG_RANKS_RUNNING]);
    int n = put_rows(&sample.line, state);
    if (n > 0 && rg_buf_status(&sample.line) == 0)
        return rg_record_samples_add(samples, folder, n, &sample);
    int r = rg_buf_status(&sample.line);
    rg_buf_fini(&sample.line);
    return r;
}

void rg_record_samples_fini(struct rg_record_samples *samples)
{
    for (size_t i = 0; i < samples->count; i++)
        rg_buf_fini(&samples->v[i].line);
    free(samples->v);
}
