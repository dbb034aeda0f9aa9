/* SPDX-License-Identifier: Apache-2.0 */
/* The session as its owner has it: its parts are made here, the user's limits kept, and the owner's
 * orders carried out. */
#include "launch/session/session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "launch/session/core/session_end.h"
#include "launch/session/core/session_facts.h"
#include "launch/session/core/session_stream.h"
#include "launch/session/chaos/chaos.h"
#include "launch/session/remote/remote.h"
#include "launch/session/elastic/elastic.h"
#include "launch/session/elastic/session_numbers.h"
#include "launch/session/meet/meet.h"
#include "launch/session/session_internal.h"
#include "launch/session/start/start.h"

#define NAMED_HOSTS_MAX 8
#define LATE_SAID_MAX 200 /* bytes that a host said last, in a message */

struct session_limits {
    struct rg_timer start, job, tick;
};

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

static void start_due(void *arg)
{
    struct rg_session *session = arg;
    rg_autobuf struct rg_buf who = RG_BUF_INIT;
    int nlate = 0;

    if (session->state >= STATE_ENDING || session_all_started(session))
        return;
    session_blame_unstarted(session);
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        bool late = session->state == STATE_RUNNING
                        ? !session_all_started_on(host)
                        : host->state != HOST_READY || session_setup_is_wanted(host);
        char said[LATE_SAID_MAX] = "";
        if (!late || nlate++ >= NAMED_HOSTS_MAX)
            continue;
        rg_buf_printf(&who, "%s%s (%s%s%s", nlate > 1 ? ", " : "", session_host_name(host),
                      phase_word(host), *host->reason ? ": " : "", host->reason);
        if (!host->channel && session->o.driver->said && session->driver_state)
            session->o.driver->said(session->driver_state, i, said, sizeof(said));
        rg_buf_printf(&who, "%s%s)", *said ? "; it said last: " : "", said);
    }
    if (!nlate)
        rg_buf_printf(&who, session_network_is_done(session) ? "hosts are still being looked at"
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

    if (session->state >= STATE_ENDING)
        return;
    session_set_cause(session, RG_EXIT_TIMEOUT, "not done within %.6g s (--timeout)",
                      (double) session->o.job->timeout_ms / 1000.0);
    session_begin_stop(session, 0);
    session_let_go(session);
}

/* --- the owner's orders ----------------------------------------------------------------------- */

/* by: NULL, or who has sent it. */
static void end_by_user(struct rg_session *session, int signo, const char *by)
{
    char cause[RG_CAUSE_MAX];

    if (by)
        snprintf(cause, sizeof(cause), "told to stop %s", by);
    else
        snprintf(cause, sizeof(cause), "told to stop by signal %d (%s)", signo, strsignal(signo));
    /* An mpirun that was told to end may say 0, whatever became of its ranks. */
    if (session_set_cause(session, RG_EXIT_SIGNAL + signo, "%s", cause) &&
        (!session->o.plan->engine || session_is_script(session)))
        session_cause_is_signal(session);
    session_end_by_user(session, signo);
    session_let_go(session);
}

bool rg_session_evict(struct rg_session *session)
{
    const struct rg_driver_ops *driver = session->o.driver;
    const char *why = !session->driver_state      ? NULL
                      : driver->stopping          ? driver->stopping(session->driver_state, true)
                      : session->o.job->notice_ms ? "the pod that it runs in is to end" : NULL;

    if (!why || session->state == STATE_ENDED)
        return false;
    if (session_set_cause(session, RG_EXIT_PREEMPTED, "the job was told to stop"))
        session_cause_is_stop(session, SIGTERM, why);
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
    case SIGTSTP: session_pause(session, true); return;
    case SIGCONT:
        session_pause(session, false);
        session_elastic_go_on(session);
        return;
    default: break;
    }
    if (session->state == STATE_RUNNING && !session_is_noticed(session))
        session_send_signal(session, signo);
    else if (signo == SIGHUP)
        end_by_user(session, signo, NULL);
}

void rg_session_kill(struct rg_session *session, const char *cause)
{
    if (session->state != STATE_ENDED)
        session_abandon(session, cause && *cause ? cause : "killed");
}

int rg_session_input(struct rg_session *session, const void *data, size_t nbytes)
{
    return session_input_put(session, data, nbytes);
}

void rg_session_resize(struct rg_session *session, int rows, int columns)
{
    session_resize(session, rows, columns);
}

void rg_session_pause_output(struct rg_session *session, bool pause)
{
    session_output_pause(session, pause);
    if (!pause)
        session_check_end(session);
}

