/* SPDX-License-Identifier: Apache-2.0 */
/* Programs follow a job by these lines; people by those of output.c and verdict.c. */
#include "cmd/show/events.h"

#include <sodium.h>
#include <string.h>

#include "base/time.h"
#include "cmd/common/json.h"

const char *rg_phase_name(enum rg_host_phase phase)
{
    static const char *const names[] = { "pending", "starting", "pulling", "connecting",
                                         "ready", "running", "ended", "lost" };

    return (size_t) phase < rg_array_len(names) ? names[phase] : "unknown";
}

static json_t *begin(const char *event)
{
    return json_pack("{s:i, s:s, s:f}", "schema", RG_EVENTS_SCHEMA, "event", event, "time",
                     (double) (rg_wall_ns() / 1000) / 1e6);
}

static void put(struct rg_buf *text, json_t *take_object)
{
    rg_json_put(text, take_object, JSON_COMPACT);
}

static void put_plan(struct rg_buf *text, const char *event, const struct rg_job *job,
                     const struct rg_plan *plan)
{
    json_t *o = begin(event), *hosts = json_array(), *command = json_array();

    for (int h = 0; h < plan->nhosts; h++) {
        const struct rg_plan_host *host = &plan->hosts[h];
        json_array_append_new(hosts, json_pack("{s:o, s:i, s:i}", "name", rg_json_text(host->name),
                                               "slots", host->nslots, "ranks", host->nplanned));
    }
    for (size_t i = 0; i < job->command.count; i++)
        json_array_append_new(command, rg_json_text(job->command.v[i]));
    json_object_set_new(o, "version", json_string(RG_VERSION));
    json_object_set_new(o, "job", json_string(plan->job_id));
    json_object_set_new(o, "ranks", json_integer(plan->np));
    json_object_set_new(o, "hosts", hosts);
    json_object_set_new(o, "command", command);
    put(text, o);
}

void rg_event_start(struct rg_buf *text, const struct rg_job *job, const struct rg_plan *plan)
{
    put_plan(text, "start", job, plan);
}

void rg_event_plan(struct rg_buf *text, const struct rg_job *job, const struct rg_plan *plan)
{
    put_plan(text, "plan", job, plan);
}

void rg_event_host(struct rg_buf *text, const char *host, enum rg_host_phase phase,
                   const char *reason)
{
    json_t *o = begin("host");

    json_object_set_new(o, "host", rg_json_text(host));
    json_object_set_new(o, "phase", json_string(rg_phase_name(phase)));
    json_object_set_new(o, "reason", rg_json_text(reason));
    put(text, o);
}

void rg_event_running(struct rg_buf *text)
{
    put(text, begin("running"));
}

void rg_event_rank_started(struct rg_buf *text, int rank, const char *host, int pid,
                           const char *cpus)
{
    json_t *o = begin("rank-started");

    json_object_set_new(o, "rank", json_integer(rank));
    json_object_set_new(o, "host", rg_json_text(host));
    json_object_set_new(o, "pid", json_integer(pid));
    if (*cpus)
        json_object_set_new(o, "cpus", rg_json_text(cpus));
    put(text, o);
}

static json_t *base64(const uint8_t *data, size_t nbytes)
{
    size_t room = sodium_base64_encoded_len(nbytes, sodium_base64_VARIANT_ORIGINAL);
    rg_autofree char *text = malloc(room);

    return text ? json_string(sodium_bin2base64(text, room, data, nbytes,
                                                sodium_base64_VARIANT_ORIGINAL)) : NULL;
}

void rg_event_output(struct rg_buf *text, int rank, int stream, const struct rg_line *line)
{
    json_t *o = begin("output");
    json_t *value = json_stringn(line->nbytes ? (const char *) line->data : "", line->nbytes);

    json_object_set_new(o, "rank", json_integer(rank));
    json_object_set_new(o, "stream", json_string(stream == 2 ? "stderr" : "stdout"));
    if (value)
        json_object_set_new(o, "text", value);
    else
        json_object_set_new(o, "base64", base64(line->data, line->nbytes));
    json_object_set_new(o, "newline", json_boolean(line->newline));
    json_object_set_new(o, "continued", json_boolean(line->continued));
    put(text, o);
}

void rg_event_rank_ended(struct rg_buf *text, const struct rg_rank_end *e)
{
    static const char *const how[] = { "exit", "signal", "not-started", "lost" };
    json_t *o = begin("rank-ended");

    json_object_set_new(o, "rank", json_integer(e->rank));
    json_object_set_new(o, "host", rg_json_text(e->host));
    json_object_set_new(o, "how", json_string(how[e->end]));
    json_object_set_new(o, "value", json_integer(e->value));
    json_object_set_new(o, "oom", json_boolean(e->oom));
    json_object_set_new(o, "memory",
                        e->memory && *e->memory ? rg_json_text(e->memory) : json_null());
    json_object_set_new(o, "consequence", json_boolean(e->consequence));
    json_object_set_new(o, "note", rg_json_text(e->note));
    json_object_set_new(o, "after", json_real((double) e->at_ns / 1e9));
    put(text, o);
}

void rg_event_note(struct rg_buf *text, int rank, const char *note)
{
    json_t *o = begin("note");

    json_object_set_new(o, "rank", rank < 0 ? json_null() : json_integer(rank));
    json_object_set_new(o, "text", rg_json_text(note));
    put(text, o);
}

void rg_event_restart(struct rg_buf *text, int restart, int of, const struct rg_verdict *failure)
{
    json_t *o = begin("restart");

    json_object_set_new(o, "restart", json_integer(restart));
    json_object_set_new(o, "of", json_integer(of));
    json_object_set_new(o, "exit_code", json_integer(failure->exit_code));
    json_object_set_new(o, "cause", rg_json_text(failure->cause));
    put(text, o);
}

void rg_event_verdict(struct rg_buf *text, const struct rg_verdict *verdict)
{
    json_t *o = begin("verdict"), *lines = json_array(), *same = json_array();

    for (size_t i = 0; i < verdict->nlast_lines; i++)
        json_array_append_new(lines, rg_json_text(verdict->last_lines[i]));
    json_object_set_new(o, "exit_code", json_integer(verdict->exit_code));
    json_object_set_new(o, "ok", json_boolean(verdict->ok));
    json_object_set_new(o, "cause", rg_json_text(verdict->cause));
    json_object_set_new(o, "first",
                        verdict->first ? json_integer(verdict->first->rank) : json_null());
    for (int r = 0; verdict->first && verdict->first->same && r < verdict->nends; r++) {
        if (verdict->ends[r].same)
            json_array_append_new(same, json_integer(r));
    }
    json_object_set_new(o, "same", same);
    json_object_set_new(o, "last_lines", lines);
    json_object_set_new(o, "seconds", json_real((double) verdict->elapsed_ns / 1e9));
    put(text, o);
}
