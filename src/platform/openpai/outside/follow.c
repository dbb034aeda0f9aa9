/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that is stayed with. Its head is a task of it: what that writes is the job's output.
 * OpenPAI tells nothing by itself, so it is asked, often while something happens and seldom while
 * nothing does. Nothing of the job depends on us: a server that is away is asked again later.
 *
 * Three calls are made, each in its own turn: a look at the job, the head's log, and, to end the
 * job, a stop.
 */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "platform/common/follower.h"
#include "platform/openpai/outside/internal.h"

#define PAUSE_MS 400       /* between two looks, while things happen, and */
#define PAUSE_MAX_MS 3000  /* later */
#define AWAY_MAX_MS 10000  /* where the server does not answer */
#define APPEAR_MS 60000    /* a job that was just submitted need not be listed yet */
#define LOG_MS 20000       /* for the log's end, after the job's */
#define NO_LOG_MAX 3       /* answers in a row, before the user is told */
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
    struct rg_follower us;
    struct pai_where where;
    struct pai_server *server;
    struct asked look, logs, stop;
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
};

static void start_look(void *arg);
static void start_log(void *arg);
static void start_stop(void *arg);

/* --- the end ---------------------------------------------------------------------------------- */

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
        f->us.o.on_output(f->us.o.arg, rg_buf_bytes(&f->line), rg_buf_nbytes(&f->line));
    }
    rg_buf_clear(&f->line);
}

static bool close_all(void *state)
{
    struct follow *f = state;
    struct asked *const all[] = { &f->look, &f->logs, &f->stop };

    for (size_t i = 0; i < rg_array_len(all); i++)
        rg_timer_stop(&all[i]->timer);
    put_line_end(f);
    return false;
}

/* It is over, and so is its log. What we have ended ourselves needs no explanation. */
static void conclude(struct follow *f)
{
    struct rg_error err = RG_ERROR_INIT;
    int code = pai_verdict(pai_server_version(f->server), &f->last.job, &err);

    if (!f->us.ending)
        f->us.err = err;
    rg_follower_finish(&f->us, code);
}

/* --- asking again and again ------------------------------------------------------------------- */

static void ask_later(struct follow *f, struct asked *asked, uint64_t max_ms,
                      void (*start)(void *arg))
{
    rg_timer_start(&asked->timer, f->us.o.loop, asked->pause_ms, 0, start, f);
    asked->pause_ms = asked->pause_ms * 3 / 2 < max_ms ? asked->pause_ms * 3 / 2 : max_ms;
}

static enum rg_trouble trouble_of(enum pai_refused why)
{
    bool passes = why == PAI_AWAY || why == PAI_LATE || why == PAI_BUSY || why == PAI_REFUSED;

    return passes ? RG_TROUBLE_PASSES : why == PAI_FOREIGN ? RG_TROUBLE_ODD : RG_TROUBLE_STAYS;
}

static void ask_in_spite(struct follow *f, struct asked *asked, void (*start)(void *arg))
{
    const struct pai_refusal *refusal = pai_call_refusal(asked->call);
    struct rg_error cause = RG_ERROR_INIT;

    pai_explain(f->server, refusal, &cause);
    if (rg_follower_bears(&f->us, trouble_of(refusal->why), &asked->ncomplaints, &cause))
        ask_later(f, asked, AWAY_MAX_MS, start);
}

static void is_back(struct follow *f, struct asked *asked)
{
    asked->ncomplaints = 0;
    rg_follower_is_back(&f->us);
}

