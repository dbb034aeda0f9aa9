/* SPDX-License-Identifier: Apache-2.0 */
/* Lines are read one by one, so that a record without its end is as good as one with it. */
#include "cmd/report/read/reader.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/str.h"
#include "head/record/files.h"
#include "head/show/events.h"
#include "job/job.h"

#define FILE_MAX (256u << 20)
#define NUMBER_MAX 1e18
/* A launcher keeps at most 720 samples, and some 80,000 rows (head/record/samples.c). */
#define SAMPLES_MAX 4096
#define ROWS_MAX 500000

const char *rg_recorded_text(const json_t *event, const char *name)
{
    const char *text = json_string_value(json_object_get(event, name));

    return text ? text : "";
}

static double number_of(const json_t *value)
{
    double number = json_number_value(value);

    return isfinite(number) && number > 0 ? fmin(number, NUMBER_MAX) : 0;
}

double rg_recorded_number(const json_t *event, const char *name)
{
    return number_of(json_object_get(event, name));
}

/* -1: it is none. */
static int index_of(const json_t *value, int max)
{
    json_int_t n = json_is_integer(value) ? json_integer_value(value) : -1;

    return n >= 0 && n < max ? (int) n : -1;
}

/* --- hosts and ranks -------------------------------------------------------------------------- */

/* near: where it is likely to stand. An index, -1: it is too much, or -ENOMEM. */
static int find_host(struct rg_recorded *record, const char *name, size_t near)
{
    if (near < record->nhosts && strcmp(record->hosts[near].name, name) == 0)
        return (int) near;
    for (size_t i = 0; i < record->nhosts; i++) {
        if (strcmp(record->hosts[i].name, name) == 0)
            return (int) i;
    }
    if (record->nhosts >= RG_JOB_HOSTS_MAX)
        return -1;
    if (rg_grow(&record->hosts, &record->hosts_room, record->nhosts + 1) < 0)
        return -ENOMEM;
    record->hosts[record->nhosts] = (struct rg_recorded_host){ .name = name, .reason = "" };
    return (int) record->nhosts++;
}

static struct rg_recorded_rank *find_rank(struct rg_recorded *record, const json_t *event)
{
    int rank = index_of(json_object_get(event, "rank"), RG_JOB_RANKS_MAX);

    if (rank < 0 || rg_grow(&record->ranks, &record->ranks_room, (size_t) rank + 1) < 0)
        return NULL;
    for (; record->nranks <= (size_t) rank; record->nranks++)
        record->ranks[record->nranks] = (struct rg_recorded_rank){ .host = -1 };
    return &record->ranks[rank];
}

/* --- events ----------------------------------------------------------------------------------- */

static void on_record(struct rg_recorded *record, const json_t *event)
{
    record->version = rg_recorded_text(event, "version");
    record->nlost = rg_recorded_number(event, "lost");
}

static void on_job(struct rg_recorded *record, const json_t *event)
{
    record->platform = rg_recorded_text(event, "platform");
    record->cwd = rg_recorded_text(event, "cwd");
    record->image = rg_recorded_text(event, "image");
    record->timeline = rg_recorded_text(event, "timeline");
    record->elastic = json_is_true(json_object_get(event, "elastic"));
}

static int take_command(struct rg_recorded *record, const json_t *event)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    const json_t *word;
    size_t i;

    json_array_foreach(json_object_get(event, "command"), i, word)
        rg_buf_printf(&text, "%s%s", i ? " " : "",
                      json_string_value(word) ? json_string_value(word) : "");
    free(record->command);
    record->command = strdup(rg_buf_text(&text));
    return record->command ? 0 : -ENOMEM;
}