void rg_session_output_lost(struct rg_session *session, const char *cause)
{
    session_lost_output(session, cause && *cause ? cause : "output was lost");
}

const char *rg_session_unstarted(const struct rg_session *session, int host)
{
    return session->hosts[host].unstarted;
}

/* --- creation --------------------------------------------------------------------------------- */

static int init_limits(struct rg_session *session)
{
    const struct rg_job *job = session->o.job;
    struct session_limits *limits = session->limits;
    uint64_t tick_ms = session_tick_ms(job);

    rg_timer_start(&limits->tick, session->o.loop, tick_ms, tick_ms, session_tick, session);
    if (job->start_timeout_ms && !job->elastic.on)
        rg_timer_start(&limits->start, session->o.loop, job->start_timeout_ms, 0, start_due,
                       session);
    if (job->timeout_ms)
        rg_timer_start(&limits->job, session->o.loop, job->timeout_ms, 0, job_due, session);
    return 0;
}

static void fini_limits(struct rg_session *session)
{
    rg_timer_stop(&session->limits->tick);
    rg_timer_stop(&session->limits->start);
    rg_timer_stop(&session->limits->job);
}

static const struct session_part limits_part = {
    SESSION_PART(limits), .init = init_limits, .fini = fini_limits,
};

/* In the order in which they are made; all may be destroyed when some are missing. */
static const struct session_part *const parts[] = {
    &session_ranks_part, &session_fences_part, &session_output_part, &session_input_part,
    &session_end_part, &session_setup_part, &session_network_part, &session_starting_part,
    &session_engine_part, &session_versions_part, &session_remotes_part, &limits_part,
    &session_elastic_part,
#ifndef RG_AGENT
    &session_chaos_part, &session_sync_part,
#endif
};

static int prepare(struct rg_session *session, struct rg_error *err)
{
    const struct rg_plan *plan = session->o.plan;
    int r = 0;

    session->hosts = calloc((size_t) plan->room_hosts, sizeof(*session->hosts));
    if (!session->hosts)
        r = -ENOMEM;
    for (size_t i = 0; r == 0 && i < rg_array_len(parts); i++)
        r = session_part_create(session, parts[i]);
    if (r < 0)
        return rg_error_set(err, ENOMEM, "no memory for %d ranks", plan->nranks);
    r = session_collect_env(session, err);
    if (r < 0)
        return r;
    session->key = rg_key_hold(session->o.key);
    if (session->key && !session->o.key && session->o.driver->key)
        return session->o.driver->key(session->key, err);
    if (!session->key || (!session->o.key && rg_key_generate(session->key) < 0))
        return rg_error_set_exit(err, ENOSYS, RG_EXIT_INTERNAL,
                                 "no key for the job: libsodium cannot start");
    return 0;
}

/* Before anything is started. */
static int check_elastic(const struct rg_session_options *options, struct rg_error *err)
{
    if (!options->job->elastic.on || options->driver->add)
        return 0;
    return rg_error_set_exit(err, ENOTSUP, RG_EXIT_USAGE,
                             "on %s a job keeps the hosts that it begins with: leave --min-np and "
                             "--max-np out", options->driver->platform.title);
}

int rg_session_create(const struct rg_session_options *options, struct rg_session **ret_session,
                      struct rg_error *err)
{
    struct rg_session *session = calloc(1, sizeof(*session));

    if (!session)
        return rg_error_set(err, ENOMEM, "no memory for the session");
    session->o = *options;
    session->on_fit = session_elastic_all_ready;
    session->start_ns = rg_now_ns();
    int r = check_elastic(options, err);
    if (r == 0)
        r = prepare(session, err);
    if (r == 0 && options->numbers && session_numbers_open(session) < 0)
        r = rg_error_memory(err);
    if (r == 0 && !options->job->elastic.on)
        r = session_elastic_begin(session, err);
    if (r == 0) {
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
    if (r == 0 && options->job->elastic.on)
        r = session_elastic_begin(session, err);
    if (r < 0) {
        rg_session_destroy(session);
        return r;
    }
    *ret_session = session;
    return 0;
}

void rg_session_destroy(struct rg_session *session)
{
    if (!session)
        return;
    for (int i = 0; session->hosts && i < session->o.plan->nhosts; i++)
        session_host_fini(&session->hosts[i]);
    if (session->driver_state)
        session->o.driver->destroy(session->driver_state);
    session_numbers_close(session);
    for (size_t i = rg_array_len(parts); i-- > 0;)
        session_part_destroy(session, parts[i]);
    free(session->hosts);
    rg_key_drop(session->key);
    free(session);
}
