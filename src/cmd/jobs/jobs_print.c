/* SPDX-License-Identifier: Apache-2.0 */
/* The same facts of a job are shown as a table's row, as lines and as JSON. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/say.h"
#include "base/time.h"
#include "head/console/exit.h"
#include "head/console/json.h"
#include "head/console/words.h"
#include "cmd/jobs/jobs.h"

#define HOSTS_NAMED 2 /* in a table */
#define GAP 2
#define COMMAND_MIN 10

/* --- words ------------------------------------------------------------------------------------ */

static const char *state_of(const struct rg_registry_job *job)
{
    static const char *const words[] = { [RG_JOB_RUNS] = "running", [RG_JOB_DEAD] = "dead",
                                         [RG_JOB_ELSEWHERE] = "elsewhere",
                                         [RG_JOB_ENDED] = "ended" };

    if (job->ended && job->exit_code < 0)
        return "killed"; /* or its launcher was; how it ended is not known */
    enum rg_registry_state state = rg_registry_state(job);

    return state == RG_JOB_RUNS && rg_registry_starts(job) ? "starting" : words[state];
}

const char *rg_jobs_elapsed(uint64_t seconds, char buf[32])
{
    unsigned s = (unsigned) (seconds % 60), m = (unsigned) (seconds / 60 % 60),
             h = (unsigned) (seconds / 3600 % 24);
    unsigned long long days = seconds / 86400;

    if (days)
        snprintf(buf, 32, "%llu-%02u:%02u:%02u", days, h, m, s);
    else if (h)
        snprintf(buf, 32, "%u:%02u:%02u", h, m, s);
    else
        snprintf(buf, 32, "%u:%02u", m, s);
    return buf;
}

const char *rg_jobs_output(const struct rg_registry_job *job, char kind[16])
{
    const char *text = job->output ? job->output : "";
    size_t n = strcspn(text, " ");

    snprintf(kind, 16, "%.*s", (int) n, text);
    return text + n + (text[n] == ' ');
}

static uint64_t elapsed_s(const struct rg_registry_job *job)
{
    uint64_t until = job->ended ? job->touched_ns / RG_NS_PER_S : rg_wall_ns() / RG_NS_PER_S;

    return until > job->began_s ? until - job->began_s : 0;
}

/* "2026-01-31T23:59:59+01:00", as RFC 3339 has it: parsers of dates want that colon. */
static const char *time_text(uint64_t seconds, char buf[40])
{
    time_t when = (time_t) seconds;
    struct tm tm;

    *buf = '\0';
    if (!localtime_r(&when, &tm) || strftime(buf, 39, "%Y-%m-%dT%H:%M:%S%z", &tm) < 2)
        return buf;
    size_t minutes = strlen(buf) - 2;
    memmove(buf + minutes + 1, buf + minutes, 3);
    buf[minutes] = ':';
    return buf;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *string_or_null(const char *text)
{
    return text && *text ? rg_json_text(text) : json_null();
}

static json_t *code_or_null(int code)
{
    return code < 0 ? json_null() : json_integer(code);
}

json_t *rg_jobs_json(const struct rg_registry_job *job)
{
    char began[40], ended[40] = "", kind[16];
    const char *path = rg_jobs_output(job, kind);
    json_t *hosts = json_array();

    for (size_t i = 0; i < job->hosts.count; i++)
        json_array_append_new(hosts, rg_json_text(job->hosts.v[i]));
    if (job->ended && job->exit_code >= 0)
        time_text(job->touched_ns / RG_NS_PER_S, ended);
    json_t *elapsed = *ended || !job->ended ? json_integer((json_int_t) elapsed_s(job))
                                            : json_null();
    json_t *output = json_pack("{s:o, s:o}", "kind", string_or_null(kind), "path",
                               string_or_null(path));
    json_t *value =
        json_pack("{s:s, s:s, s:b, s:s, s:o, s:o, s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                  "id", job->id, "state", state_of(job), "submitted", 0, "began",
                  time_text(job->began_s, began), "ended", string_or_null(ended), "elapsed_s",
                  elapsed, "ranks", job->nranks, "restarts", (json_int_t) job->restarts.count,
                  "hosts", hosts, "launcher", string_or_null(job->launcher), "image",
                  string_or_null(job->image), "output", output, "record",
                  string_or_null(job->record), "command",
                  string_or_null(job->command), "exit_code", code_or_null(job->exit_code));
    for (const struct rg_platform *const *p = rg_platforms(); value && *p; p++) {
        rg_autofree char *key = (*p)->variable ? rg_strf("%s_job", (*p)->name) : NULL;
        if (key)
            json_object_set_new(value, key, *p == job->within ? json_string(job->within_id)
                                                              : json_null());
    }
    return value;
}

static const char *submitted_state(const struct rg_submitted_job *job)
{
    static const char *const words[] = { [RG_SUBMITTED_UNKNOWN] = "unknown",
                                         [RG_SUBMITTED_WAITS] = "pending",
                                         [RG_SUBMITTED_RUNS] = "running",
                                         [RG_SUBMITTED_ENDED] = "ended" };

    return words[job->state];
}

json_t *rg_jobs_submitted_json(const struct rg_submitted_job *job)
{
    rg_autofree char *word = rg_strf("%s_state", job->platform->name);
    bool away = job->platform->away; /* its log is no file, and job->log says how to see it */
    json_t *output = json_pack("{s:s, s:o, s:o}", "kind", away ? "command" : "file", "path",
                               string_or_null(away ? NULL : job->log), "command",
                               string_or_null(away ? job->log : NULL));

    return json_pack("{s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id", job->id,
                     "state", submitted_state(job), "submitted", 1, word ? word : "word",
                     string_or_null(job->word), "reason", string_or_null(job->reason), "elapsed",
                     string_or_null(job->elapsed), "nodes", string_or_null(job->nodes), "output",
                     output, "command", string_or_null(job->command), "exit_code",
                     code_or_null(job->exit_code));
}

int rg_jobs_print_json(json_t *take_value)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_json_put(&text, take_value, JSON_INDENT(2));
    if (rg_buf_status(&text) < 0)
        return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, NULL);
    return rg_print_exact(rg_buf_text(&text));
}

