/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever ends a job, it ends in this order: the cause is kept, ranks are told, signalled and
 * killed, each after its time, and the verdict comes when nothing is left. */
#include "launch/session/core/session_end.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "launch/session/core/session_facts.h"
#include "launch/session/core/session_failure.h"
#include "launch/session/core/session_stream.h"
#include "launch/verdict/tail.h"

#define HARD_MS 5000   /* after KILL, for an agent to report its ranks' ends */
#define TELL_MS 2000   /* after a rank's failure, for the others to make use of the news */
#define SAME_MS 300    /* the same without a runtime: all may fail by the same error */
/* For a rank to end that has left the others, and may say why. Its runtime does not wait for those
 * that stand still any more, as it was told of the failure: what is left to do is the script's. */
#define LEAVE_MS 15000
#define WHERE_MS 1000  /* for ranks to say where they are; a quarter of a shorter grace time */
#define WITH_NOTICE UINT64_MAX /* who has asked for it is told of the end before SIGTERM */

struct session_end {
    char cause[RG_CAUSE_MAX]; /* "": none of our own */
    char why[RG_CAUSE_MAX];   /* behind it: in the platform's words */
    bool stopped;             /* the platform may know more of the cause at the end */
    int exit_code;
    bool first, is_signal;    /* as rg_facts has them */
    bool some_failed;         /* a rank, before there was a cause */
    bool wants_notice;        /* some rank, before SIGTERM */
    bool met;                 /* the ranks have a runtime, which answers */
    int nsilent;              /* ranks that were asked where they are, and have not said so */
    uint64_t within_ms;       /* for that, and their end; 0: the grace time */
    uint64_t notice_ms;       /* of it, before SIGTERM */
    bool meets;               /* ranks meet again, in the same processes, when some are lost */
    uint64_t notice_until_ns; /* the same in such a job: until then it goes on */
    bool well;                /* enough tasks have succeeded: how the others end does not matter */
    int user_signo;           /* SIGINT or SIGTERM that reigen got, or 0 */
    int nawaited;
    char output_lost[RG_CAUSE_MAX];
    struct rg_timer grace_timer, hard_timer, end_timer;

    char text[RG_CAUSE_MAX];  /* the verdict's, with the rest of it */
    const char *last_lines[RG_TAIL_LINES];
    struct rg_failure failure;
    struct rg_rank_end ends[];
};

static void fini(struct rg_session *session)
{
    rg_timer_stop(&session->end->grace_timer);
    rg_timer_stop(&session->end->hard_timer);
    rg_timer_stop(&session->end->end_timer);
}

const struct session_part session_end_part = {
    SESSION_PART(end), .nbytes_per_rank = sizeof(struct rg_rank_end), .fini = fini,
};

/* --- the cause -------------------------------------------------------------------------------- */

bool session_has_cause(const struct rg_session *session)
{
    return *session->end->cause != '\0';
}

bool session_set_cause(struct rg_session *session, int exit_code, const char *fmt, ...)
{
    struct session_end *e = session->end;
    va_list args;

    if (*e->cause || e->well)
        return false;
    va_start(args, fmt);
    vsnprintf(e->cause, sizeof(e->cause), fmt, args);
    va_end(args);
    e->exit_code = exit_code;
    /* An engine that has lost a part of itself often ends before we hear of that. */
    e->first = !e->some_failed || (session->o.plan->engine && exit_code < RG_EXIT_SIGNAL);
    return true;
}

/* Whoever stops an agent, or us, often signals all processes of the host: whether ranks that failed
 * before we heard of that have just died of the same signal, and so did not fail by themselves. */
static bool failed_by(const struct rg_session *session, int signo)
{
    for (int i = 0; i < session->o.plan->nranks; i++) {
        const struct rg_fact *fact = &session->facts[i];
        if (fact->ended && !(fact->end.end == RG_END_EXIT && fact->end.value == 0) &&
            !(fact->end.end == RG_END_SIGNAL && fact->end.value == signo))
            return false;
    }
    return true;
}

