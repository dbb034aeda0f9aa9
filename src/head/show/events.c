/* SPDX-License-Identifier: Apache-2.0 */
/* Programs follow a job by these lines; people by those of output.c and verdict.c. */
#include "head/show/events.h"

#include <sodium.h>
#include <string.h>

#include "base/json.h"
#include "base/time.h"
#include "head/show/twice.h"

const char *rg_phase_name(enum rg_host_phase phase)
{
    static const char *const names[] = { "pending", "starting", "pulling", "connecting",
                                         "ready", "running", "ended", "lost" };

    return (size_t) phase < rg_array_len(names) ? names[phase] : "unknown";
}

/* The name is ours; what follows is the value. */
static void put_name(struct rg_buf *text, const char *name)
{
    rg_buf_printf(text, ",\"%s\":", name);
}

static void put_text(struct rg_buf *text, const char *name, const char *value)
{
    put_name(text, name);
    rg_json_put_text(text, value ? value : "");
}

static void put_int(struct rg_buf *text, const char *name, int value)
{
    rg_buf_printf(text, ",\"%s\":%d", name, value);
}

/* -1 stands for no rank. */
static void put_rank(struct rg_buf *text, const char *name, int rank)
{
    if (rank >= 0)
        put_int(text, name, rank);
    else
        rg_buf_printf(text, ",\"%s\":null", name);
}

static void put_bool(struct rg_buf *text, const char *name, bool value)
{
    rg_buf_printf(text, ",\"%s\":%s", name, value ? "true" : "false");
}

static void put_seconds(struct rg_buf *text, const char *name, uint64_t ns)
{
    rg_buf_printf(text, ",\"%s\":%.6f", name, (double) ns / 1e9);
}

static void begin(struct rg_buf *text, const char *event)
{
    rg_buf_printf(text, "{\"schema\":%d,\"event\":\"%s\"", RG_EVENTS_SCHEMA, event);
    put_seconds(text, "time", rg_wall_ns());
}

static void end(struct rg_buf *text)
{
    rg_buf_printf(text, "}\n");
}

static void put_texts(struct rg_buf *text, const char *name, const char *const *v, size_t count)
{
    put_name(text, name);
    for (size_t i = 0; i < count; i++) {
        rg_buf_printf(text, i ? "," : "[");
        rg_json_put_text(text, v[i]);
    }
    rg_buf_printf(text, count ? "]" : "[]");
}

/* What the user wrote, where that became another command (several programs, a script). */
static void put_command(struct rg_buf *text, const struct rg_job *job)
{
    bool titled = job->title && !job->nroles;

    put_texts(text, "command", (const char *const *) (titled ? &job->title : job->command.v),
              titled ? 1 : job->command.count);
}

void rg_event_plan(struct rg_buf *text, const char *event, const struct rg_job *job,
                   const struct rg_plan *plan)
{
    begin(text, event);
    put_text(text, "version", RG_VERSION);
    put_text(text, "job", plan->job_id);
    put_int(text, "ranks", plan->np);
    put_name(text, "hosts");
    rg_buf_printf(text, "[");
    for (int h = 0; h < plan->nhosts; h++) {
        rg_buf_printf(text, "%s{\"name\":", h ? "," : "");
        rg_json_put_text(text, plan->hosts[h].name);
        put_int(text, "slots", plan->hosts[h].nslots);
        put_int(text, "ranks", plan->hosts[h].nplanned);
        rg_buf_printf(text, "}");
    }
    rg_buf_printf(text, "]");
    put_command(text, job);
    end(text);
}

void rg_event_epoch(struct rg_buf *text, const struct rg_plan *plan, uint32_t epoch, int size,
                    const int *rank_of)
{
    rg_autofree int *hosts = calloc((size_t) size + 1, sizeof *hosts);

    for (int place = 0; hosts && place < plan->nranks; place++) {
        if (rank_of[place] >= 0 && rank_of[place] < size)
            hosts[rank_of[place]] = plan->ranks[place].host;
    }
    begin(text, "epoch");
    put_int(text, "epoch", epoch);
    put_int(text, "size", size);
    put_name(text, "ranks");
    rg_buf_printf(text, "[");
    for (int rank = 0; hosts && rank < size; rank++) {
        rg_buf_printf(text, "%s", rank ? "," : "");
        rg_json_put_text(text, plan->hosts[hosts[rank]].name);
    }
    rg_buf_printf(text, "]");
    end(text);
}

void rg_event_host(struct rg_buf *text, const char *host, enum rg_host_phase phase,
                   const char *reason)
{
    begin(text, "host");
    put_text(text, "host", host);
    put_text(text, "phase", rg_phase_name(phase));
    put_text(text, "reason", reason);
    end(text);
}

void rg_event_running(struct rg_buf *text)
{
    begin(text, "running");
    end(text);
}