/* What was known of an earlier start is over. */
static int on_start(struct rg_recorded *record, const json_t *event)
{
    const json_t *host;
    size_t i;

    if (rg_grow(&record->starts, &record->starts_room, record->nstarts + 1) < 0)
        return -ENOMEM;
    record->starts[record->nstarts++] = (struct rg_recorded_start){
        .at_s = rg_recorded_number(event, "time"), .job = rg_recorded_text(event, "job"),
    };
    record->np = index_of(json_object_get(event, "ranks"), RG_JOB_RANKS_MAX);
    record->nranks = 0;
    for (i = 0; i < record->nhosts; i++)
        memset(record->hosts[i].at, 0, sizeof(record->hosts[i].at));
    json_array_foreach(json_object_get(event, "hosts"), i, host) {
        int at = find_host(record, rg_recorded_text(host, "name"), i);
        if (at == -ENOMEM)
            return at;
        if (at >= 0)
            record->hosts[at].nranks = index_of(json_object_get(host, "ranks"), RG_JOB_RANKS_MAX);
    }
    return take_command(record, event);
}

static int on_host(struct rg_recorded *record, const json_t *event)
{
    int host = find_host(record, rg_recorded_text(event, "host"), 0);
    const char *reason = rg_recorded_text(event, "reason");

    if (host < 0)
        return host == -ENOMEM ? host : 0;
    if (*reason)
        record->hosts[host].reason = reason;
    for (int phase = 0; phase < RG_RECORDED_PHASES; phase++) {
        double *at = &record->hosts[host].at[phase];
        if (*at == 0 && strcmp(rg_phase_name(phase), rg_recorded_text(event, "phase")) == 0)
            *at = rg_recorded_number(event, "time");
    }
    return 0;
}

static int on_rank(struct rg_recorded *record, const json_t *event, bool ended)
{
    struct rg_recorded_rank *rank = find_rank(record, event);
    int host = find_host(record, rg_recorded_text(event, "host"), 0);

    if (!rank || host < 0)
        return host == -ENOMEM ? host : 0;
    rank->host = host;
    if (ended) {
        rank->ended_s = rg_recorded_number(event, "time");
        rank->end = event;
        return 0;
    }
    *rank = (struct rg_recorded_rank){
        .host = host, .started_s = rg_recorded_number(event, "time"),
        .pid = (int) fmin(rg_recorded_number(event, "pid"), 1e9),
        .cpus = json_string_value(json_object_get(event, "cpus")),
    };
    return 0;
}

static void on_end(struct rg_recorded *record, const json_t *event)
{
    record->ended = true;
    record->exit_code = (int) fmin(rg_recorded_number(event, "exit_code"), 255);
}

static int take_event(struct rg_recorded *record, const json_t *event)
{
    struct rg_recorded_start *start = record->nstarts ? &record->starts[record->nstarts - 1] : NULL;
    const char *name = rg_recorded_text(event, "event");

    if (strcmp(name, "record") == 0)
        on_record(record, event);
    else if (strcmp(name, "job") == 0)
        on_job(record, event);
    else if (strcmp(name, "start") == 0)
        return on_start(record, event);
    else if (strcmp(name, "host") == 0)
        return on_host(record, event);
    else if (strncmp(name, "rank-", 5) == 0)
        return on_rank(record, event, strcmp(name, "rank-ended") == 0);
    else if (strcmp(name, "running") == 0 && start)
        start->running_s = rg_recorded_number(event, "time");
    else if (strcmp(name, "restart") == 0 && start)
        start->failure = event;
    else if (strcmp(name, "verdict") == 0)
        record->verdict = event;
    else if (strcmp(name, "end") == 0)
        on_end(record, event);
    return 0;
}

bool rg_recorded_is_copy(const struct rg_recorded *record)
{
    size_t n = json_array_size(record->events);

    return n && strcmp(rg_recorded_text(json_array_get(record->events, n - 1), "event"),
                       RG_RECORD_COPIED) == 0;
}

/* --- samples ---------------------------------------------------------------------------------- */

/* A record's rows have these columns in this order, and perhaps more behind them. */
static bool take_row(const json_t *row, double at_s, const int *hosts, size_t nhosts,
                     struct rg_recorded_row *ret_row)
{
    double n[13];
    int rank = index_of(json_array_get(row, 0), RG_JOB_RANKS_MAX);
    int host = index_of(json_array_get(row, 1), (int) nhosts);

