/* SPDX-License-Identifier: Apache-2.0 */
/* One host's agent: its link and what it says, and how its two halves end, the link and the
 * process. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "launch/session/chaos/chaos.h"
#include "launch/session/core/session_end.h"
#include "launch/session/core/session_facts.h"
#include "launch/session/core/session_stream.h"
#include "launch/session/remote/remote.h"
#include "launch/session/elastic/elastic.h"
#include "launch/session/elastic/session_lateness.h"
#include "launch/session/elastic/session_numbers.h"
#include "launch/session/elastic/waits.h"
#include "launch/session/meet/meet.h"
#include "launch/session/session_internal.h"
#include "launch/session/start/start.h"
#include "launch/net/network.h"

#define PATIENCE_MS 1000 /* between one half of an agent's end and the other */
#define CAUSE_MS 3000    /* for the driver to tell how an agent died whose link is closed */

/* --- ends ------------------------------------------------------------------------------------- */

/* The process is still there though its link is closed: make an end of it. */
static void stop_agent(void *arg)
{
    struct session_host *host = arg;

    if (!host->gone)
        host->session->o.driver->stop(host->session->driver_state, host->index);
}

static void finish(struct session_host *host)
{
    bool unseen = session_host_unseen(host);

    /* Nobody will tell that its agent is gone, and one that has said BYE waits for the verdict; in
     * a job that goes on it may call again, and be another host. */
    host->gone |= unseen;
    if (host->state != HOST_DONE || !unseen || session_is_open(host->session))
        rg_channel_destroy(rg_steal_ptr(&host->channel));
    session_remote_host_gone(host);
#ifndef RG_AGENT
    session_sync_lost(host);
#endif
    session_end_streams(host);
    if (host->state == HOST_DONE)
        session_host_set_phase(host, RG_PHASE_ENDED, "");
    if (!host->gone)
        rg_timer_start(&host->patience, host->session->o.loop, PATIENCE_MS, 0, stop_agent, host);
    session_check_end(host->session);
}

static void set_lost(struct session_host *host, const char *how)
{
    struct rg_session *session = host->session;
    bool before = session->state == STATE_STARTING;
    bool unstarted = before && host->state == HOST_AWAITED;
    int exit_code = before ? RG_EXIT_UNAVAILABLE : RG_EXIT_HOST_LOST;

    if (host->state > HOST_READY)
        return;
    host->state = HOST_LOST;
    session_input_go_on(session);
    if (host->gone_err.exit_code && (before || host->gone_err.exit_code == RG_EXIT_PREEMPTED))
        exit_code = host->gone_err.exit_code;
    if (session_is_open(session))
        unstarted = false; /* others may come in its place */
    else if (unstarted)
        session_host_unstarted(host, exit_code, how);
    else
        session_set_cause(session, exit_code, "host %s: %s", session_host_name(host), how);
    session_host_set_phase(host, RG_PHASE_LOST, how);
    session_lose_ranks(host);
    finish(host);
    if (unstarted)
        session_settle_start(session);
    else
        session_elastic_lost(host);
}

/* cut: nothing is known of it but that it does not answer. It was there; and where somebody puts
 * another one in its place, it has not failed. */
static void lose(struct session_host *host, const char *how, bool cut)
{
    if (cut && host->state == HOST_READY && session_is_open(host->session) &&
        session_host_returns(host)) {
        char text[RG_ERROR_TEXT_MAX + RG_HOST_NAME_MAX + 64];

        snprintf(text, sizeof(text), "host %s: %s; another one of its name is awaited",
                 session_host_name(host), how);
        session_remark(host->session, -1, text);
        host->taken = true;
    }
    set_lost(host, how);
}

static bool is_cut(const struct session_host *host)
{
    return host->gone_err.errnum == ECONNRESET;
}

/* The driver has seen the agent's end. What it wrote before is still in the link, so the link's end
 * decides. */
static void link_is_late(void *arg)
{
    struct session_host *host = arg;

    lose(host, host->gone_err.text, is_cut(host));
}

static void on_gone(void *arg, int index, const struct rg_error *err)
{
    struct rg_session *session = arg;
    struct session_host *host = &session->hosts[index];

    host->gone = true;
    host->gone_err = *err;
    rg_timer_stop(&host->patience);
    if (host->state > HOST_READY)
        session_check_end(session);
    else if (host->channel)
        rg_timer_start(&host->patience, session->o.loop, PATIENCE_MS, 0, link_is_late, host);
    else
        lose(host, *err->text ? err->text : "its agent is gone", is_cut(host));
}