/* --- rows ------------------------------------------------------------------------------------- */

static char *hosts_text(const struct rg_strv *hosts)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    for (size_t i = 0; i < hosts->count && i < HOSTS_NAMED; i++)
        rg_shown_printf(&text, "%s%s", i ? "," : "", hosts->v[i]);
    if (hosts->count > HOSTS_NAMED)
        rg_buf_printf(&text, ",+%zu", hosts->count - HOSTS_NAMED);
    return strdup(rg_buf_text(&text));
}

static int add_row(struct rg_jobs_table *table, struct rg_jobs_row row, json_t *take_json)
{
    struct rg_jobs_row *rows = realloc(table->rows, (table->count + 1) * sizeof(*rows));

    if (rows)
        table->rows = rows;
    if (!table->json)
        table->json = json_array();
    bool well = json_array_append_new(table->json, take_json) == 0 && rows;
    for (int c = 0; c < RG_JOBS_COLUMNS; c++)
        well = well && row.cell[c];
    if (rows)
        rows[table->count++] = row;
    return well ? 0 : -ENOMEM;
}

static char *text_or_dash(const char *text)
{
    return strdup(text && *text ? text : "-");
}

int rg_jobs_add(struct rg_jobs_table *table, const struct rg_registry_job *job)
{
    char elapsed[32];
    const struct rg_jobs_row row = { {
        [RG_JOBS_ID] = strdup(job->id),
        [RG_JOBS_STATE] = job->ended && job->exit_code >= 0 ? rg_strf("exit %d", job->exit_code)
                                                            : strdup(state_of(job)),
        [RG_JOBS_ELAPSED] = strdup(job->ended && job->exit_code < 0
                                       ? "-" : rg_jobs_elapsed(elapsed_s(job), elapsed)),
        [RG_JOBS_RANKS] = job->nranks ? rg_strf("%d", job->nranks) : strdup("-"),
        [RG_JOBS_HOSTS] = hosts_text(&job->hosts),
        [RG_JOBS_COMMAND] = strdup(job->command ? job->command : ""),
    } };

    return add_row(table, row, rg_jobs_json(job));
}

int rg_jobs_add_submitted(struct rg_jobs_table *table, const struct rg_submitted_job *job)
{
    const struct rg_jobs_row row = { {
        [RG_JOBS_ID] = strdup(job->id),
        [RG_JOBS_STATE] = job->exit_code >= 0 ? rg_strf("exit %d", job->exit_code)
                                              : strdup(submitted_state(job)),
        [RG_JOBS_ELAPSED] = text_or_dash(job->elapsed),
        [RG_JOBS_RANKS] = strdup("-"),
        [RG_JOBS_HOSTS] = text_or_dash(job->nodes),
        [RG_JOBS_COMMAND] = strdup(job->command ? job->command : ""),
    } };

    return add_row(table, row, rg_jobs_submitted_json(job));
}

void rg_jobs_table_fini(struct rg_jobs_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        for (int c = 0; c < RG_JOBS_COLUMNS; c++)
            free(table->rows[i].cell[c]);
    }
    free(table->rows);
    json_decref(table->json);
    *table = (struct rg_jobs_table){ NULL, 0, NULL };
}

/* --- the table -------------------------------------------------------------------------------- */

static void put_cell(struct rg_buf *text, const char *value, int width, const char *colour)
{
    rg_autobuf struct rg_buf cell = RG_BUF_INIT;

    rg_shown_line(&cell, value);
    int gap = width - rg_width(rg_buf_text(&cell)) + GAP;
    rg_buf_put(text, colour, strlen(colour));
    rg_shown_printf(text, "%s", rg_buf_text(&cell));
    rg_buf_printf(text, *colour ? "\033[0m" : "");
    rg_shown_printf(text, "%*s", gap < GAP ? GAP : gap, "");
}

