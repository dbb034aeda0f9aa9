/* SPDX-License-Identifier: Apache-2.0 */
/* What a presenter is told goes into the record as well; what nobody is told, by a timer. */
#include "head/record/record.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "head/record/folder.h"
#include "head/record/samples.h"
#include "head/record/tails.h"
#include "launch/verdict/tail.h"

#define EVENTS_NBYTES (8u << 20)   /* so large events.jsonl may become, and */
#define EVENTS_RANK_NBYTES 1024    /* for each rank so much more; the end is always written */
#define NOTE_NBYTES (64u << 10)    /* of one remark */
#define TAILS_MS 5000              /* between two times at which the last lines are written; the */
#define TAILS_MOST_MS 60000        /* longer the job lasts, the more, but no more than this */

struct rg_record {
    struct rg_record_folder folder;
    struct rg_record_samples samples;
    struct rg_timer sampling, tailing;
    struct rg_presenter_ops ops;          /* those below, with its encode */
    const struct rg_presenter_ops *inner; /* whom all is told, too */
    struct rg_loop *loop;
    rg_metrics_look *look;
    void *arg;
    struct rg_buf tails;                  /* as they were written last */
    int *numbers;                         /* by place, of an elastic job: the last one it had */
    size_t nnumbers;
    uint64_t nlost;                       /* events for which there was no room */
    bool judged;                          /* a verdict was written */
    bool named;                           /* which job it is, was written */
};

/* --- events ----------------------------------------------------------------------------------- */

static void judge(struct rg_record *record, int r)
{
    rg_record_folder_judge(&record->folder, r);
    if (r < 0)
        rg_record_folder_lost(&record->folder, ++record->nlost);
}

static void write_lines(struct rg_record *record, struct rg_buf *take_lines)
{
    judge(record, rg_record_folder_append(&record->folder, take_lines));
    rg_buf_fini(take_lines);
}

static bool has_room(const struct rg_record *record, const struct rg_presenter *p, size_t nbytes)
{
    uint64_t max = EVENTS_NBYTES + EVENTS_RANK_NBYTES * (uint64_t) p->planned->plan.nranks;

    return record->folder.events_nbytes + nbytes <= max;
}

static void send(struct rg_record *record, struct rg_presenter *p, struct rg_buf *take_lines)
{
    if (has_room(record, p, rg_buf_nbytes(take_lines))) {
        write_lines(record, take_lines);
        return;
    }
    rg_buf_fini(take_lines);
    rg_record_folder_lost(&record->folder, ++record->nlost);
}

/* --- the ranks' numbers, and their last lines ------------------------------------------------- */

static void sample(void *arg);
static void write_tails(void *arg);

/* As often as samples are taken now. */
static void start_timers(struct rg_record *record)
{
    uint64_t every_ms = record->samples.every_ms, tails_ms = every_ms;

    tails_ms = tails_ms < TAILS_MS ? TAILS_MS : tails_ms > TAILS_MOST_MS ? TAILS_MOST_MS : tails_ms;
    rg_timer_start(&record->sampling, record->loop, every_ms, every_ms, sample, record);
    rg_timer_start(&record->tailing, record->loop, tails_ms, tails_ms, write_tails, record);
}

static void sample(void *arg)
{
    struct rg_record *record = arg;
    struct rg_metrics_state state = { .plan = NULL };

    record->look(record->arg, &state);
    int r = rg_record_samples_take(&record->samples, &record->folder, &state);
    judge(record, r);
    if (r > 0)
        start_timers(record);
}

static int number_of(struct rg_record *record, const struct rg_metrics_state *state, int place)
{
    int now = rg_session_number(state->session, place);

    if (!state->elastic)
        return place;
    if (rg_grow(&record->numbers, &record->nnumbers, (size_t) place + 1) < 0)
        return now;
    if (now >= 0)
        record->numbers[place] = now + 1;
    return record->numbers[place] - 1;
}

static void put_tails(struct rg_record *record, const struct rg_metrics_state *state,
                      struct rg_buf *text)
{
    const struct rg_plan *plan = state->plan;
    size_t room = rg_record_tails_room(plan->nranks);
    const char *lines[RG_TAIL_LINES];