void session_cause_is_stop(struct rg_session *session, int signo, const char *why)
{
    struct session_end *e = session->end;

    e->stopped = why != NULL;
    if (!e->notice_ms)
        e->within_ms = session->o.job->notice_ms;
    snprintf(e->why, sizeof(e->why), "%s", why ? why : "");
    e->first = e->first || failed_by(session, signo);
    e->is_signal = session_is_script(session);
}

void session_cause_is_signal(struct rg_session *session)
{
    session->end->is_signal |= !session->end->some_failed;
}

void session_cause_was_first(struct rg_session *session)
{
    session->end->first = true;
}

bool session_was_signalled(const struct rg_session *session)
{
    return session->end->user_signo != 0;
}

void session_lost_output(struct rg_session *session, const char *cause)
{
    struct session_end *e = session->end;

    if (!*e->output_lost)
        snprintf(e->output_lost, sizeof(e->output_lost), "%s", cause);
}

/* --- signals ---------------------------------------------------------------------------------- */

/* An agent that has not even its ranks' ends to report after SIGKILL is beyond our orders. */
static void hard_due(void *arg)
{
    struct rg_session *session = arg;
    bool abandoned = session->state == STATE_ABANDONED;

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (!session->hosts[i].gone && (abandoned || session->nended < session->o.plan->nranks))
            session->o.driver->stop(session->driver_state, i);
    }
    if (abandoned)
        session_output_drop(session, true);
    session_check_end(session);
}

static void kill_all(struct rg_session *session, enum session_state state)
{
    bool again = session->state >= STATE_KILLING;

    session_broadcast(session, RG_MSG_KILL, NULL);
    if (session->state < state)
        session->state = state;
    if (!again)
        rg_timer_start(&session->end->hard_timer, session->o.loop, HARD_MS, 0, hard_due, session);
}

static void grace_due(void *arg)
{
    kill_all(arg, STATE_KILLING);
}

void session_send_signal(struct rg_session *session, int signo)
{
    session_broadcast(session, RG_MSG_SIGNAL, &(struct rg_msg_signal){ (uint32_t) signo });
}

void session_pause(struct rg_session *session, bool pause)
{
    if (pause && !session->paused)
        session->pauses.at_ns = rg_now_ns();
    else if (session->paused && !pause)
        session->pauses.ns += rg_now_ns() - session->pauses.at_ns;
    session->paused = pause;
    session_broadcast(session, pause ? RG_MSG_PAUSE : RG_MSG_RESUME, NULL);
}

/* Hosts whose agent has not come need no grace, nor do agents that have started nothing. */
static void stop_the_unready(struct rg_session *session, bool was_running)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        if ((host->state == HOST_AWAITED || host->unstarted) && !host->gone &&
            session->driver_state)
            session->o.driver->stop(session->driver_state, i);
        else if (session_host_listens(host) && !was_running)
            session_send(host, RG_MSG_KILL, NULL);
    }
}

static void stop_ranks(struct rg_session *session, int signo)
{
    bool again = session->state >= STATE_STOPPING;

    session_send_signal(session, signo);
    if (again)
        return;
    session->state = STATE_STOPPING;
    const struct session_end *e = session->end;
    uint64_t grace_ms = e->notice_ms ? e->within_ms - e->notice_ms : session->o.job->grace_ms;

    if (grace_ms)
        rg_timer_start(&session->end->grace_timer, session->o.loop, grace_ms, 0, grace_due,
                       session);
    else
        kill_all(session, STATE_KILLING);
}

static void tell_due(void *arg)
{
    struct rg_session *session = arg;

    if (session->state == STATE_ENDING)
        stop_ranks(session, SIGTERM);
}

static void wait_to_stop(struct rg_session *session, uint64_t tell_ms)
{
    rg_timer_start(&session->end->grace_timer, session->o.loop, tell_ms, 0, tell_due, session);
}

static void tell_ranks(struct rg_session *session, enum rg_update result)
{
    session_broadcast(session, RG_MSG_UPDATE, &(struct rg_rankmsg_update){ .result = result });
}

