/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/head/session.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "base/exitcode.h"
#include "launch/head/session_internal.h"

#define HARD_MS 5000       /* after KILL, for an agent to report its ranks' ends */
#define TELL_MS 2000       /* after a rank's failure, for the others to make use of the news */
#define SAME_MS 300        /* the same without a runtime: all may fail by the same error */
#define LEAVE_MS 15000     /* for a rank to end that has left the others, and may say why */
#define NAMED_HOSTS_MAX 8
#define LATE_SAID_MAX 200 /* bytes that a host said last, in a message */

uint64_t session_elapsed_ns(const struct rg_session *session)
{
    return rg_now_ns() - session->start_ns;
}

void session_set_phase(struct session_host *host, enum rg_host_phase phase, const char *reason)
{
    struct rg_session *session = host->session;

    host->phase = phase;
    snprintf(host->reason, sizeof(host->reason), "%s", reason);
    if (session->ops->on_phase)
        session->ops->on_phase(session->o.arg, host->index, phase, reason);
}

void session_broadcast(struct rg_session *session, enum rg_msg_type type, const void *object)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        if (host->ready && host->channel)
            rg_msg_send(host->channel, type, object);
    }
}

bool session_is_script(const struct rg_session *session)
{
    return session->o.plan->engine && session->o.job->engine == RG_ENGINE_SCRIPT;
}

void session_set_cause(struct rg_session *session, int exit_code, const char *fmt, ...)
{
    va_list args;

    if (*session->own_cause)
        return;
    va_start(args, fmt);
    vsnprintf(session->own_cause, sizeof(session->own_cause), fmt, args);
    va_end(args);
    session->own_exit_code = exit_code;
    /* An engine that has lost a part of itself often ends before we hear of that. */
    session->own_first = !session->some_failed ||
                         (session->o.plan->engine && exit_code < RG_EXIT_SIGNAL);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* An agent that has not even its ranks' ends to report after SIGKILL is beyond our orders. */
static void hard_due(void *arg)
{
    struct rg_session *session = arg;

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        if (!host->gone && (session->abandoned || session->nended < session->o.plan->nranks))
            session->o.driver->stop(session->driver_state, i);
    }
    if (session->abandoned) {
        session->discarding = true;
        session_drop_output(session);
    }
    session_check_end(session);
}

static void kill_all(struct rg_session *session)
{
    session_broadcast(session, RG_MSG_KILL, NULL);
    for (int i = 0; i < session->o.plan->nranks; i++)
        session->ranks[i].signalled = SIGKILL;
    if (session->killing)
        return;
    session->killing = true;
    rg_timer_start(&session->hard_timer, session->o.loop, HARD_MS, 0, hard_due, session);
}

static void grace_due(void *arg)
{
    kill_all(arg);
}

static void send_signal(struct rg_session *session, int signo)
{
    for (int i = 0; i < session->o.plan->nranks; i++)
        session->ranks[i].signalled = (uint32_t) signo;
    session_broadcast(session, RG_MSG_SIGNAL, &(struct rg_msg_signal){ (uint32_t) signo });
}

/* Hosts whose agent has not come need no grace, nor do agents that have started nothing. */
static void stop_the_unready(struct rg_session *session, bool was_running)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        if (!host->ready && !host->gone && session->driver_state)
            session->o.driver->stop(session->driver_state, i);
        else if (host->ready && host->channel && !was_running)
            rg_msg_send(host->channel, RG_MSG_KILL, NULL);
    }
}

static void stop_ranks(struct rg_session *session, int signo)
{
    bool again = session->stopping;

    session->stopping = true;
    send_signal(session, signo);
    if (again)
        return;
    if (session->o.job->grace_ms)
        rg_timer_start(&session->grace_timer, session->o.loop, session->o.job->grace_ms, 0,
                       grace_due, session);
    else
        kill_all(session);
}

static void tell_due(void *arg)
{
    stop_ranks(arg, SIGTERM);
}

static void end_by(struct rg_session *session, int signo, uint64_t tell_ms)
{
    bool was_running = session->state == STATE_RUNNING;

    if (session->state >= STATE_ENDING)
        return;
    session->state = STATE_ENDING;
    rg_timer_stop(&session->start_timer);
    rg_timer_stop(&session->job_timer);
    rg_timer_stop(&session->network_timer);
    rg_timer_stop(&session->engine_timer);
    stop_the_unready(session, was_running);
    if (was_running && session->nended < session->o.plan->nranks) {
        if (session->paused)
            rg_session_signal(session, SIGCONT);
        if (tell_ms)
            rg_timer_start(&session->grace_timer, session->o.loop, tell_ms, 0, tell_due, session);
        else
            stop_ranks(session, signo);
    }
    session_check_end(session);
}