    if (rank < 0 || json_array_size(row) < rg_array_len(n))
        return false;
    for (size_t i = 0; i < rg_array_len(n); i++)
        n[i] = number_of(json_array_get(row, i));
    *ret_row = (struct rg_recorded_row){
        .rank = rank, .host = host < 0 ? -1 : hosts[host], .at_s = at_s - n[5],
        .operations = n[2], .nbytes = n[3], .steps = n[4], .step_s = n[6], .blocked_s = n[7],
        .waited_s = n[8], .caused_s = n[9], .cpu_s = n[10], .resident = n[11], .ended = n[12] > 0,
    };
    return true;
}

static int by_rank(const void *a, const void *b)
{
    return ((const struct rg_recorded_row *) a)->rank - ((const struct rg_recorded_row *) b)->rank;
}

static int take_rows(const json_t *line, const int *hosts, size_t nhosts,
                     struct rg_recorded_sample *sample)
{
    const json_t *rows = json_object_get(line, "rows");
    size_t n = json_array_size(rows);

    n = n < RG_JOB_RANKS_MAX ? n : RG_JOB_RANKS_MAX;
    sample->rows = calloc(n + 1, sizeof(*sample->rows));
    if (!sample->rows)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        sample->nrows += take_row(json_array_get(rows, i), sample->at_s, hosts, nhosts,
                                  &sample->rows[sample->nrows]);
    qsort(sample->rows, sample->nrows, sizeof(*sample->rows), by_rank);
    return 0;
}

/* As a launcher does it: every second one goes, so that those that stay are of all the time. What
 * follows is taken as it comes, until it is too much again. */
static void thin_out(struct rg_recorded *record)
{
    size_t kept = 0;

    if (record->nsamples <= SAMPLES_MAX && (record->nrows <= ROWS_MAX || record->nsamples < 2))
        return;
    record->nrows = 0;
    for (size_t i = 0; i < record->nsamples; i++) {
        if (i % 2 == 0 || i + 1 == record->nsamples) {
            record->samples[kept++] = record->samples[i];
            record->nrows += record->samples[i].nrows;
        } else {
            free(record->samples[i].rows);
        }
    }
    record->nsamples = kept;
}

/* The names are the line's, which goes: only hosts that an event or an earlier line told of count,
 * or what an elastic job's epochs have. */
static int take_sample(struct rg_recorded *record, json_t *line)
{
    const json_t *names = json_object_get(line, "hosts"), *name;
    size_t i, nhosts = json_array_size(names);
    rg_autofree int *hosts = calloc(nhosts + 1, sizeof(*hosts));
    struct rg_recorded_sample sample = {
        .at_s = rg_recorded_number(line, "time"),
        .start = (int) fmin(rg_recorded_number(line, "start"), 1e9),
        .epoch = (uint32_t) fmin(rg_recorded_number(line, "epoch"), UINT32_MAX),
    };

    if (!hosts || rg_grow(&record->samples, &record->samples_room, record->nsamples + 1) < 0)
        return -ENOMEM;
    json_array_foreach(names, i, name) {
        size_t known = record->nhosts;
        const char *text = json_string_value(name);
        hosts[i] = text ? find_host(record, text, i) : -1;
        if (hosts[i] == -ENOMEM)
            return -ENOMEM;
        if (record->nhosts > known && json_array_append(record->tails, (json_t *) name) < 0)
            return -ENOMEM; /* so the string lives on */
    }
    int r = take_rows(line, hosts, nhosts, &sample);
    if (r == 0) {
        record->samples[record->nsamples++] = sample;
        record->nrows += sample.nrows;
        thin_out(record);
    }
    record->last_s = fmax(record->last_s, sample.at_s);
    return r;
}

/* --- lines ------------------------------------------------------------------------------------ */

static int take_event_line(struct rg_recorded *record, json_t *line)
{
    double at_s = rg_recorded_number(line, "time");

    record->began_s = record->began_s > 0 ? record->began_s : at_s;
    record->last_s = fmax(record->last_s, at_s);
    return json_array_append(record->events, line) < 0 ? -ENOMEM : take_event(record, line);
}

static int take_tail(struct rg_recorded *record, json_t *line)
{
    return json_array_append(record->tails, line) < 0 ? -ENOMEM : 0;
}