/* A process that got SIGTERM can't tell any more. For how long to wait for the answers. */
static uint64_t ask_where(struct rg_session *session)
{
    struct session_end *e = session->end;
    uint64_t patience_ms = (e->within_ms ? e->within_ms : session->o.job->grace_ms) / 4;

    if (!e->met || !patience_ms)
        return 0;
    tell_ranks(session, RG_UPDATE_WHERE);
    for (int i = 0; i < session->o.plan->nranks; i++)
        e->nsilent += !session->facts[i].ended && !session->facts[i].end.place;
    return !e->nsilent ? 0 : patience_ms < WHERE_MS ? patience_ms : WHERE_MS;
}

void session_end_told_where(struct rg_session *session)
{
    struct session_end *e = session->end;

    if (e->nsilent > 0 && --e->nsilent == 0 && !e->notice_ms)
        tell_due(session);
}

/* The rest of the time is for those that make nothing of it. */
static uint64_t give_notice(struct rg_session *session)
{
    struct session_end *e = session->end;

    if (e->wants_notice) {
        tell_ranks(session, RG_UPDATE_STOPS);
        e->within_ms = e->within_ms ? e->within_ms : session->o.job->grace_ms;
        e->notice_ms = rg_job_until_term_ms(session->o.job, e->within_ms);
    }
    return e->notice_ms;
}

static void end_by(struct rg_session *session, int signo, uint64_t tell_ms);

static void notice_due(void *arg)
{
    end_by(arg, SIGTERM, 0);
}

static void wait_for_notice(struct rg_session *session)
{
    struct session_end *e = session->end;

    e->notice_until_ns = rg_now_ns() + e->notice_ms * RG_NS_PER_MS;
    rg_timer_start(&e->grace_timer, session->o.loop, e->notice_ms, 0, notice_due, session);
}

/* Ranks that are between two epochs hear nothing now, and in an end nobody would meet any more. So
 * they go on until one ends, or the time is over. Whether that is so. */
static bool give_notice_and_go_on(struct rg_session *session)
{
    struct session_end *e = session->end;

    if (e->notice_until_ns)
        return true;
    if (!e->meets || !session->open || session->state != STATE_RUNNING ||
        session_none_runs(session) || !give_notice(session))
        return false;
    if (session->paused)
        session_pause(session, false);
    wait_for_notice(session);
    return true;
}

/* Ranks that were told have the time that began then; or this one, where it ends earlier. */
static void hurry(struct rg_session *session, uint64_t within_ms)
{
    struct session_end *e = session->end;
    uint64_t notice_ms = rg_job_until_term_ms(session->o.job, within_ms);

    if (rg_now_ns() + notice_ms * RG_NS_PER_MS >= e->notice_until_ns)
        return;
    e->within_ms = within_ms;
    e->notice_ms = notice_ms;
    wait_for_notice(session);
}

static void end_by(struct rg_session *session, int signo, uint64_t tell_ms)
{
    bool was_running = session->state == STATE_RUNNING;

    if (session->state >= STATE_ENDING ||
        (tell_ms == WITH_NOTICE && give_notice_and_go_on(session)))
        return;
    session->state = STATE_ENDING;
    session->open = false;
    stop_the_unready(session, was_running);
    if (was_running && session->nended < session->o.plan->nranks) {
        if (session->paused)
            session_pause(session, false);
        if (tell_ms == WITH_NOTICE) {
            uint64_t where_ms = ask_where(session);

            tell_ms = give_notice(session);
            tell_ms = tell_ms ? tell_ms : where_ms;
        }
        if (tell_ms)
            wait_to_stop(session, tell_ms);
        else
            stop_ranks(session, signo);
    }
    session_check_end(session);
}

void session_wants_notice(struct rg_session *session)
{
    session->end->wants_notice = true;
}

void session_goes_on(struct rg_session *session, bool meets)
{
    session->end->meets = meets;
}

bool session_is_noticed(const struct rg_session *session)
{
    return session->end->notice_until_ns != 0;
}

void session_notice_over(struct rg_session *session)
{
    uint64_t now_ns = rg_now_ns(), until_ns = session->end->notice_until_ns;

    end_by(session, SIGTERM, until_ns > now_ns ? (until_ns - now_ns) / RG_NS_PER_MS + 1 : 0);
}