/* NULL: no memory for a call; it is tried later. */
static void start_call(struct follow *f, struct asked *asked, const struct pai_request *request,
                       void (*on_end)(void *arg, struct pai_call *call), void (*start)(void *arg))
{
    pai_call_stop(rg_steal_ptr(&asked->call));
    if (pai_call_start(&asked->call, f->server, f->us.o.loop, request, on_end, f) < 0)
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
            rg_timer_start(&f->logs.timer, f->us.o.loop, 0, 0, start_log, f);
        return;
    }
    if (again)
        rg_follower_sayf(&f->us, "OpenPAI starts job %s again: retry %d", f->us.o.submitted->id,
                         f->retries);
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
    size_t skipped = f->us.o.nlast && !f->told_log ? skip_lines(text, nbytes, f->us.o.nlast) : 0;
    const uint8_t *end;

    f->told_log = true;
    rg_buf_put(&f->line, text + skipped, nbytes - skipped);
    end = rg_buf_nbytes(&f->line)
              ? memrchr(rg_buf_bytes(&f->line), '\n', rg_buf_nbytes(&f->line)) : NULL;
    size_t whole = end ? (size_t) (end - rg_buf_bytes(&f->line)) + 1
                   : rg_buf_nbytes(&f->line) > LINE_MAX_NBYTES ? rg_buf_nbytes(&f->line) : 0;
    if (whole) {
        f->us.o.on_output(f->us.o.arg, rg_buf_bytes(&f->line), whole);
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
        rg_follower_sayf(&f->us, "the %slog of job %s cannot be read: %s",
                         f->told_log ? "rest of the " : "", f->us.o.submitted->id, cause.text);
        conclude(f);
        return;
    } else if (!missing && !f->told_no_log && ++f->logs.ncomplaints == NO_LOG_MAX) {
        pai_explain(f->server, refusal, &cause);
        rg_follower_sayf(&f->us, "the log of job %s cannot be read now, and is asked for again: %s",
                         f->us.o.submitted->id, cause.text);
        f->told_no_log = true;
    }
    ask_later(f, &f->logs, PAUSE_MAX_MS, start_log);
}

static void on_log(void *arg, struct pai_call *call)
{
    struct follow *f = arg;
    struct rg_buf *text = &pai_call_answer(call)->text;
    size_t nbytes = rg_buf_nbytes(text);

    if (f->us.done)
        return;
    if (pai_call_refusal(call)->why != PAI_FINE) {
        on_no_log(f);
        return;
    }
    if (pai_call_answer(call)->skipped)
        rg_follower_sayf(&f->us, "some of the log of job %s was lost: the server keeps the end "
                         "alone", f->us.o.submitted->id);
    if (nbytes)
        put_log(f, (const char *) rg_buf_bytes(text), nbytes);
    f->logs.ncomplaints = 0;
    if (f->us.done) /* who reads it has ended us */
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

    if (!f->us.done)
        start_call(f, &f->logs, &request, on_log, start_log);
}

/* --- the job ---------------------------------------------------------------------------------- */

static void tell_phase(struct follow *f, int host, enum rg_host_phase phase, const char *reason)
{
    struct host *known = host < f->us.o.nhosts ? &f->hosts[host] : NULL;
    struct host now = { .phase = (int) phase };

    snprintf(now.reason, sizeof(now.reason), "%s", reason);
    if (!known || (known->phase == now.phase && strcmp(known->reason, now.reason) == 0))
        return;
    *known = now;
    f->us.o.on_phase(f->us.o.arg, host, known->phase, known->reason);
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
    for (int host = (int) job->ntasks; host < f->us.o.nhosts; host++)
        tell_phase(f, host, RG_PHASE_PENDING, reason);
    if (!job->ntasks || nup < job->ntasks || (int) nup < f->us.o.nhosts)
        return;
    f->running = true;
    if (f->us.o.on_running)
        f->us.o.on_running(f->us.o.arg);
}

/* OpenPAI has begun all tasks again, as --max-restarts lets it, or as it has lost a node. */
static void begin_again(struct follow *f, int retries)
{
    f->retries = retries;
    f->running = false;
    for (int i = 0; i < f->us.o.nhosts; i++)
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
            rg_timer_start(&f->logs.timer, f->us.o.loop, 0, 0, start_log, f);
    }
    choose_log(f);
}