static int each_line(struct rg_recorded *record, const char *text,
                     int (*take)(struct rg_recorded *record, json_t *line))
{
    int r = 0;

    while (r == 0 && *text) {
        size_t n = strcspn(text, "\n");
        json_t *line = n ? json_loadb(text, n, 0, NULL) : NULL;
        if (json_is_object(line))
            r = take(record, line);
        else
            record->nskipped++;
        json_decref(line);
        text += n + (text[n] == '\n');
    }
    return r;
}

static int refuse(const struct rg_recorded *record, struct rg_error *err)
{
    const json_t *first = json_array_get(record->events, 0);
    const json_t *version = json_object_get(first, "record");

    if (!json_is_integer(version))
        return rg_error_set_exit(err, EBADMSG, RG_EXIT_USAGE, RG_RECORD_EVENTS " is no record's; "
                                 "reigen run --record DIR makes one");
    if (json_integer_value(version) != RG_RECORD_VERSION)
        return rg_error_set_exit(err, EBADMSG, RG_EXIT_USAGE, "its record is of version %lld, and "
                                 "this reigen reads %d; take the reigen that wrote it, %s",
                                 (long long) json_integer_value(version), RG_RECORD_VERSION,
                                 rg_recorded_text(first, "version"));
    return 0;
}

int rg_recorded_parse(const char *events, const char *samples, const char *tails,
                      struct rg_recorded *ret_record, struct rg_error *err)
{
    struct rg_recorded record = { .events = json_array(), .tails = json_array(), .version = "",
                                  .platform = "", .cwd = "", .image = "", .timeline = "" };
    int r = record.events && record.tails ? 0 : -ENOMEM;

    r = r == 0 ? each_line(&record, events, take_event_line) : r;
    if (r == 0)
        r = refuse(&record, err);
    r = r == 0 ? each_line(&record, samples, take_sample) : r;
    r = r == 0 ? each_line(&record, tails, take_tail) : r;
    if (r == 0 && !record.command && !(record.command = strdup("")))
        r = -ENOMEM;
    if (r < 0)
        rg_recorded_fini(&record);
    else
        *ret_record = record;
    return r == -ENOMEM ? rg_error_memory(err) : r;
}

void rg_recorded_fini(struct rg_recorded *record)
{
    for (size_t i = 0; i < record->nsamples; i++)
        free(record->samples[i].rows);
    free(record->samples);
    free(record->ranks);
    free(record->hosts);
    free(record->starts);
    free(record->command);
    json_decref(record->events);
    json_decref(record->tails);
    *record = (struct rg_recorded){ 0 };
}

/* --- the folder ------------------------------------------------------------------------------- */

static int read_one(const char *dir, const char *name, char **ret_text, struct rg_error *err)
{
    rg_autofree char *path = rg_strf("%s/%s", dir, name);
    int r = path ? rg_read_regular(path, false, FILE_MAX, ret_text, NULL) : -ENOMEM;

    if (r == -ENOENT && strcmp(name, RG_RECORD_EVENTS) != 0)
        return (*ret_text = strdup("")) ? 0 : rg_error_memory(err);
    if (r == -ENOENT || r == -ENOTDIR)
        return rg_error_set_exit(err, -r, RG_EXIT_USAGE, "%s: there is no record in it, and no job "
                                 "is called so; reigen run --record DIR makes one", dir);
    if (r < 0)
        return rg_error_set_exit(err, -r, r == -EACCES ? RG_EXIT_NO_PERMISSION : RG_EXIT_USAGE,
                                 "%s/%s: %s", dir, name, strerror(-r));
    return 0;
}

int rg_recorded_read(const char *dir, struct rg_recorded *ret_record, struct rg_error *err)
{
    rg_autofree char *events = NULL, *samples = NULL, *tails = NULL;
    int r = read_one(dir, RG_RECORD_EVENTS, &events, err);

    r = r == 0 ? read_one(dir, RG_RECORD_SAMPLES, &samples, err) : r;
    r = r == 0 ? read_one(dir, RG_RECORD_TAILS, &tails, err) : r;
    if (r == 0 && (r = rg_recorded_parse(events, samples, tails, ret_record, err)) < 0)
        rg_error_prepend(err, "%s", dir);
    return r;
}