void session_begin_end(struct rg_session *session)
{
    end_by(session, SIGTERM, 0);
}

static bool some_exited(const struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nranks; i++) {
        const struct rg_fact *fact = &session->facts[i];
        if (fact->ended && fact->end.end == RG_END_EXIT && fact->end.value != 0)
            return true;
    }
    return false;
}

void session_end_after_failure(struct rg_session *session)
{
    for (int i = 0; session->runtime_used && i < session->o.plan->nranks; i++) {
        if (!session->facts[i].ended && !session->facts[i].awaited)
            session->facts[i].told = true;
    }
    end_by(session, SIGTERM, session->nawaited       ? LEAVE_MS
                             : session->runtime_used ? TELL_MS
                             : some_exited(session)  ? SAME_MS
                                                     : 0);
}

void session_await(struct rg_session *session, int rank)
{
    struct rg_fact *fact = &session->facts[rank];

    if (session->state != STATE_RUNNING || fact->ended || fact->awaited)
        return;
    fact->awaited = true;
    session->nawaited++;
}

void session_awaited_ended(struct rg_session *session)
{
    if (--session->nawaited == 0 && !session->stopping && rg_timer_active(&session->grace_timer))
        rg_timer_start(&session->grace_timer, session->o.loop, TELL_MS, 0, tell_due, session);
}

static void fill_the_unstarted(struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nranks; i++) {
        struct rg_fact *fact = &session->facts[i];
        if (fact->ended)
            continue;
        fact->ended = true;
        fact->end.end = RG_END_NOT_STARTED;
        fact->end.value = ECANCELED;
        fact->end.at_ns = session_elapsed_ns(session);
    }
}

void session_note_stopped(struct rg_session *session)
{
    const char *dot = strstr(session->own_cause, ". ");

    session->nstopped = dot ? (size_t) (dot - session->own_cause) + 2 : 0;
}

/* By a signal that platforms use; a shell makes an exit code of it. */
static bool was_killed(const struct rg_rank_end *end)
{
    int signo = end->end == RG_END_SIGNAL ? end->value : end->value - RG_EXIT_SIGNAL;

    return (end->end == RG_END_SIGNAL || end->end == RG_END_EXIT) &&
           (signo == SIGKILL || signo == SIGTERM) && !end->oom;
}

/* Every rank that failed was killed, or is gone with its host. */
static bool all_were_killed(const struct rg_session *session)
{
    bool some = false;

    for (int i = 0; i < session->o.plan->nranks; i++) {
        const struct rg_rank_end *end = &session->facts[i].end;
        bool well = (end->end == RG_END_EXIT && end->value == 0) || end->end == RG_END_NOT_STARTED;

        if (!well && end->end != RG_END_LOST && !was_killed(end))
            return false;
        some |= !well;
    }
    return some;
}

/* What stopped the agents, or killed the ranks, in the platform's own words. */
static void ask_platform(struct rg_session *session)
{
    const struct rg_driver_ops *driver = session->o.driver;
    bool told = session->nstopped > 0;
    bool free = !*session->own_cause || session->own_exit_code == RG_EXIT_PREEMPTED ||
                session->own_exit_code == RG_EXIT_HOST_LOST;
    bool killed = free && !session->user_signo && all_were_killed(session);
    int code = RG_EXIT_PREEMPTED;

    if (!driver->ending || !session->driver_state || !(told || killed))
        return;
    const char *why = driver->ending(session->driver_state, &code);
    if (!why)
        return;
    snprintf(session->own_cause + session->nstopped, sizeof(session->own_cause) - session->nstopped,
             "%s", why);
    session->own_exit_code = code;
    session->own_first |= killed;
}