    for (int place = 0; place < plan->nranks; place++) {
        size_t n = rg_session_last_lines(state->session, place, lines);
        if (n > 0)
            rg_record_tails_put(text, place, number_of(record, state, place),
                     plan->hosts[plan->ranks[place].host].name, lines, n, room);
    }
}

static void write_tails(void *arg)
{
    struct rg_record *record = arg;
    struct rg_metrics_state state = { .plan = NULL };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    record->look(record->arg, &state);
    if (!state.session || !state.plan)
        return;
    put_tails(record, &state, &text);
    size_t nbytes = rg_buf_nbytes(&text);
    if (rg_buf_status(&text) < 0 || (nbytes == rg_buf_nbytes(&record->tails) &&
        (!nbytes || memcmp(rg_buf_bytes(&text), rg_buf_bytes(&record->tails), nbytes) == 0)))
        return;
    int r = rg_record_folder_replace(&record->folder, RG_RECORD_TAILS, &text);
    judge(record, r);
    if (r < 0)
        return;
    struct rg_buf old = record->tails;
    record->tails = text;
    text = old;
}

/* --- what is shown ---------------------------------------------------------------------------- */

static void put_timeline(struct rg_buf *line, const struct rg_job *job)
{
    static const char *const variables[] = { "REIGEN_TIMELINE", "HOROVOD_TIMELINE" };
    const char *path = NULL;

    for (size_t i = 0; !path && i < rg_array_len(variables); i++) {
        path = rg_env_get(&job->env, variables[i]);
        path = path ? path : getenv(variables[i]);
    }
    if (!path || !*path || strcmp(path, "DYNAMIC") == 0)
        return;
    rg_buf_printf(line, ",\"timeline\":");
    rg_json_put_text(line, path);
}

/* What no event of --json tells. */
static void put_job(struct rg_record *record, const struct rg_presenter *p, struct rg_buf *line)
{
    struct rg_metrics_state state = { .plan = NULL };
    const struct rg_job *job = &p->planned->job;
    char cwd[PATH_MAX];

    record->look(record->arg, &state);
    rg_buf_printf(line, "{\"event\":\"job\",\"time\":%.6f,\"platform\":",
                  (double) rg_wall_ns() / 1e9);
    rg_json_put_text(line, state.platform ? state.platform : "");
    rg_buf_printf(line, ",\"elastic\":%s,\"cwd\":", job->elastic.on ? "true" : "false");
    rg_json_put_text(line, getcwd(cwd, sizeof(cwd)) ? cwd : "");
    if (job->container.image) {
        rg_buf_printf(line, ",\"image\":");
        rg_json_put_text(line, job->container.image);
    }
    put_timeline(line, job);
    rg_buf_printf(line, "}\n");
}

static int starting(struct rg_presenter *p)
{
    struct rg_record *record = p->record;
    struct rg_buf line = RG_BUF_INIT;

    if (!record->named)
        put_job(record, p, &line);
    record->named = true;
    rg_event_plan(&line, "start", &p->planned->job, &p->planned->plan);
    send(record, p, &line);
    return record->inner->starting(p);
}

static void phase(struct rg_presenter *p, int host, enum rg_host_phase phase, const char *reason)
{
    struct rg_buf line = RG_BUF_INIT;

    rg_event_host(&line, p->planned->plan.hosts[host].name, phase, reason);
    send(p->record, p, &line);
    p->record->inner->phase(p, host, phase, reason);
}

static void running(struct rg_presenter *p)
{
    struct rg_buf line = RG_BUF_INIT;

    rg_event_running(&line);
    send(p->record, p, &line);
    p->record->inner->running(p);
}

static void epoch(struct rg_presenter *p, uint32_t epoch, int size, const int *rank_of)
{
    struct rg_buf line = RG_BUF_INIT;

    rg_event_epoch(&line, &p->planned->plan, epoch, size, rank_of);
    send(p->record, p, &line);
    p->record->inner->epoch(p, epoch, size, rank_of);
}

static void rank_started(struct rg_presenter *p, int rank, const char *host, int pid,
                         const char *cpus)
{
    struct rg_buf line = RG_BUF_INIT;

    rg_event_rank_started(&line, rank, host, pid, cpus);
    send(p->record, p, &line);
    p->record->inner->rank_started(p, rank, host, pid, cpus);
}