static const char *colour_of(const char *state)
{
    return strcmp(state, "running") == 0 ? "\033[32m"
           : strcmp(state, "dead") == 0 ? "\033[1;31m"
           : rg_str_starts(state, "exit ") || strcmp(state, "ended") == 0 ? "" : "\033[33m";
}

void rg_jobs_print_table(const struct rg_jobs_table *table, int columns, bool colour,
                         struct rg_buf *text)
{
    static const char *const titles[RG_JOBS_COLUMNS] = { "JOB", "STATE", "TIME", "RANKS",
                                                         "HOSTS", "COMMAND" };
    int width[RG_JOBS_COMMAND], left = columns;

    for (int c = 0; c < RG_JOBS_COMMAND; c++) {
        width[c] = rg_width(titles[c]);
        for (size_t i = 0; i < table->count; i++) {
            int n = rg_width(table->rows[i].cell[c]);
            width[c] = n > width[c] ? n : width[c];
        }
        left -= width[c] + GAP;
        put_cell(text, titles[c], width[c], "");
    }
    rg_shown_printf(text, "%s\n", titles[RG_JOBS_COMMAND]);
    for (size_t i = 0; i < table->count; i++) {
        char *const *cell = table->rows[i].cell;
        for (int c = 0; c < RG_JOBS_COMMAND; c++)
            put_cell(text, cell[c], width[c],
                     colour && c == RG_JOBS_STATE ? colour_of(cell[c]) : "");
        if (columns)
            rg_put_cut(text, cell[RG_JOBS_COMMAND], left > COMMAND_MIN ? left : COMMAND_MIN, 0);
        else
            rg_shown_line(text, cell[RG_JOBS_COMMAND]);
        rg_buf_printf(text, "\n");
    }
}

/* --- one job ---------------------------------------------------------------------------------- */

static void put_state(const struct rg_registry_job *job, struct rg_buf *text)
{
    enum rg_registry_state state = rg_registry_state(job);
    char elapsed[32], ended[40];

    rg_jobs_elapsed(elapsed_s(job), elapsed);
    rg_shown_printf(text, "job %s: ", job->id);
    if (state == RG_JOB_ENDED && job->exit_code >= 0)
        rg_shown_printf(text, "ended with exit code %d at %s, after %s\n", job->exit_code,
                        time_text(job->touched_ns / RG_NS_PER_S, ended), elapsed);
    else if (state == RG_JOB_ENDED)
        rg_shown_printf(text, "its launcher was killed%s before it could say how the job ended\n",
                        rg_registry_rebooted(job) ? ", or this computer started again," : "");
    else if (state == RG_JOB_RUNS)
        rg_shown_printf(text, "%s for %s\n", state_of(job), elapsed);
    else if (state == RG_JOB_DEAD && !job->image && rg_registry_rebooted(job))
        rg_shown_printf(text, "gone: this computer was started again since, and nothing of the job "
                            "runs on it\n");
    else if (state == RG_JOB_DEAD && (job->image || !job->kernel))
        rg_shown_printf(text, "dead: its launcher was killed, and could not clean up; reigen stop "
                              "%s removes what it left\n", job->id);
    else if (state == RG_JOB_DEAD)
        rg_shown_printf(text, "dead: its launcher was killed, and could not clean up; what it left "
                            "on this computer is removed now\n");
    else
        rg_shown_printf(text, "elsewhere: its launcher is on %.*s, or in a container there; what "
                            "became of it is known there\n", (int) strcspn(job->launcher, ":"),
                        job->launcher);
}

static void put_ranks(const struct rg_registry_job *job, struct rg_buf *text)
{
    if (job->nranks)
        rg_shown_printf(text, "  ranks: %d\n", job->nranks);
    rg_shown_printf(text, "  hosts:");
    for (size_t i = 0; i < job->hosts.count; i++)
        rg_shown_printf(text, " %s", job->hosts.v[i]);
    rg_shown_printf(text, "\n");
}

void rg_jobs_describe(const struct rg_registry_job *job, const char *ranks, struct rg_buf *text)
{
    char began[40], kind[16];
    const char *path = rg_jobs_output(job, kind);

    put_state(job, text);
    rg_shown_printf(text, "  %s\n", job->command ? job->command : "");
    if (ranks)
        rg_shown_printf(text, "%s", ranks);
    else
        put_ranks(job, text);
    rg_shown_printf(text, "  began: %s\n  launcher: %s\n", time_text(job->began_s, began),
                    job->launcher);
    if (job->restarts.count)
        rg_shown_printf(text, "  restarts: %zu\n", job->restarts.count);
    if (job->image)
        rg_shown_printf(text, "  image: %s\n", job->image);
    if (job->within)
        rg_shown_printf(text, "  %s's job: %s\n", job->within->title, job->within_id);
    if (*kind)
        rg_shown_printf(text, "  output: %s%s%s\n", *path ? path : kind,
                        strcmp(kind, "terminal") == 0 ? ", a terminal" : "",
                        strcmp(kind, "dir") == 0 ? "/rank.*/" : "");
    if (job->record)
        rg_shown_printf(text, "  record: %s\n", job->record);
}
