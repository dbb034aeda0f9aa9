/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that is stayed with. Its head is a task of it: what that writes is the job's output.
 * OpenPAI tells nothing by itself, so it is asked, often while something happens and seldom while
 * nothing does. Nothing of the job depends on us: a server that is away is asked again later.
 *
 * Three calls are made, each in its own turn: a look at the job, the head's log, and, to end the
 * job, a stop.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "platform/openpai/outside/internal.h"

#define PAUSE_MS 400       /* between two looks, while things happen, and */
#define PAUSE_MAX_MS 3000  /* later */
#define AWAY_MAX_MS 10000  /* where the server does not answer */
#define APPEAR_MS 60000    /* a job that was just submitted need not be listed yet */
#define LOG_MS 20000       /* for the log's end, after the job's */
#define END_MS 75000       /* for the job's end, after it was told to stop */
#define COMPLAINTS_MAX 3   /* one after the other */
#define LAST_READS 2       /* of the log of a head that was begun again */
#define REASON_MAX 256
#define LINE_MAX_NBYTES (1u << 20) /* what is longer is told in pieces */

struct host {
    int phase; /* the last one told; -1: none */
    char reason[REASON_MAX];
};

/* One kind of calls, made again and again. */
struct asked {
    struct pai_call *call; /* NULL: none goes on */
    struct rg_timer timer; /* until the next one */
    uint64_t pause_ms;
    int ncomplaints;
};

struct follow {
    struct rg_follow_options o;
    struct pai_where where;
    struct pai_server *server;
    struct asked look, logs, stop;
    struct rg_timer end_timer, done_timer;
    struct host *hosts;       /* o.nhosts */
    struct pai_answer last;   /* the job as it was seen last */
    struct pai_log log;
    char *log_url;            /* of the head; NULL: it has none yet */
    char *log_places;         /* likewise */
    int nreads;               /* > 0: of this log so many reads are left, then comes the next one */
    bool told_no_log;         /* the user was told that the log cannot be read */
    struct rg_buf line;       /* of the log: whose end has not come */
    uint64_t begun_ns, over_ns;
    int retries, told_retries;
    bool seen;                /* the job was */
    bool running;             /* all tasks do, or did */
    bool told_log;            /* some of the log, or that there is none */
    bool last_log;            /* the log is being read since the job was over */
    bool away;                /* the user was told that nobody answers */
    bool ending;              /* we have told the job to end */
    bool done;
    int exit_code;            /* for on_done */
    struct rg_error err;
};

static void start_look(void *arg);
static void start_log(void *arg);
static void start_stop(void *arg);