void session_end_met(struct rg_session *session)
{
    session->end->met = true;
    if (session->end->notice_ms)
        tell_ranks(session, RG_UPDATE_STOPS);
}

void session_begin_stop(struct rg_session *session, uint64_t within_ms)
{
    struct session_end *e = session->end;

    if (within_ms && session->state == STATE_RUNNING && session_is_noticed(session))
        hurry(session, within_ms);
    else if (within_ms && !e->notice_ms)
        e->within_ms = within_ms;
    end_by(session, SIGTERM, WITH_NOTICE);
}

void session_end_by_error(struct rg_session *session, const struct rg_error *err)
{
    session_set_cause(session, err->exit_code ? err->exit_code : RG_EXIT_INTERNAL, "%s", err->text);
    session_begin_end(session);
}

void session_begin_end(struct rg_session *session)
{
    end_by(session, SIGTERM, 0);
}

/* Ranks have time to save their work, or say where they are and get SIGTERM next: a platform that
 * ends all pods may tell that of the head after another one's. */
static bool is_awaited(const struct session_end *e, int signo)
{
    return e->notice_ms || (signo == SIGTERM && e->nsilent > 0);
}

void session_end_by_user(struct rg_session *session, int signo)
{
    session->end->user_signo = signo;
    if (session->state < STATE_ENDING && session_is_noticed(session))
        return;
    if (session->state < STATE_ENDING)
        end_by(session, signo, signo == SIGTERM ? WITH_NOTICE : 0);
    else if (session->state >= STATE_STOPPING ? session->state < STATE_KILLING
                                              : !is_awaited(session->end, signo))
        stop_ranks(session, signo);
}

void session_abandon(struct rg_session *session, const char *cause)
{
    const struct session_end *e = session->end;
    bool was_running = session->state == STATE_RUNNING;

    session_set_cause(session, RG_EXIT_SIGNAL + (e->user_signo ? e->user_signo : SIGKILL), "%s",
                      cause);
    session->open = false;
    kill_all(session, STATE_ABANDONED);
    session_output_drop(session, false);
    stop_the_unready(session, was_running);
    session_check_end(session);
}

/* --- failures of ranks ------------------------------------------------------------------------ */

static bool some_exited(const struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nranks; i++) {
        const struct rg_fact *fact = &session->facts[i];
        if (fact->ended && fact->end.end == RG_END_EXIT && fact->end.value != 0)
            return true;
    }
    return false;
}

void session_end_after_failure(struct rg_session *session, bool told)
{
    struct session_end *e = session->end;

    if (!*e->cause)
        e->some_failed = true;
    for (int i = 0; told && i < session->o.plan->nranks; i++) {
        if (!session->facts[i].ended && !session->facts[i].awaited)
            session->facts[i].told = true;
    }
    end_by(session, SIGTERM, e->nawaited              ? LEAVE_MS
                             : told                   ? TELL_MS
                             : some_exited(session)   ? SAME_MS
                                                      : 0);
}

void session_end_well(struct rg_session *session)
{
    if (session->state != STATE_RUNNING)
        return;
    session->end->well = true;
    end_by(session, SIGTERM, 0);
}

void session_await(struct rg_session *session, int rank)
{
    struct rg_fact *fact = &session->facts[rank];

    if (session->state != STATE_RUNNING || fact->ended || fact->awaited)
        return;
    fact->awaited = true;
    session->end->nawaited++;
}

void session_awaited_ended(struct rg_session *session)
{
    struct session_end *e = session->end;

    if (--e->nawaited == 0 && session->state == STATE_ENDING && rg_timer_active(&e->grace_timer))
        wait_to_stop(session, TELL_MS);
}

/* --- the verdict ------------------------------------------------------------------------------ */

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
        fact->excused |= session->o.job->elastic.on; /* nobody missed it */
    }
}

/* By a signal that platforms use; a shell makes an exit code of it. */
static bool was_killed(const struct rg_rank_end *end)
{
    int signo = end->end == RG_END_SIGNAL ? end->value : end->value - RG_EXIT_SIGNAL;

    return (end->end == RG_END_SIGNAL || end->end == RG_END_EXIT) &&
           (signo == SIGKILL || signo == SIGTERM) && !end->oom;
}