static void rank_ended(struct rg_presenter *p, const struct rg_rank_end *end)
{
    struct rg_buf line = RG_BUF_INIT;

    rg_event_rank_ended(&line, end);
    send(p->record, p, &line);
    p->record->inner->rank_ended(p, end);
}

static void note(struct rg_presenter *p, int rank, const char *text)
{
    rg_autofree char *words = strndup(text, NOTE_NBYTES);
    struct rg_buf line = RG_BUF_INIT;

    rg_event_note(&line, rank, words ? words : "");
    send(p->record, p, &line);
    p->record->inner->note(p, rank, text);
}

#ifndef RG_AGENT
static void chaos(struct rg_presenter *p, const struct rg_chaos_event *event, int rank,
                  const char *host)
{
    struct rg_buf line = RG_BUF_INIT;

    rg_event_chaos(&line, event, rank, host);
    send(p->record, p, &line);
    p->record->inner->chaos(p, event, rank, host);
}
#endif

static void slowed(struct rg_presenter *p, const struct rg_lateness *diagnosis, const char *host,
                   const char *to)
{
    struct rg_buf line = RG_BUF_INIT;

    rg_event_slowed(&line, diagnosis, host, to);
    send(p->record, p, &line);
    if (p->record->inner->slowed)
        p->record->inner->slowed(p, diagnosis, host, to);
}

/* The session is still there, for the last time. */
static void ended(struct rg_presenter *p, const struct rg_verdict *verdict, int again)
{
    struct rg_record *record = p->record;
    struct rg_buf line = RG_BUF_INIT;

    sample(record);
    write_tails(record);
    if (again)
        rg_event_restart(&line, again, p->planned->job.max_restarts, verdict);
    else
        rg_event_verdict(&line, verdict);
    write_lines(record, &line);
    record->judged = !again;
    record->inner->ended(p, verdict, again);
}

static const struct rg_presenter_ops recorded = {
    .starting = starting,
    .phase = phase,
    .running = running,
    .epoch = epoch,
    .rank_started = rank_started,
    .rank_ended = rank_ended,
    .note = note,
    .ended = ended,
#ifndef RG_AGENT
    .chaos = chaos,
#endif
    .slowed = slowed,
};

/* --- its life --------------------------------------------------------------------------------- */

int rg_record_open(const char *dir, struct rg_record **ret_record, struct rg_error *err)
{
    *ret_record = NULL;
    if (!dir)
        return 0;
    struct rg_record *record = calloc(1, sizeof(*record));
    if (!record)
        return rg_error_memory(err);
    record->samples.every_ms = RG_RECORD_SAMPLE_MS;
    int r = rg_record_folder_open(dir, &record->folder, err);
    if (r < 0)
        free(record);
    else
        *ret_record = record;
    return r;
}

void rg_record_follow(struct rg_record *record, struct rg_presenter *shown, rg_metrics_look *look,
                      void *arg)
{
    if (!record)
        return;
    record->inner = shown->ops;
    record->ops = recorded;
    record->ops.encode = shown->ops->encode;
    record->loop = shown->loop;
    record->look = look;
    record->arg = arg;
    shown->record = record;
    shown->ops = &record->ops;
    start_timers(record);
}

void rg_record_fail(struct rg_record *record, const struct rg_verdict *verdict)
{
    struct rg_buf line = RG_BUF_INIT;

    if (!record || record->judged)
        return;
    rg_event_verdict(&line, verdict);
    write_lines(record, &line);
    record->judged = true;
}

void rg_record_close(struct rg_record *record, int exit_code)
{
    struct rg_buf line = RG_BUF_INIT;

    if (!record)
        return;
    rg_timer_stop(&record->sampling);
    rg_timer_stop(&record->tailing);
    rg_buf_printf(&line, "{\"event\":\"end\",\"time\":%.6f,\"exit_code\":%d}\n",
                  (double) rg_wall_ns() / 1e9, exit_code);
    write_lines(record, &line);
    rg_record_samples_fini(&record->samples);
    rg_record_folder_close(&record->folder);
    rg_buf_fini(&record->tails);
    free(record->numbers);
    free(record);
}