static void give_verdict(void *arg)
{
    struct rg_session *session = arg;
    int nranks = session->o.plan->nranks;
    struct rg_verdict verdict = { 0 };

    if (session->state == STATE_ENDED)
        return;
    session->state = STATE_ENDED;
    fill_the_unstarted(session);
    ask_platform(session);
    struct rg_facts facts = {
        .ranks = session->facts,
        .nranks = nranks,
        .own_cause = session->own_cause,
        .own_exit_code = session->own_exit_code,
        .own_first = session->own_first,
        .own_is_signal = session->own_is_signal,
        .script = session_is_script(session),
        .output_lost = session->output_lost,
    };
    for (int i = 0; i < nranks; i++) {
        session->facts[i].lines = rg_tail_hash(&session->ranks[i].tail);
        session->facts[i].error = rg_tail_hash_error(&session->ranks[i].errors);
    }
    rg_verdict_judge(&facts, session->cause, &verdict);
    for (int i = 0; i < nranks; i++)
        session->ends[i] = session->facts[i].end;
    verdict.ends = session->ends;
    verdict.nends = nranks;
    if (verdict.first) {
        int rank = verdict.first->rank;
        verdict.first = &session->ends[rank];
        verdict.code_of = &session->ends[verdict.code_of->rank];
        verdict.nlast_lines = rg_tail_lines(&session->ranks[rank].tail, session->last_lines);
    }
    verdict.last_lines = session->last_lines;
    verdict.elapsed_ns = session_elapsed_ns(session);
    rg_timer_stop(&session->grace_timer);
    rg_timer_stop(&session->hard_timer);
    rg_timer_stop(&session->job_timer);
    rg_timer_stop(&session->tick_timer);
    rg_timer_stop(&session->fence_timer);
    session->ops->on_ended(session->o.arg, &verdict);
}

void session_check_end(struct rg_session *session)
{
    if (session->state == STATE_ENDED || session->chunks || rg_timer_active(&session->end_timer))
        return;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        const struct session_host *host = &session->hosts[i];
        if (!host->gone || (!host->bye && !host->lost))
            return;
    }
    /* From the loop, so that no caller of ours is on the stack when the owner hears of it. */
    rg_timer_start(&session->end_timer, session->o.loop, 0, 0, give_verdict, session);
}

/* --- limits ----------------------------------------------------------------------------------- */

static const char *phase_word(const struct session_host *host)
{
    static const char *const words[] = {
        [RG_PHASE_PENDING] = "pending",       [RG_PHASE_STARTING] = "starting",
        [RG_PHASE_PULLING] = "pulling",       [RG_PHASE_CONNECTING] = "connecting",
        [RG_PHASE_READY] = "ready",           [RG_PHASE_RUNNING] = "starting its ranks",
        [RG_PHASE_ENDED] = "ended",           [RG_PHASE_LOST] = "lost",
    };

    return words[host->phase];
}

static bool all_started_on(const struct session_host *host)
{
    const struct rg_plan_host *planned = &host->session->o.plan->hosts[host->index];

    for (int i = 0; i < planned->nranks; i++) {
        int rank = host->session->o.plan->by_host[planned->first_rank_index + i];
        if (!host->session->ranks[rank].started)
            return false;
    }
    return true;
}

static void start_due(void *arg)
{
    struct rg_session *session = arg;
    rg_autobuf struct rg_buf who = RG_BUF_INIT;
    int nlate = 0;

    if (session->state == STATE_STARTING && session->unstarted_exit_code)
        session_blame_unstarted(session);
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        bool late = session->state == STATE_RUNNING ? !all_started_on(host)
                                                    : !host->ready || host->wants_bundle;
        char said[LATE_SAID_MAX] = "";
        if (!late || nlate++ >= NAMED_HOSTS_MAX)
            continue;
        rg_buf_printf(&who, "%s%s (%s%s%s", nlate > 1 ? ", " : "", session->o.plan->hosts[i].name,
                      phase_word(host), *host->reason ? ": " : "", host->reason);
        if (!host->channel && session->o.driver->said && session->driver_state)
            session->o.driver->said(session->driver_state, i, said, sizeof(said));
        rg_buf_printf(&who, "%s%s)", *said ? "; it said last: " : "", said);
    }
    if (!nlate)
        rg_buf_printf(&who, session->network_done ? "hosts are still being looked at"
                                                  : "hosts are still trying to reach each other");
    session_set_cause(session, RG_EXIT_TIMEOUT,
                      "not ready within %.6g s (--start-timeout): %s%s",
                      (double) session->o.job->start_timeout_ms / 1000.0, rg_buf_text(&who),
                      nlate > NAMED_HOSTS_MAX ? ", ..." : "");
    session_begin_end(session);
}

static void job_due(void *arg)
{
    struct rg_session *session = arg;

    session_set_cause(session, RG_EXIT_TIMEOUT, "not done within %.6g s (--timeout)",
                      (double) session->o.job->timeout_ms / 1000.0);
    session_begin_end(session);
}

/* --- the owner's orders ----------------------------------------------------------------------- */