/* Nothing was asked of any agent so far, as not all are there. */
static bool is_early(const struct rg_session *session)
{
    bool some = false;

    if (session_is_open(session))
        return false;

    for (int i = 0; i < session->o.plan->nhosts; i++)
        some |= session->hosts[i].state == HOST_AWAITED;
    return some && session->state == STATE_STARTING;
}

/* As if its agent had never come: the platform starts another one in its place. */
static void await_again(struct session_host *host)
{
    rg_channel_destroy(rg_steal_ptr(&host->channel));
    rg_timer_stop(&host->patience);
    rg_codec_clear(rg_msg_find(RG_MSG_HELLO)->fields, &host->hello);
    host->hello = (struct rg_msg_hello){ 0 };
    host->state = HOST_AWAITED;
    host->silent_ms = 0;
    session_host_set_phase(host, RG_PHASE_PENDING, "its agent was there, and has gone");
}

/* Only its link tells of it. */
static void lose_unseen(struct session_host *host, const char *how)
{
    if (is_early(host->session)) {
        await_again(host);
        return;
    }
    host->gone_err.exit_code = RG_EXIT_HOST_LOST;
    host->taken = session_is_open(host->session); /* a fixed job gets no other one */
    set_lost(host, how);
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
    const char *unseen = session_host_unseen(host);

    rg_channel_destroy(rg_steal_ptr(&host->channel));
    rg_timer_stop(&host->patience);
    if (host->state == HOST_DONE)
        return;
    if (unseen && err->errnum != EBADMSG && err->errnum != EPROTO)
        lose_unseen(host, unseen);
    else if (host->gone)
        lose(host, *host->gone_err.text ? host->gone_err.text : "its agent is gone", is_cut(host));
    else if (err->errnum == EBADMSG || err->errnum == EPROTO)
        set_lost(host, err->text);
    else
        rg_timer_start(&host->patience, host->session->o.loop, CAUSE_MS, 0, closed_for_long, host);
}

static void on_bye(struct session_host *host, const struct rg_msg_bye *msg)
{
    struct rg_session *session = host->session;
    char text[512];

    host->state = HOST_DONE;
    session_input_go_on(session);
    if (msg->nleft) {
        snprintf(text, sizeof(text), "%u processes on %s could not be killed", msg->nleft,
                 session_host_name(host));
        session_remark(session, -1, text);
    }
    session_lose_ranks(host); /* none, unless they were never started */
    finish(host);
    session_elastic_lost(host);
}

/* --- what agents say -------------------------------------------------------------------------- */

/* Of an elastic job: it goes by itself. */
static void set_up(struct session_host *host)
{
    if (host->state == HOST_READY && !session_setup_is_wanted(host))
        session_elastic_ready(host);
}

static void join(struct session_host *host)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_network *network;

    if (session_own_network(host, &network, &err) < 0) {
        set_lost(host, err.text);
    } else {
        session_send_setup_to(host, network);
        set_up(host);
    }
    rg_network_destroy(network);
}

#ifndef RG_AGENT
static bool is_same_machine(const struct session_host *a, const struct session_host *b)
{
    const struct rg_msg_hello *x = &a->hello, *y = &b->hello;

    return a != b && b->state == HOST_READY && x->boot_id && y->boot_id && *x->boot_id &&
           strcmp(x->boot_id, y->boot_id) == 0 && x->netns && x->netns == y->netns &&
           strcmp(x->hostname, y->hostname) == 0;
}

/* Ranks count from 0 on each host of the plan, and so does what they choose by that: GPUs, cores.
 * Of hosts that people have named, this tells what names can't; containers of an operator's pods
 * have GPUs of their own. Once is enough. */
static void look_for_twin(struct session_host *host)
{
    struct rg_session *session = host->session;
    const struct session_host *twin = NULL;
    const char *name = session_host_name(host);
    char text[RG_CAUSE_MAX];
    bool told = false;

    const struct rg_platform *platform = &session->o.driver->platform;

    if ((!platform->any_host && !platform->here) ||
        rg_env_get(&session->o.job->settings, RG_JOB_EXEC))
        return;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        const struct session_host *other = &session->hosts[i];

        told |= other->twin;
        twin = !twin && is_same_machine(host, other) ? other : twin;
    }
    host->twin = twin != NULL;
    if (!twin || told)
        return;
    const char *first = twin < host ? session_host_name(twin) : name;

    snprintf(text, sizeof(text), "%s and %s are one machine, %s, and count as two: local ranks "
             "begin at 0 on each, so that two choose the same GPU or core. Name it once, with all "
             "its slots: -H %s:N", first, first == name ? session_host_name(twin) : name,
             host->hello.hostname, first);
    session_remark(session, -1, text);
}
#endif