/* Every rank that failed was killed, or is gone with its host, which may have had none so far. */
static bool all_were_killed(const struct rg_session *session)
{
    bool some = session->end->exit_code == RG_EXIT_HOST_LOST;

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
    struct session_end *e = session->end;
    bool free = !*e->cause || e->exit_code == RG_EXIT_PREEMPTED ||
                e->exit_code == RG_EXIT_HOST_LOST;
    bool killed = free && !e->user_signo && all_were_killed(session);
    int code = RG_EXIT_PREEMPTED;

    if (!driver->ending || !session->driver_state || !(e->stopped || killed))
        return;
    const char *why = driver->ending(session->driver_state, &code);
    if (!why)
        return;
    snprintf(e->stopped ? e->why : e->cause, RG_CAUSE_MAX, "%s", why);
    e->exit_code = code;
    e->first |= killed;
}

/* Agents that wait for it: theirs are the links that are still there. */
static void tell_verdict(struct rg_session *session, int exit_code)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        if (host->state == HOST_DONE && host->channel)
            session_send(host, RG_MSG_VERDICT,
                         &(struct rg_msg_verdict){ (uint32_t) exit_code });
        rg_channel_destroy(rg_steal_ptr(&host->channel));
    }
}

/* What this attempt is compared by. */
static void tell_failure(struct rg_session *session, struct rg_verdict *verdict)
{
    if (verdict->first && session->o.job->max_restarts) {
        int rank = verdict->first->rank;
        session_failure_take(session, rank, rank, &session->end->failure);
        session_failure_note_steps(session, &session->end->failure);
        verdict->failure = &session->end->failure;
    }
    verdict->twice = session->twice;
}

static void give_verdict(void *arg)
{
    struct rg_session *session = arg;
    struct session_end *e = session->end;
    int nranks = session->o.plan->nranks;
    struct rg_verdict verdict = { 0 };

    session->state = STATE_ENDED;
    fill_the_unstarted(session);
    ask_platform(session);
    session_output_hash(session);
    if (*e->why)
        snprintf(e->cause + strlen(e->cause), sizeof(e->cause) - strlen(e->cause), ". %s", e->why);
    struct rg_facts facts = {
        .ranks = session->facts,
        .nranks = nranks,
        .own_cause = e->cause,
        .own_exit_code = e->exit_code,
        .own_first = e->first,
        .own_is_signal = e->is_signal,
        .script = session_is_script(session),
        .output_lost = e->output_lost,
    };
    for (int i = 0; e->well && i < nranks; i++)
        session->facts[i].excused = true;
    rg_verdict_judge(&facts, e->text, &verdict);
    for (int i = 0; i < nranks; i++)
        e->ends[i] = session->facts[i].end;
    verdict.ends = e->ends;
    verdict.nends = nranks;
    if (verdict.first) {
        verdict.first = &e->ends[verdict.first->rank];
        verdict.code_of = &e->ends[verdict.code_of->rank];
        verdict.nlast_lines = session_output_last_lines(session, verdict.first->rank,
                                                        e->last_lines);
    }
    verdict.last_lines = e->last_lines;
    tell_failure(session, &verdict);
    verdict.elapsed_ns = session_elapsed_ns(session);
    rg_timer_stop(&e->grace_timer);
    rg_timer_stop(&e->hard_timer);
    tell_verdict(session, verdict.exit_code);
    session->o.ops->on_ended(session->o.arg, &verdict);
}

void session_check_end(struct rg_session *session)
{
    struct session_end *e = session->end;

    if (session->state == STATE_ENDED || session_is_open(session) ||
        session_output_waits(session) || rg_timer_active(&e->end_timer))
        return;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        const struct session_host *host = &session->hosts[i];
        if (!host->gone || host->state <= HOST_READY)
            return;
    }
    /* From the loop, so that no caller of ours is on the stack when the owner hears of it. */
    rg_timer_start(&e->end_timer, session->o.loop, 0, 0, give_verdict, session);
}