static rg_printf(2, 3) void sayf(struct follow *f, const char *fmt, ...)
{
    char text[RG_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    f->o.on_say(f->o.arg, text);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void tell_done(void *arg)
{
    struct follow *f = arg;

    f->o.on_done(f->o.arg, f->exit_code, f->err.errnum ? &f->err : NULL);
}

static void drop_asked(struct asked *asked)
{
    pai_call_stop(asked->call);
    asked->call = NULL;
    rg_timer_stop(&asked->timer);
}

static void put_line_end(struct follow *f)
{
    if (rg_buf_nbytes(&f->line)) {
        rg_buf_put_u8(&f->line, '\n');
        f->o.on_output(f->o.arg, rg_buf_bytes(&f->line), rg_buf_nbytes(&f->line));
    }
    rg_buf_clear(&f->line);
}

/* From the loop, since the caller may free us then. */
static void finish(struct follow *f, int exit_code)
{
    struct asked *const all[] = { &f->look, &f->logs, &f->stop };

    if (f->done)
        return;
    f->done = true;
    f->exit_code = exit_code;
    for (size_t i = 0; i < rg_array_len(all); i++)
        rg_timer_stop(&all[i]->timer);
    rg_timer_stop(&f->end_timer);
    put_line_end(f);
    rg_timer_start(&f->done_timer, f->o.loop, 0, 0, tell_done, f);
}

/* The job goes on, and nobody can stay with it. */
static void leave(struct follow *f)
{
    rg_error_prepend(&f->err, "job %s goes on, but cannot be followed (reigen stop %s ends it)",
                     f->o.submitted->id, f->o.submitted->id);
    finish(f, RG_FOLLOW_LEFT);
}

/* It is over, and so is its log. What we have ended ourselves needs no explanation. */
static void conclude(struct follow *f)
{
    struct rg_error err = RG_ERROR_INIT;
    int code = pai_verdict(pai_server_version(f->server), &f->last.job, &err);

    if (!f->ending)
        f->err = err;
    finish(f, code);
}

/* --- asking again and again ------------------------------------------------------------------- */

static void ask_later(struct follow *f, struct asked *asked, uint64_t max_ms,
                      void (*start)(void *arg))
{
    rg_timer_start(&asked->timer, f->o.loop, asked->pause_ms, 0, start, f);
    asked->pause_ms = asked->pause_ms * 3 / 2 < max_ms ? asked->pause_ms * 3 / 2 : max_ms;
}

static bool will_pass(enum pai_refused why)
{
    return why == PAI_AWAY || why == PAI_LATE || why == PAI_BUSY || why == PAI_REFUSED;
}

/* A call was refused. What is refused once for who asks, and for what, is refused again. */
static void ask_in_spite(struct follow *f, struct asked *asked, void (*start)(void *arg))
{
    const struct pai_refusal *refusal = pai_call_refusal(asked->call);
    struct rg_error cause = RG_ERROR_INIT;

    pai_explain(f->server, refusal, &cause);
    if (will_pass(refusal->why)) {
        if (!f->away)
            sayf(f, "%s; the job goes on, and so does this as soon as it answers", cause.text);
        f->away = true;
    } else if (refusal->why != PAI_FOREIGN || ++asked->ncomplaints >= COMPLAINTS_MAX) {
        f->err = cause;
        leave(f);
        return;
    }
    ask_later(f, asked, AWAY_MAX_MS, start);
}

static void is_back(struct follow *f, struct asked *asked)
{
    asked->ncomplaints = 0;
    if (f->away)
        sayf(f, "OpenPAI answers again");
    f->away = false;
}

/* NULL: no memory for a call; it is tried later. */
static void start_call(struct follow *f, struct asked *asked, const struct pai_request *request,
                       void (*on_end)(void *arg, struct pai_call *call), void (*start)(void *arg))
{
    pai_call_stop(rg_steal_ptr(&asked->call));
    if (pai_call_start(&asked->call, f->server, f->o.loop, request, on_end, f) < 0)
        ask_later(f, asked, PAUSE_MAX_MS, start);
}

/* --- the log ---------------------------------------------------------------------------------- */

static bool is_up(const struct pai_task *task)
{
    return task->state == PAI_RUNNING || pai_state_is_end(task->state);
}

/* Leave out what was written before, but for the last lines that are wanted. */
static size_t skip_lines(const char *text, size_t nbytes, int nlast)
{
    size_t at = nbytes;

    for (int n = 0; at > 0; at--) {
        if (text[at - 1] == '\n' && at != nbytes && ++n == nlast)
            break;
    }
    return at;
}

static void restart_log(struct follow *f, const struct pai_task *head)
{
    drop_asked(&f->logs);
    put_line_end(f);
    pai_log_fini(&f->log);
    free(f->log_url);
    free(f->log_places);
    f->log_url = strdup(head->log);
    f->log_places = strdup(head->places);
    f->logs.pause_ms = PAUSE_MS;
    if (f->log_url && f->log_places)
        start_log(f);
}

/* Read the log of the head as it was seen last. What an earlier one has written last is read
 * before. */
static void choose_log(struct follow *f)
{
    const struct pai_task *head = pai_head_of(&f->last.job);
    bool has_log = head && *head->log && is_up(head);
    bool again = f->retries > f->told_retries;

    if (f->nreads)
        return;
    if (f->log_url && (again || (has_log && strcmp(f->log_url, head->log) != 0))) {
        f->nreads = LAST_READS;
        if (rg_timer_active(&f->logs.timer))
            rg_timer_start(&f->logs.timer, f->o.loop, 0, 0, start_log, f);
        return;
    }
    if (again)
        sayf(f, "OpenPAI starts job %s again: retry %d", f->o.submitted->id, f->retries);
    f->told_retries = f->retries;
    if (has_log && !f->log_url)
        restart_log(f, head);
    if (f->over_ns && !f->log_url)
        conclude(f);
}

/* The log that was read has no more; false: it is the last one, or is read again. */
static bool leave_log(struct follow *f, bool has_more)
{
    if (!f->nreads || has_more || --f->nreads)
        return false;
    drop_asked(&f->logs);
    put_line_end(f);
    free(rg_steal_ptr(&f->log_url));
    choose_log(f);
    return true;
}

static void put_log(struct follow *f, const char *text, size_t nbytes)
{
    size_t skipped = f->o.nlast && !f->told_log ? skip_lines(text, nbytes, f->o.nlast) : 0;
    const uint8_t *end;

    f->told_log = true;
    rg_buf_put(&f->line, text + skipped, nbytes - skipped);
    end = rg_buf_nbytes(&f->line)
              ? memrchr(rg_buf_bytes(&f->line), '\n', rg_buf_nbytes(&f->line)) : NULL;
    size_t whole = end ? (size_t) (end - rg_buf_bytes(&f->line)) + 1
                   : rg_buf_nbytes(&f->line) > LINE_MAX_NBYTES ? rg_buf_nbytes(&f->line) : 0;
    if (whole) {
        f->o.on_output(f->o.arg, rg_buf_bytes(&f->line), whole);
        rg_buf_consume(&f->line, whole);
    }
}

/* It may not be there yet, or not any more, or its node does not answer. */
static void on_no_log(struct follow *f)
{
    const struct pai_refusal *refusal = pai_call_refusal(f->logs.call);
    bool late = f->over_ns && rg_now_ns() - f->over_ns > LOG_MS * RG_NS_PER_MS;
    bool missing = refusal->why == PAI_MISSING;
    struct rg_error cause = RG_ERROR_INIT;

    if (f->nreads) {
        f->nreads = missing ? 1 : f->nreads;
        if (leave_log(f, false))
            return;
    } else if (late || (f->over_ns && missing)) {
        pai_explain(f->server, refusal, &cause);
        sayf(f, "the %slog of job %s cannot be read: %s", f->told_log ? "rest of the " : "",
             f->o.submitted->id, cause.text);
        conclude(f);
        return;
    } else if (!missing && !f->told_no_log && ++f->logs.ncomplaints == COMPLAINTS_MAX) {
        pai_explain(f->server, refusal, &cause);
        sayf(f, "the log of job %s cannot be read now, and is asked for again: %s",
             f->o.submitted->id, cause.text);
        f->told_no_log = true;
    }
    ask_later(f, &f->logs, PAUSE_MAX_MS, start_log);
}

static void on_log(void *arg, struct pai_call *call)
{
    struct follow *f = arg;
    struct rg_buf *text = &pai_call_answer(call)->text;
    size_t nbytes = rg_buf_nbytes(text);

    if (f->done)
        return;
    if (pai_call_refusal(call)->why != PAI_FINE) {
        on_no_log(f);
        return;
    }
    if (pai_call_answer(call)->skipped)
        sayf(f, "some of the log of job %s was lost: the server keeps the end alone",
             f->o.submitted->id);
    if (nbytes)
        put_log(f, (const char *) rg_buf_bytes(text), nbytes);
    f->logs.ncomplaints = 0;
    if (f->done) /* who reads it has ended us */
        return;
    if (leave_log(f, nbytes >= PAI_LOG_MAX))
        return;
    if (f->last_log && nbytes < PAI_LOG_MAX) {
        conclude(f);
        return;
    }
    f->last_log = f->over_ns != 0 && !f->nreads;
    if (nbytes || f->last_log || f->nreads)
        f->logs.pause_ms = PAUSE_MS;
    ask_later(f, &f->logs, PAUSE_MAX_MS, start_log);
}

static void start_log(void *arg)
{
    struct follow *f = arg;
    const struct pai_request request = { .verb = PAI_LOG, .url = f->log_url,
                                         .places = f->log_places, .log = &f->log };

    if (!f->done)
        start_call(f, &f->logs, &request, on_log, start_log);
}

/* --- the job ---------------------------------------------------------------------------------- */

static void tell_phase(struct follow *f, int host, enum rg_host_phase phase, const char *reason)
{
    struct host *known = host < f->o.nhosts ? &f->hosts[host] : NULL;
    struct host now = { .phase = (int) phase };

    snprintf(now.reason, sizeof(now.reason), "%s", reason);
    if (!known || (known->phase == now.phase && strcmp(known->reason, now.reason) == 0))
        return;
    *known = now;
    f->o.on_phase(f->o.arg, host, known->phase, known->reason);
}

/* Tasks that wait for room need not be listed. */
static void tell_start(struct follow *f, const struct pai_job *job)
{
    const char *reason = job->said && *job->said ? job->said : "OpenPAI has not started it yet";
    size_t nup = 0;

    for (size_t i = 0; i < job->ntasks; i++) {
        const struct pai_task *task = &job->tasks[i];
        int host = pai_host_of(job, task);
        nup += is_up(task);
        if (is_up(task))
            tell_phase(f, host, RG_PHASE_CONNECTING, "");
        else
            tell_phase(f, host, RG_PHASE_PENDING, *task->said ? task->said : reason);
    }
    for (int host = (int) job->ntasks; host < f->o.nhosts; host++)
        tell_phase(f, host, RG_PHASE_PENDING, reason);
    if (!job->ntasks || nup < job->ntasks || (int) nup < f->o.nhosts)
        return;
    f->running = true;
    if (f->o.on_running)
        f->o.on_running(f->o.arg);
}

/* OpenPAI has begun all tasks again, as --max-restarts lets it, or as it has lost a node. */
static void begin_again(struct follow *f, int retries)
{
    f->retries = retries;
    f->running = false;
    for (int i = 0; i < f->o.nhosts; i++)
        f->hosts[i].phase = -1;
}

static void take_job(struct follow *f, const struct pai_job *job)
{
    bool over = pai_state_is_end(job->state);

    if (f->seen && job->retries > f->retries)
        begin_again(f, job->retries);
    if (!f->seen)
        f->retries = f->told_retries = job->retries;
    f->seen = true;
    if (!f->running && !over)
        tell_start(f, job);
    if (over && !f->over_ns) {
        f->over_ns = rg_now_ns();
        if (rg_timer_active(&f->logs.timer))
            rg_timer_start(&f->logs.timer, f->o.loop, 0, 0, start_log, f);
    }
    choose_log(f);
}

/* Whether something has happened, so that more of it may soon. */
static bool has_changed(const struct pai_job *old, const struct pai_job *job)
{
    bool changed = old->state != job->state || old->ntasks != job->ntasks;

    for (size_t i = 0; !changed && i < job->ntasks; i++)
        changed = old->tasks[i].state != job->tasks[i].state;
    return changed;
}

/* Not there: not yet, or not any more. */
static void on_missing(struct follow *f)
{
    bool young = rg_now_ns() - f->begun_ns < APPEAR_MS * RG_NS_PER_MS;

    if (f->o.job && !f->seen && young) {
        ask_later(f, &f->look, PAUSE_MAX_MS, start_look);
        return;
    }
    if (!f->ending)
        rg_error_set_exit(&f->err, ECANCELED, f->seen ? RG_EXIT_PREEMPTED : RG_EXIT_UNAVAILABLE,
                          "job %s is not on OpenPAI any more: it was removed after its end, or by "
                          "somebody", f->o.submitted->id);
    finish(f, -1);
}

static void on_look(void *arg, struct pai_call *call)
{
    struct follow *f = arg;
    struct pai_answer *answer = pai_call_answer(call);

    if (f->done)
        return;
    if (pai_call_refusal(call)->why == PAI_MISSING) {
        on_missing(f);
        return;
    }
    if (pai_call_refusal(call)->why != PAI_FINE) {
        ask_in_spite(f, &f->look, start_look);
        return;
    }
    is_back(f, &f->look);
    if (has_changed(&f->last.job, &answer->job) || f->ending)
        f->look.pause_ms = PAUSE_MS;
    pai_answer_fini(&f->last);
    f->last = *answer;
    *answer = (struct pai_answer){ .was_there = false };
    take_job(f, &f->last.job);
    if (!f->done && !f->over_ns)
        ask_later(f, &f->look, PAUSE_MAX_MS, start_look);
}

static void start_look(void *arg)
{
    struct follow *f = arg;
    const struct pai_request request = { .verb = PAI_LOOK, .user = f->where.user,
                                         .name = f->o.submitted->id };

    if (!f->done)
        start_call(f, &f->look, &request, on_look, start_look);
}

/* --- to end it -------------------------------------------------------------------------------- */

static void on_stop(void *arg, struct pai_call *call)
{
    struct follow *f = arg;
    const struct pai_refusal *refusal = pai_call_refusal(call);

    if (f->done)
        return;
    if (refusal->why == PAI_FINE || refusal->why == PAI_MISSING) {
        is_back(f, &f->stop);
        f->look.pause_ms = PAUSE_MS;
        if (rg_timer_active(&f->look.timer))
            rg_timer_start(&f->look.timer, f->o.loop, 0, 0, start_look, f);
    } else {
        ask_in_spite(f, &f->stop, start_stop);
    }
}

static void start_stop(void *arg)
{
    struct follow *f = arg;
    const struct pai_request request = { .verb = PAI_STOP, .user = f->where.user,
                                         .name = f->o.submitted->id };

    if (!f->done)
        start_call(f, &f->stop, &request, on_stop, start_stop);
}

static void give_up_end(void *arg)
{
    struct follow *f = arg;

    rg_error_set_exit(&f->err, ETIMEDOUT, RG_EXIT_UNAVAILABLE,
                      "it was told to stop, and has not ended within %d s", END_MS / 1000);
    leave(f);
}

void pai_end(void *state)
{
    struct follow *f = state;

    if (f->ending || f->done)
        return;
    f->ending = true;
    f->stop.pause_ms = PAUSE_MS;
    rg_timer_start(&f->end_timer, f->o.loop, END_MS, 0, give_up_end, f);
    start_stop(f);
}

/* --- from the beginning to the end ------------------------------------------------------------ */

int pai_follow(const struct rg_follow_options *options, void **ret_state, struct rg_error *err)
{
    struct follow *f = calloc(1, sizeof(*f));
    int r = f ? pai_open_submitted(options->submitted, &f->where, &f->server, err)
              : rg_error_memory(err);

    if (r == 0) {
        f->hosts = calloc((size_t) options->nhosts + 1, sizeof(*f->hosts));
        r = f->hosts ? 0 : rg_error_memory(err);
    }
    if (r < 0) {
        pai_unfollow(f);
        return r;
    }
    f->o = *options;
    f->begun_ns = rg_now_ns();
    f->look.pause_ms = PAUSE_MS;
    for (int i = 0; i < options->nhosts; i++)
        f->hosts[i].phase = -1;
    start_look(f);
    *ret_state = f;
    return 0;
}

void pai_unfollow(void *state)
{
    struct follow *f = state;

    if (!f)
        return;
    drop_asked(&f->look);
    drop_asked(&f->logs);
    drop_asked(&f->stop);
    rg_timer_stop(&f->end_timer);
    rg_timer_stop(&f->done_timer);
    pai_server_close(f->server);
    pai_where_fini(&f->where);
    pai_answer_fini(&f->last);
    pai_log_fini(&f->log);
    rg_buf_fini(&f->line);
    free(f->log_url);
    free(f->log_places);
    free(f->hosts);
    free(f);
}
