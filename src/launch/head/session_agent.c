/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "launch/head/session_internal.h"

#define PATIENCE_MS 1000 /* between one half of an agent's end and the other */
#define CAUSE_MS 3000    /* for the driver to tell how an agent died whose link is closed */
#define OTHERS_MS 12000  /* for the other hosts to come or fail, when one cannot be started */

static void set_lost(struct session_host *host, const char *how);

/* --- ends ------------------------------------------------------------------------------------- */

/* The process is still there though its link is closed: make an end of it. */
static void stop_agent(void *arg)
{
    struct session_host *host = arg;

    if (!host->gone)
        host->session->o.driver->stop(host->session->driver_state, host->index);
}

static void wait_for_gone(struct session_host *host)
{
    if (!host->gone)
        rg_timer_start(&host->patience, host->session->o.loop, PATIENCE_MS, 0, stop_agent, host);
}

void session_host_finish(struct session_host *host)
{
    rg_channel_destroy(rg_steal_ptr(&host->channel));
    session_remote_host_gone(host);
    session_end_streams(host);
    if (host->bye)
        session_set_phase(host, RG_PHASE_ENDED, "");
    wait_for_gone(host);
    session_check_end(host->session);
}

/* --- hosts that cannot be started ------------------------------------------------------------- */

/* Whether it can still turn out soon that it cannot be started. An image takes its time. */
static bool is_open(const struct session_host *host)
{
    return !host->ready && !host->lost &&
           (host->phase != RG_PHASE_PULLING || host->session->o.doctor);
}

static void others_due(void *arg)
{
    struct rg_session *session = arg;

    if (session->state != STATE_STARTING || !session->unstarted_exit_code)
        return;
    session_blame_unstarted(session);
    session_begin_end(session);
}

/* One host has failed, so the job has; but who repairs it wants to know of all that fail. The
 * doctor waits for all that can be known. */
void session_settle_start(struct rg_session *session)
{
    if (session->state != STATE_STARTING || !session->unstarted_exit_code)
        return;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (!is_open(&session->hosts[i]))
            continue;
        if (!session->o.doctor && !rg_timer_active(&session->others_timer))
            rg_timer_start(&session->others_timer, session->o.loop, OTHERS_MS, 0, others_due,
                           session);
        return;
    }
    others_due(session);
}

static void fail_start(struct session_host *host, int exit_code, const char *how)
{
    struct rg_session *session = host->session;

    host->unstarted = strdup(how);
    if (!session->unstarted_exit_code)
        session->unstarted_exit_code = exit_code;
    session_set_phase(host, RG_PHASE_LOST, how);
    session_lose_ranks(host);
    session_host_finish(host);
    session_settle_start(session);
}

static void set_lost(struct session_host *host, const char *how)
{
    struct rg_session *session = host->session;
    const char *name = session->o.plan->hosts[host->index].name;
    bool before = session->state == STATE_STARTING;
    int exit_code = before ? RG_EXIT_UNAVAILABLE : RG_EXIT_HOST_LOST;

    if (host->lost || host->bye)
        return;
    host->lost = true;
    session_input_go_on(session);
    if (host->gone_err.exit_code && (before || host->gone_err.exit_code == RG_EXIT_PREEMPTED))
        exit_code = host->gone_err.exit_code;
    if (before && !host->ready) {
        fail_start(host, exit_code, how);
        return;
    }
    session_set_cause(session, exit_code, "host %s: %s", name, how);
    session_set_phase(host, RG_PHASE_LOST, how);
    session_lose_ranks(host);
    session_host_finish(host);
    session_begin_end(session);
}

/* The driver has seen the agent's end. What it wrote before is still in the link, so the link's end
 * decides. */
static void link_is_late(void *arg)
{
    struct session_host *host = arg;

    set_lost(host, host->gone_err.text);
}

static void on_gone(void *arg, int index, const struct rg_error *err)
{
    struct rg_session *session = arg;
    struct session_host *host = &session->hosts[index];

    host->gone = true;
    host->gone_err = *err;
    rg_timer_stop(&host->patience);
    if (host->bye || host->lost)
        session_check_end(session);
    else if (host->channel)
        rg_timer_start(&host->patience, session->o.loop, PATIENCE_MS, 0, link_is_late, host);
    else
        set_lost(host, *err->text ? err->text : "its agent is gone");
}

static void closed_for_long(void *arg)
{
    struct session_host *host = arg;

    set_lost(host, "its agent closed the link");
    stop_agent(host);
}