/* by: NULL, or who has sent it. */
static void end_by_user(struct rg_session *session, int signo, const char *by)
{
    bool fresh = !*session->own_cause && !session->some_failed;

    session->user_signo = signo;
    if (by)
        session_set_cause(session, RG_EXIT_SIGNAL + signo, "told to stop %s", by);
    else
        session_set_cause(session, RG_EXIT_SIGNAL + signo, "told to stop by signal %d (%s)", signo,
                          strsignal(signo));
    /* An mpirun that was told to end may say 0, whatever became of its ranks. */
    if (fresh && (!session->o.plan->engine || session_is_script(session)))
        session->own_is_signal = true;
    if (session->state < STATE_ENDING)
        end_by(session, signo, 0);
    else if (!session->killing)
        stop_ranks(session, signo);
}

bool rg_session_evict(struct rg_session *session)
{
    const struct rg_driver_ops *driver = session->o.driver;
    const char *why = driver->stopping && session->driver_state
                          ? driver->stopping(session->driver_state, true) : NULL;

    if (!why || session->state == STATE_ENDED)
        return false;
    if (!*session->own_cause) {
        session_set_cause(session, RG_EXIT_PREEMPTED, "the job was told to stop. %s", why);
        session_note_stopped(session);
        session->own_first = session->own_first || session_failed_by(session, SIGTERM);
        session->own_is_signal = session_is_script(session);
    }
    return true;
}

void rg_session_stop(struct rg_session *session, const char *by)
{
    if (session->state != STATE_ENDED)
        end_by_user(session, SIGTERM, by);
}

void rg_session_signal(struct rg_session *session, int signo)
{
    if (session->state == STATE_ENDED)
        return;
    switch (signo) {
    case SIGINT:
    case SIGTERM: end_by_user(session, signo, NULL); return;
    case SIGTSTP:
        session->paused = true;
        session_broadcast(session, RG_MSG_PAUSE, NULL);
        return;
    case SIGCONT:
        session->paused = false;
        session_broadcast(session, RG_MSG_RESUME, NULL);
        return;
    default: break;
    }
    if (session->state == STATE_RUNNING)
        send_signal(session, signo);
    else if (signo == SIGHUP)
        end_by_user(session, signo, NULL);
}

void rg_session_kill(struct rg_session *session, const char *cause)
{
    int signo = session->user_signo ? session->user_signo : SIGKILL;

    if (session->state == STATE_ENDED)
        return;
    session_set_cause(session, RG_EXIT_SIGNAL + signo, "%s", cause && *cause ? cause : "killed");
    bool was_running = session->state == STATE_RUNNING;
    session->state = STATE_ENDING;
    session->abandoned = true;
    if (session->output_paused)
        session_drop_output(session);
    rg_timer_stop(&session->start_timer);
    rg_timer_stop(&session->job_timer);
    stop_the_unready(session, was_running);
    kill_all(session);
    session_check_end(session);
}

void rg_session_resize(struct rg_session *session, int rows, int columns)
{
    session->rows = rows;
    session->columns = columns;
    session_broadcast(session, RG_MSG_RESIZE,
                      &(struct rg_msg_resize){ (uint32_t) rows, (uint32_t) columns });
}

void rg_session_output_lost(struct rg_session *session, const char *cause)
{
    if (!*session->output_lost)
        snprintf(session->output_lost, sizeof(session->output_lost), "%s",
                 cause && *cause ? cause : "output was lost");
}

/* --- creation --------------------------------------------------------------------------------- */

static int add_env(struct rg_strv *env, const struct rg_strv *wanted, const char *option,
                   struct rg_error *err)
{
    for (size_t i = 0; i < wanted->count; i++) {
        const char *name = wanted->v[i];
        int r;
        if (strchr(name, '=')) {
            r = rg_strv_add(env, name);
        } else if (getenv(name)) {
            r = rg_strv_addf(env, "%s=%s", name, getenv(name));
        } else {
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "%s %s: there is no such variable in the environment; export "
                                     "it, or leave the option out",
                                     option, name);
        }
        if (r < 0)
            return rg_error_set(err, -r, "no memory for the environment");
    }
    return 0;
}