static int on_hello(struct session_host *host, struct rg_msg_hello *take_hello)
{
    if (host->state != HOST_AWAITED)
        return -EBADMSG;
    host->state = HOST_READY;
    host->hello = *take_hello;
    *take_hello = (struct rg_msg_hello){ 0 };
    if (host->session->state != STATE_STARTING && !session_is_open(host->session)) {
        session_send(host, RG_MSG_KILL, NULL);
        return 0;
    }
    session_host_set_phase(host, RG_PHASE_READY, "");
#ifndef RG_AGENT
    look_for_twin(host);
#endif
    if (session_is_open(host->session)) {
        join(host);
        return 0;
    }
    session_settle_start(host->session);
    session_find_network(host->session);
    return 0;
}

void session_let_go(struct rg_session *session)
{
    if (session->o.job->elastic.on && session_none_runs(session))
        session_release(session);
}

static void on_stopping(struct session_host *host, const struct rg_msg_signal *msg)
{
    struct rg_session *session = host->session;
    const struct rg_driver_ops *driver = session->o.driver;
    const char *why = driver->stopping ? driver->stopping(session->driver_state, false) : NULL;

    if (session_is_open(session) && !driver->platform.stops_all) {
        session_elastic_drain(host);
        return;
    }
    if (session_set_cause(session, RG_EXIT_PREEMPTED,
                          "host %s: its agent was told to stop: signal %u", session_host_name(host),
                          msg->signo))
        session_cause_is_stop(session, (int) msg->signo, why);
    session_begin_stop(session, session->o.job->notice_ms);
    session_let_go(session);
}

/* It has something that it was waited for. */
static void go_on(struct session_host *host)
{
    if (session_is_open(host->session))
        set_up(host);
    else
        session_set_up(host->session);
}

static int on_bundle_wanted(struct session_host *host, uint64_t nbytes)
{
    int r = session_on_bundle_wanted(host, nbytes);

    if (r == 0)
        go_on(host);
    return r;
}

#ifndef RG_AGENT
/* Without it a fixed job cannot begin, and of an elastic one this host is of no use. */
static int on_sync_said(struct session_host *host, const struct rg_msg_sync_said *msg)
{
    struct rg_error err = RG_ERROR_INIT;
    bool wanted = session_sync_is_wanted(host);
    int r = session_sync_on_said(host, msg, &err);

    if (r == 0 && wanted && !session_sync_is_wanted(host))
        go_on(host);
    if (r == 0 || !err.errnum)
        return r;
    if (session_is_open(host->session)) {
        set_lost(host, err.text);
        stop_agent(host);
        return 0;
    }
    session_set_cause(host->session, RG_EXIT_UNAVAILABLE, "host %s: %s", session_host_name(host),
                      err.text);
    session_begin_end(host->session);
    return 0;
}
#endif

/* One that comes when the job is ending has missed nothing. */
static int on_elastic_message(struct session_host *host, uint16_t type, const union rg_msg *msg)
{
    if (!host->session->o.job->elastic.on)
        return -EBADMSG;
    if (session_is_open(host->session) && type == RG_MSG_MEET)
        session_elastic_on_meet(host, &msg->meet);
    else if (session_is_open(host->session))
        session_elastic_on_word(host, (int) msg->rank_id.rank);
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
    case RG_MSG_MEET:
    case RG_MSG_ELASTIC: return on_elastic_message(host, type, msg);
    default: return -EBADMSG;
    }
}