/* A clean end without BYE means that the agent died; the driver will tell how. */
static void on_close(void *arg, const struct rg_error *err)
{
    struct session_host *host = arg;

    rg_channel_destroy(rg_steal_ptr(&host->channel));
    rg_timer_stop(&host->patience);
    if (host->gone)
        set_lost(host, *host->gone_err.text ? host->gone_err.text : "its agent is gone");
    else if (err->errnum == EBADMSG || err->errnum == EPROTO)
        set_lost(host, err->text);
    else
        rg_timer_start(&host->patience, host->session->o.loop, CAUSE_MS, 0, closed_for_long, host);
}

static void on_bye(struct session_host *host, const struct rg_msg_bye *msg)
{
    struct rg_session *session = host->session;

    host->bye = true;
    session_input_go_on(session);
    if (msg->nleft && session->ops->on_note) {
        char text[128];
        snprintf(text, sizeof(text), "%u processes on %s could not be killed", msg->nleft,
                 session->o.plan->hosts[host->index].name);
        session->ops->on_note(session->o.arg, -1, text);
    }
    session_lose_ranks(host); /* none, unless they were never started */
    session_host_finish(host);
}

/* --- what agents say -------------------------------------------------------------------------- */

void session_start_ranks(struct rg_session *session)
{
    session->state = STATE_RUNNING;
    session_broadcast(session, RG_MSG_START, NULL);
    for (int i = 0; i < session->o.plan->nhosts; i++)
        session_set_phase(&session->hosts[i], RG_PHASE_RUNNING, "");
    if (session->paused)
        session_broadcast(session, RG_MSG_PAUSE, NULL);
    session_input_start(session);
    if (session->ops->on_running)
        session->ops->on_running(session->o.arg);
}

static int on_hello(struct session_host *host, struct rg_msg_hello *hello)
{
    if (host->ready)
        return -EBADMSG;
    host->ready = true;
    host->hostname = rg_steal_ptr(&hello->hostname);
    session_keep_hello(host, hello);
    if (host->session->state != STATE_STARTING) {
        rg_msg_send(host->channel, RG_MSG_KILL, NULL);
        return 0;
    }
    session_set_phase(host, RG_PHASE_READY, "");
    session_settle_start(host->session);
    session_find_network(host->session);
    return 0;
}

bool session_failed_by(const struct rg_session *session, uint32_t signo)
{
    for (int i = 0; i < session->o.plan->nranks; i++) {
        const struct rg_fact *fact = &session->facts[i];
        if (fact->ended && !(fact->end.end == RG_END_EXIT && fact->end.value == 0) &&
            !(fact->end.end == RG_END_SIGNAL && fact->end.value == (int) signo))
            return false;
    }
    return true;
}

static void on_stopping(struct session_host *host, const struct rg_msg_signal *msg)
{
    struct rg_session *session = host->session;
    const char *(*stopping)(void *state, bool by_root) = session->o.driver->stopping;
    bool known = *session->own_cause;

    session_set_cause(session, RG_EXIT_PREEMPTED,
                      "host %s: its agent was told to stop: signal %u%s%s",
                      session->o.plan->hosts[host->index].name, msg->signo, stopping ? ". " : "",
                      stopping ? stopping(session->driver_state, false) : "");
    if (!known) {
        session_note_stopped(session);
        session->own_first = session->own_first || session_failed_by(session, msg->signo);
        session->own_is_signal = session_is_script(session);
    }
    session_begin_end(session);
}

static int on_input_credit(struct session_host *host, uint64_t nbytes)
{
    if (nbytes > RG_MSG_INPUT_WINDOW || host->input_credit + nbytes > RG_MSG_INPUT_WINDOW)
        return -EBADMSG;
    host->input_credit += nbytes;
    session_input_go_on(host->session);
    return 0;
}

static int on_rank_message(struct session_host *host, uint16_t type, union rg_msg *msg)
{
    /* The rank comes first in each of these. */
    if (!session_host_has_rank(host, msg->started.rank))
        return -EBADMSG;
    switch (type) {
    case RG_MSG_STARTED: session_on_started(host, &msg->started); return 0;
    case RG_MSG_NOT_STARTED: session_on_not_started(host, &msg->not_started); return 0;
    case RG_MSG_OUTPUT:
        if (msg->output.stream != 1 && msg->output.stream != 2)
            return -EBADMSG;
        return session_on_output(host, (int) msg->output.rank, msg->output.stream,
                                 &msg->output.data);
    case RG_MSG_EXITED: session_on_exited(host, &msg->exited); return 0;
    case RG_MSG_FENCE: session_on_fence(host, &msg->fence); return 0;
    default: return -EBADMSG;
    }
}