static int prepare(struct rg_session *session, struct rg_error *err)
{
    const struct rg_plan *plan = session->o.plan;
    int r = add_env(&session->env, &session->o.job->env, "--env", err);

    if (r == 0)
        r = add_env(&session->secret_env, &session->o.job->share_env, "--share-env", err);
    if (r < 0)
        return r;
    session->hosts = calloc((size_t) plan->nhosts + 1, sizeof(*session->hosts));
    session->ranks = calloc((size_t) plan->nranks + 1, sizeof(*session->ranks));
    session->facts = calloc((size_t) plan->nranks + 1, sizeof(*session->facts));
    session->ends = calloc((size_t) plan->nranks + 1, sizeof(*session->ends));
    if (!session->hosts || !session->ranks || !session->facts || !session->ends ||
        rg_fence_create(plan->nranks, &session->fence) < 0)
        return rg_error_set(err, ENOMEM, "no memory for %d ranks", plan->nranks);
    session->key = rg_key_hold(NULL);
    if (!session->key || rg_key_generate(session->key) < 0)
        return rg_error_set_exit(err, ENOSYS, RG_EXIT_INTERNAL,
                                 "no key for the job: libsodium cannot start");
    for (int i = 0; i < plan->nhosts; i++) {
        session->hosts[i].session = session;
        session->hosts[i].index = i;
    }
    for (int i = 0; i < plan->nranks; i++) {
        struct rg_rank_end *end = &session->facts[i].end;
        end->rank = i;
        end->host = plan->hosts[plan->ranks[i].host].name;
        end->note = "";
        end->engine = plan->engine;
    }
    session_input_init(session);
    return 0;
}

static void start_timers(struct rg_session *session)
{
    const struct rg_job *job = session->o.job;

    session->tick_ms = job->lease_ms / 4;
    if (!session->tick_ms || session->tick_ms > RG_MSG_HEARTBEAT_MS)
        session->tick_ms = RG_MSG_HEARTBEAT_MS;
    rg_timer_start(&session->tick_timer, session->o.loop, session->tick_ms, session->tick_ms,
                   session_tick, session);
    if (job->start_timeout_ms)
        rg_timer_start(&session->start_timer, session->o.loop, job->start_timeout_ms, 0, start_due,
                       session);
    if (job->timeout_ms)
        rg_timer_start(&session->job_timer, session->o.loop, job->timeout_ms, 0, job_due, session);
}

int rg_session_create(const struct rg_session_options *options, struct rg_session **ret_session,
                      struct rg_error *err)
{
    struct rg_session *session = calloc(1, sizeof(*session));

    if (!session)
        return rg_error_set(err, ENOMEM, "no memory for the session");
    session->o = *options;
    session->ops = options->ops;
    session->chunks_end = &session->chunks;
    session->start_ns = rg_now_ns();
    int r = prepare(session, err);
    if (r == 0) {
        start_timers(session);
        struct rg_driver_options driver_options = {
            .loop = options->loop,
            .job = options->job,
            .plan = options->plan,
            .held = options->held,
            .key = session->key,
            .events = &session_driver_events,
            .arg = session,
        };
        r = options->driver->start(&driver_options, &session->driver_state, err);
    }
    if (r < 0) {
        rg_session_destroy(session);
        return r;
    }
    *ret_session = session;
    return 0;
}

static void stop_timers(struct rg_session *session)
{
    struct rg_timer *const timers[] = {
        &session->fence_timer, &session->start_timer, &session->job_timer, &session->grace_timer,
        &session->hard_timer,  &session->tick_timer,  &session->end_timer,
        &session->network_timer, &session->engine_timer, &session->others_timer,
    };

    for (size_t i = 0; i < rg_array_len(timers); i++)
        rg_timer_stop(timers[i]);
}

void rg_session_destroy(struct rg_session *session)
{
    if (!session)
        return;
    stop_timers(session);
    for (int i = 0; session->hosts && i < session->o.plan->nhosts; i++)
        session_host_fini(&session->hosts[i]);
    if (session->driver_state)
        session->o.driver->destroy(session->driver_state);
    session_drop_output(session);
    for (int i = 0; session->ranks && i < session->o.plan->nranks; i++) {
        rg_tail_fini(&session->ranks[i].tail);
        rg_tail_fini(&session->ranks[i].errors);
        free(session->ranks[i].note);
        free(session->ranks[i].text);
        free(session->ranks[i].memory);
    }
    for (size_t i = 0; i < session->secret_env.count; i++)
        explicit_bzero(session->secret_env.v[i], strlen(session->secret_env.v[i]));
    rg_strv_fini(&session->env);
    rg_strv_fini(&session->secret_env);
    rg_strv_fini(&session->host_list);
    rg_fence_destroy(session->fence);
    session_remotes_fini(session);
    rg_network_destroy(session->network);
    rg_buf_fini(&session->bundle);
    free(session->hosts);
    free(session->ranks);
    free(session->facts);
    free(session->ends);
    rg_key_drop(session->key);
    free(session);
}