/* Of an elastic job, which goes on: what the others make of it its head says. */
static void tell_losses(struct follow *f, const struct pai_job *old, const struct pai_job *job)
{
    bool elastic = f->us.o.job && f->us.o.job->elastic.on;
    char name[PAI_HOST_MAX];

    if (!elastic || !f->running || pai_state_is_end(job->state) || old->ntasks != job->ntasks ||
        old->retries != job->retries)
        return;
    for (size_t i = 0; i < job->ntasks; i++) {
        const struct pai_task *task = &job->tasks[i];
        bool was = old->tasks[i].state == PAI_RUNNING, is = task->state == PAI_RUNNING;
        if (was && !is)
            rg_follower_sayf(&f->us, "task %s is lost%s%s", pai_task_name(task, name),
                             *task->said ? ": " : "", task->said);
        else if (!was && is)
            rg_follower_sayf(&f->us, "task %s runs again", pai_task_name(task, name));
    }
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

    if (f->us.o.job && !f->seen && young) {
        ask_later(f, &f->look, PAUSE_MAX_MS, start_look);
        return;
    }
    if (!f->us.ending)
        rg_error_set_exit(&f->us.err, ECANCELED, f->seen ? RG_EXIT_PREEMPTED : RG_EXIT_UNAVAILABLE,
                          "job %s is not on OpenPAI any more: it was removed after its end, or by "
                          "somebody", f->us.o.submitted->id);
    rg_follower_finish(&f->us, -1);
}

static void on_look(void *arg, struct pai_call *call)
{
    struct follow *f = arg;
    struct pai_answer *answer = pai_call_answer(call);

    if (f->us.done)
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
    if (has_changed(&f->last.job, &answer->job) || f->us.ending)
        f->look.pause_ms = PAUSE_MS;
    tell_losses(f, &f->last.job, &answer->job);
    pai_answer_fini(&f->last);
    f->last = *answer;
    *answer = (struct pai_answer){ .was_there = false };
    take_job(f, &f->last.job);
    if (!f->us.done && !f->over_ns)
        ask_later(f, &f->look, PAUSE_MAX_MS, start_look);
}

static void start_look(void *arg)
{
    struct follow *f = arg;
    const struct pai_request request = { .verb = PAI_LOOK, .user = f->where.user,
                                         .name = f->us.o.submitted->id };

    if (!f->us.done)
        start_call(f, &f->look, &request, on_look, start_look);
}

/* --- to end it -------------------------------------------------------------------------------- */

static void on_stop(void *arg, struct pai_call *call)
{
    struct follow *f = arg;
    const struct pai_refusal *refusal = pai_call_refusal(call);

    if (f->us.done)
        return;
    if (refusal->why == PAI_FINE || refusal->why == PAI_MISSING) {
        is_back(f, &f->stop);
        f->look.pause_ms = PAUSE_MS;
        if (rg_timer_active(&f->look.timer))
            rg_timer_start(&f->look.timer, f->us.o.loop, 0, 0, start_look, f);
    } else {
        ask_in_spite(f, &f->stop, start_stop);
    }
}

static void start_stop(void *arg)
{
    struct follow *f = arg;
    const struct pai_request request = { .verb = PAI_STOP, .user = f->where.user,
                                         .name = f->us.o.submitted->id };

    if (!f->us.done)
        start_call(f, &f->stop, &request, on_stop, start_stop);
}

static void give_up_end(void *state)
{
    struct follow *f = state;

    rg_error_set_exit(&f->us.err, ETIMEDOUT, RG_EXIT_UNAVAILABLE,
                      "it was told to stop, and has not ended within %d s",
                      RG_FOLLOWER_END_MS / 1000);
    rg_follower_leave(&f->us);
}

void pai_end(void *state)
{
    struct follow *f = state;

    if (!rg_follower_end(&f->us, give_up_end))
        return;
    f->stop.pause_ms = PAUSE_MS;
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
    f->us = (struct rg_follower){ .o = *options, .who = "OpenPAI", .close = close_all,
                                  .state = f };
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
    rg_follower_fini(&f->us);
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