static int on_message(struct session_host *host, uint16_t type, union rg_msg *msg)
{
    if (type != RG_MSG_HELLO && !host->ready)
        return -EBADMSG;
    switch (type) {
    case RG_MSG_HELLO: return on_hello(host, &msg->hello);
    case RG_MSG_PONG: session_on_pong(host); return 0;
    case RG_MSG_LISTENING: return session_on_listening(host, &msg->listening);
    case RG_MSG_PROBED: return session_on_probed(host, &msg->probed);
    case RG_MSG_CLOCK: session_on_clock(host, &msg->clock); return 0;
    case RG_MSG_INSPECTED: return session_on_inspected(host, &msg->inspected);
    case RG_MSG_INPUT_CREDIT: return on_input_credit(host, msg->bytes.nbytes);
    case RG_MSG_INPUT_CLOSED:
        host->input_closed = true;
        session_input_go_on(host->session);
        return 0;
    case RG_MSG_BUNDLE_WANTED: return session_on_bundle_wanted(host, msg->bytes.nbytes);
    case RG_MSG_NOTE:
        if (msg->note.rank != RG_MSG_NO_RANK && !session_host_has_rank(host, msg->note.rank))
            return -EBADMSG;
        session_on_note(host, &msg->note);
        return 0;
    case RG_MSG_STOPPING: on_stopping(host, &msg->signal); return 0;
    case RG_MSG_BYE: on_bye(host, &msg->bye); return 0;
    case RG_MSG_REMOTE_OPEN:
    case RG_MSG_REMOTE_DATA:
    case RG_MSG_REMOTE_CREDIT:
    case RG_MSG_REMOTE_CLOSE:
    case RG_MSG_REMOTE_EXIT: return session_on_remote(host, type, msg);
    default: return on_rank_message(host, type, msg);
    }
}

static void on_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct session_host *host = arg;
    const struct rg_msg_info *info = rg_msg_find(type);
    union rg_msg msg;
    char how[128];

    if (!host->channel)
        return;
    host->silent_ms = 0;
    int r = rg_msg_decode(true, type, payload, nbytes, &msg);
    if (r == 0) {
        r = on_message(host, type, &msg);
        rg_msg_clear(type, &msg);
    }
    if (r == 0)
        return;
    snprintf(how, sizeof(how), "its agent sent a broken message: %s: %s",
             info ? info->name : "unknown", strerror(-r));
    set_lost(host, how);
    stop_agent(host);
}

/* --- the driver ------------------------------------------------------------------------------- */

static void on_connected(void *arg, int index, int take_read_fd, int take_write_fd)
{
    struct rg_session *session = arg;
    struct session_host *host = &session->hosts[index];
    struct rg_channel_options options = {
        .loop = session->o.loop,
        .read_fd = take_read_fd,
        .write_fd = take_write_fd,
        .link = {
            .key = session->key,
            .job_id = session->o.plan->job_id,
            .role = "agent",
            .initiator = false,
            .on_frame = on_frame,
            .arg = host,
        },
        .on_close = on_close,
    };

    session_set_phase(host, RG_PHASE_CONNECTING, "");
    int r = rg_channel_create(&options, &host->channel);
    if (r < 0)
        set_lost(host, strerror(-r));
}

static void on_phase(void *arg, int index, int phase, const char *reason)
{
    struct rg_session *session = arg;

    session_set_phase(&session->hosts[index], (enum rg_host_phase) phase, reason);
    if (phase == RG_PHASE_PULLING)
        session_settle_start(session);
}

static void on_driver_note(void *arg, int index, const char *note)
{
    struct rg_session *session = arg;
    char text[RG_MSG_TEXT_MAX];

    snprintf(text, sizeof(text), "%s: %s", session->o.plan->hosts[index].name, note);
    if (session->ops->on_note)
        session->ops->on_note(session->o.arg, -1, text);
}

const struct rg_driver_events session_driver_events = {
    .on_note = on_driver_note,
    .on_connected = on_connected,
    .on_phase = on_phase,
    .on_gone = on_gone,
};

/* --- heartbeats ------------------------------------------------------------------------------- */

void session_tick(void *arg)
{
    struct rg_session *session = arg;
    char how[128];

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        if (!host->ready || !host->channel || session->paused)
            continue;
        host->silent_ms += session->tick_ms;
        if (host->silent_ms >= session->o.job->lease_ms + session->tick_ms) {
            snprintf(how, sizeof(how), "its agent has been silent for %.6g s (--lease)",
                     (double) session->o.job->lease_ms / 1000.0);
            set_lost(host, how);
            stop_agent(host);
            continue;
        }
        host->npings++;
        rg_msg_send(host->channel, RG_MSG_PING, NULL);
    }
}

bool session_is_linked(const struct session_host *host)
{
    return host->ready && !host->gone && host->channel && rg_channel_open(host->channel);
}

void session_host_fini(struct session_host *host)
{
    rg_strv_fini(&host->addresses);
    free(host->boot_id);
    free(host->facts);
    free(host->unstarted);
    rg_timer_stop(&host->patience);
    rg_channel_destroy(rg_steal_ptr(&host->channel));
}