void rg_event_rank_started(struct rg_buf *text, int rank, const char *host, int pid,
                           const char *cpus)
{
    begin(text, "rank-started");
    put_int(text, "rank", rank);
    put_text(text, "host", host);
    put_int(text, "pid", pid);
    if (*cpus)
        put_text(text, "cpus", cpus);
    end(text);
}

static void put_base64(struct rg_buf *text, const char *name, const uint8_t *data, size_t nbytes)
{
    size_t room = sodium_base64_encoded_len(nbytes, sodium_base64_VARIANT_ORIGINAL);
    rg_autofree char *coded = malloc(room);

    if (coded)
        put_text(text, name, sodium_bin2base64(coded, room, data, nbytes,
                                               sodium_base64_VARIANT_ORIGINAL));
    else
        text->status = text->status ? text->status : -ENOMEM;
}

void rg_event_output(struct rg_buf *text, int rank, int stream, const struct rg_line *line)
{
    begin(text, "output");
    put_int(text, "rank", rank);
    put_text(text, "stream", stream == 2 ? "stderr" : "stdout");
    if (rg_json_is_text(line->data, line->nbytes)) {
        put_name(text, "text");
        rg_json_put_bytes(text, line->data, line->nbytes);
    } else {
        put_base64(text, "base64", line->data, line->nbytes);
    }
    put_bool(text, "newline", line->newline);
    put_bool(text, "continued", line->continued);
    end(text);
}

void rg_event_rank_ended(struct rg_buf *text, const struct rg_rank_end *e)
{
    static const char *const how[] = { "exit", "signal", "not-started", "lost" };

    begin(text, "rank-ended");
    put_int(text, "rank", e->rank);
    put_text(text, "host", e->host);
    put_text(text, "how", how[e->end]);
    put_int(text, "value", e->value);
    put_bool(text, "oom", e->oom);
    if (e->memory && *e->memory)
        put_text(text, "memory", e->memory);
    else
        rg_buf_printf(text, ",\"memory\":null");
    put_bool(text, "consequence", e->consequence);
    put_text(text, "note", e->note);
    put_text(text, "place", e->place ? e->place : "");
    put_seconds(text, "after", e->at_ns);
    end(text);
}

void rg_event_note(struct rg_buf *text, int rank, const char *note)
{
    begin(text, "note");
    put_rank(text, "rank", rank);
    put_text(text, "text", note);
    end(text);
}

void rg_event_chaos(struct rg_buf *text, const struct rg_chaos_event *chaos, int rank,
                    const char *host)
{
    begin(text, "chaos");
    put_text(text, "action", rg_chaos_verb_name(chaos->verb));
    put_rank(text, "rank", rank);
    put_text(text, "host", host);
    if (chaos->step)
        put_int(text, "step", chaos->step);
    else
        put_seconds(text, "at", chaos->at_ms * RG_NS_PER_MS);
    end(text);
}

static void put_text_or_null(struct rg_buf *text, const char *name, const char *value)
{
    put_name(text, name);
    if (value)
        rg_json_put_text(text, value);
    else
        rg_buf_printf(text, "null");
}

void rg_event_slowed(struct rg_buf *text, const struct rg_lateness *diagnosis, const char *host,
                     const char *to)
{
    const char *cause = rg_cause_name(diagnosis->cause);

    begin(text, "slowed");
    put_text_or_null(text, "cause", *cause ? cause : NULL);
    put_rank(text, "rank", diagnosis->late.rank);
    put_text_or_null(text, "host", host);
    put_text_or_null(text, "to", to);
    rg_buf_printf(text, ",\"share\":%.4g,\"value\":%.6g,\"usual\":%.6g", diagnosis->share,
                  diagnosis->value, diagnosis->usual);
    end(text);
}

void rg_event_restart(struct rg_buf *text, int restart, int of, const struct rg_verdict *failure)
{
    begin(text, "restart");
    put_int(text, "restart", restart);
    put_int(text, "of", of);
    put_int(text, "exit_code", failure->exit_code);
    put_text(text, "cause", failure->cause);
    end(text);
}

void rg_event_verdict(struct rg_buf *text, const struct rg_verdict *verdict)
{
    const struct rg_rank_end *first = verdict->first;
    int nsame = 0;

    begin(text, "verdict");
    put_int(text, "exit_code", verdict->exit_code);
    put_bool(text, "ok", verdict->ok);
    put_text(text, "cause", verdict->cause);
    put_rank(text, "first", first ? first->rank : -1);
    put_name(text, "same");
    rg_buf_printf(text, "[");
    for (int r = 0; first && first->same && r < verdict->nends; r++) {
        if (verdict->ends[r].same)
            rg_buf_printf(text, "%s%d", nsame++ ? "," : "", r);
    }
    rg_buf_printf(text, "]");
    put_texts(text, "last_lines", verdict->last_lines, verdict->nlast_lines);
    put_seconds(text, "seconds", verdict->elapsed_ns);
    rg_twice_put_json(verdict->twice, text);
    end(text);
}