static int on_message(struct session_host *host, uint16_t type, union rg_msg *msg)
{
    if (type != RG_MSG_HELLO && host->state == HOST_AWAITED)
        return -EBADMSG;
    if (type == RG_MSG_REMOTE_OPEN && session_chaos_asked(host, &msg->remote_open))
        return 0;
    switch (type) {
    case RG_MSG_HELLO: return on_hello(host, &msg->hello);
    case RG_MSG_PONG: session_on_pong(host); return 0;
    case RG_MSG_LISTENING: return session_on_listening(host, &msg->listening);
    case RG_MSG_PROBED: return session_on_probed(host, &msg->probed);
    case RG_MSG_CLOCK: session_on_clock(host, &msg->clock); return 0;
    case RG_MSG_INSPECTED: return session_on_inspected(host, &msg->inspected);
    case RG_MSG_INPUT_CREDIT: return session_on_input_credit(host, msg->bytes.nbytes);
    case RG_MSG_INPUT_CLOSED: session_on_input_closed(host); return 0;
    case RG_MSG_BUNDLE_WANTED: return on_bundle_wanted(host, msg->bytes.nbytes);
#ifndef RG_AGENT
    case RG_MSG_SYNC_SAID: return on_sync_said(host, &msg->sync_said);
#endif
    case RG_MSG_NOTE:
        if (msg->note.rank != RG_MSG_NO_RANK && !session_host_has_rank(host, msg->note.rank))
            return -EBADMSG;
        session_on_note(host, &msg->note);
        return 0;
    case RG_MSG_NUMBERS:
        session_on_numbers(host, &msg->numbers);
        session_lateness_count(host->session, rg_now_ns());
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
    uint32_t from;

    if (!host->channel || host->state == HOST_DONE)
        return;
    host->silent_ms = 0;
    int r = rg_msg_decode(true, type, payload, nbytes, &from, &msg);
    if (r == 0) {
        /* It does not know its index before SETUP. */
        bool right = from == RG_MSG_ANY_HOST || from == (uint32_t) host->index;
        r = right ? on_message(host, type, &msg) : -EBADMSG;
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
        .on_drain = session_fence_go_on,
    };

    /* Another one has come in its place, and its own end was not heard of. */
    if (host->channel && is_early(session)) {
        await_again(host);
    } else if (host->channel || host->state != HOST_AWAITED || host->gone) {
        close(take_read_fd);
        if (take_write_fd != take_read_fd)
            close(take_write_fd);
        if (host->channel && host->state <= HOST_READY && session_is_open(session))
            lose_unseen(host, "another one has come in its place");
        return;
    }
    session_host_set_phase(host, RG_PHASE_CONNECTING, "");
    int r = rg_channel_create(&options, &host->channel);
    if (r < 0)
        set_lost(host, strerror(-r));
}

static void on_phase(void *arg, int index, int phase, const char *reason)
{
    struct rg_session *session = arg;

    session_host_set_phase(&session->hosts[index], (enum rg_host_phase) phase, reason);
    if (phase == RG_PHASE_PULLING)
        session_settle_start(session);
}

static void on_driver_note(void *arg, int index, const char *note)
{
    struct rg_session *session = arg;
    char text[RG_MSG_TEXT_MAX];

    snprintf(text, sizeof(text), "%s: %s", session->o.plan->hosts[index].name, note);
    session_remark(session, -1, text);
}

static void on_taken(void *arg, int index)
{
    struct rg_session *session = arg;

    if (session_is_open(session))
        session_elastic_drain(&session->hosts[index]);
}

const struct rg_driver_events session_driver_events = {
    .on_note = on_driver_note,
    .on_connected = on_connected,
    .on_phase = on_phase,
    .on_gone = on_gone,
    .on_taken = on_taken,
};

/* --- heartbeats ------------------------------------------------------------------------------- */

uint64_t session_tick_ms(const struct rg_job *job)
{
    uint64_t tick_ms = job->lease_ms / 4;

    return tick_ms && tick_ms < RG_MSG_HEARTBEAT_MS ? tick_ms : RG_MSG_HEARTBEAT_MS;
}

void session_tick(void *arg)
{
    struct rg_session *session = arg;
    uint64_t tick_ms = session_tick_ms(session->o.job);
    char how[128];

    session_waits_look(session, tick_ms);
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        if (!session_host_listens(host) || session->paused)
            continue;
        host->silent_ms += tick_ms;
        if (host->silent_ms >= session->o.job->lease_ms + tick_ms) {
            snprintf(how, sizeof(how), "its agent has been silent for %.6g s (--lease)",
                     (double) session->o.job->lease_ms / 1000.0);
            if (session_host_unseen(host))
                lose_unseen(host, how);
            else
                lose(host, how, true);
            stop_agent(host);
            continue;
        }
        session_ping(host);
    }
}

void session_host_fini(struct session_host *host)
{
    rg_codec_clear(rg_msg_find(RG_MSG_HELLO)->fields, &host->hello);
    free(host->unstarted);
    rg_timer_stop(&host->patience);
    rg_channel_destroy(rg_steal_ptr(&host->channel));
}
