/* SPDX-License-Identifier: Apache-2.0 */
/* The membership decides; here its decisions become messages, agents and words for the user. What
 * is done may at once cause the next event, so events wait in a queue until the last one is done
 * with.
 *
 * A fixed job's places are its ranks as the plan's by_host has them, and its hosts are those of the
 * plan that have ranks: all are there from the beginning, and the driver has started them. */
#include "launch/session/elastic/elastic.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "launch/session/chaos/chaos.h"
#include "launch/session/core/session_end.h"
#include "launch/session/core/session_facts.h"
#include "launch/session/core/session_stream.h"
#include "launch/session/elastic/notice.h"
#include "launch/session/elastic/session_again.h"
#include "launch/session/elastic/session_control.h"
#include "launch/session/elastic/waits.h"
#include "launch/session/meet/meet.h"
#include "launch/session/remote/remote.h"
#include "launch/session/start/start.h"

#define GATHER_MS 5000  /* for hosts that are on their way, once enough are there */
#define SETTLE_MS 30000 /* for a program to say that it can go on with other ranks */
#define JOIN_MS 600000  /* for a joiner to load what it needs, however short the time-out is */
#define DISCOVERY_MS 1000       /* between two runs of the script */
#define DISCOVERY_LIMIT_MS 30000 /* of one */
#define TRIES 1         /* failures of its ranks for which a host is set aside; */
#define TRIES_ALONE 3   /* the same where there is no other: the first would end the job */

static int init(struct rg_session *session)
{
    const struct rg_job *job = session->o.job;
    struct session_elastic *elastic = session->elastic;

    elastic->machines = calloc((size_t) session->o.plan->room_hosts, sizeof(*elastic->machines));
    if (!elastic->machines)
        return -ENOMEM;
    return job->elastic.on ? rg_epoch_seats_init(&elastic->seats, session->o.plan->room_ranks) : 0;
}

static void stop_discovery(struct session_elastic *elastic)
{
#ifdef RG_AGENT
    (void) elastic;
#else
    rg_discovery_stop(rg_steal_ptr(&elastic->discovery));
#endif
}

static void fini(struct rg_session *session)
{
    struct session_elastic *elastic = session->elastic;

    session_control_close(session);
    stop_discovery(elastic);
    rg_timer_stop(&elastic->timer);
    for (size_t i = 0; i < elastic->nmachines; i++) {
        free(elastic->machines[i].name);
        free(elastic->machines[i].user);
    }
    rg_membership_destroy(elastic->membership);
    rg_epoch_seats_fini(&elastic->seats);
    free(elastic->machines);
    rg_buf_fini(&elastic->queue);
}

const struct session_part session_elastic_part = {
    SESSION_PART(elastic), .init = init, .fini = fini,
};

/* --- its numbers ------------------------------------------------------------------------------ */

static bool is_fixed(const struct rg_session *session)
{
    return !session->o.job->elastic.on;
}

static int rank_at(const struct rg_session *session, int place)
{
    return session->o.plan->by_host[place];
}

static int place_of(const struct rg_session *session, int rank)
{
    const struct rg_plan *plan = session->o.plan;
    int place = plan->hosts[plan->ranks[rank].host].first_rank_index;

    while (rank_at(session, place) != rank)
        place++;
    return place;
}

static struct session_host *host_at(struct rg_session *session, int number)
{
    return &session->hosts[is_fixed(session) ? session->elastic->machines[number].host : number];
}

/* -1: it has no ranks. */
static int number_of(const struct session_host *host)
{
    const struct session_elastic *elastic = host->session->elastic;
    int i = (int) elastic->nmachines - 1;

    if (!is_fixed(host->session))
        return host->index;
    while (i >= 0 && elastic->machines[i].host != host->index)
        i--;
    return i;
}

/* --- what the membership wants ---------------------------------------------------------------- */

static void push(struct rg_session *session, struct rg_membership_event event);

/* Agents without ranks stay until they are let go. */
static void let_go(struct rg_session *session)
{
    if (session_none_runs(session))
        session_release(session);
}

static void give_up(struct rg_session *session, const struct rg_error *err)
{
    session_end_by_error(session, err);
    let_go(session);
}

/* Its agent could not be started. */
static void miss_host(struct session_host *host, const struct rg_error *err)
{
    host->state = HOST_LOST;
    host->gone = true;
    host->gone_err = *err;
    session_host_set_phase(host, RG_PHASE_LOST, err->text);
}

static void add_host(struct rg_session *session, const struct rg_membership_action *action)
{
    if (is_fixed(session))
        return;
    const struct machine *machine = &session->elastic->machines[action->name];
    struct rg_plan *plan = session->o.plan;
    struct rg_error err = RG_ERROR_INIT;
    struct session_host *host = &session->hosts[plan->nhosts];

    if (rg_plan_add_host(plan, machine->name, machine->user, action->slots) < 0) {
        rg_error_set(&err, ENOMEM, "no room for host %s", machine->name);
        give_up(session, &err);
        return;
    }
    session_added(session, action->host, action->place);
    if (session->o.ops->on_grown && session->o.ops->on_grown(session->o.arg, &err) < 0) {
        miss_host(host, &err);
        give_up(session, &err);
    } else if (session->o.driver->add(session->driver_state, action->host, &err) < 0) {
        miss_host(host, &err);
        session_elastic_lost(host);
    }
}

/* One whose agent has not come yet would wait for its set-up, and then for ranks: nobody misses
 * it. */
static void release_host(struct session_host *host)
{
    if (host->state != HOST_AWAITED) {
        session_send(host, RG_MSG_RELEASE, NULL);
        return;
    }
    host->state = HOST_DONE;
    session_host_set_phase(host, RG_PHASE_ENDED, "");
    host->session->o.driver->stop(host->session->driver_state, host->index);
}

/* Those of the host that are to run now, with what each of them is. */
static void send_seats(struct session_host *host)
{
    struct rg_session *session = host->session;
    struct session_elastic *elastic = session->elastic;
    const struct rg_plan_host *planned = &session->o.plan->hosts[host->index];
    rg_autofree struct rg_plan_seat *seats = calloc((size_t) planned->nranks, sizeof(*seats));
    rg_autofree int *places = calloc((size_t) planned->nranks, sizeof(*places));
    int n = 0;

    for (int i = 0; seats && places && i < planned->nranks; i++) {
        int place = planned->first_rank_index + i;
        if (!rg_membership_starts(elastic->membership, place))
            continue;
        session_renew_rank(session, place);
        seats[n] = rg_epoch_seat(&elastic->seats, elastic->membership, session->o.plan, place);
        places[n++] = place;
    }
    session_send_seats(host, places, seats, n);
}

static void start_host(struct session_host *host)
{
    if (is_fixed(host->session))
        session_send(host, RG_MSG_START, NULL);
    else
        send_seats(host);
    session_host_set_phase(host, RG_PHASE_RUNNING, "");
    if (host->session->paused)
        session_send(host, RG_MSG_PAUSE, NULL);
}

static void start_ranks(struct session_host *host)
{
    host->session->elastic->started = true;
    start_host(host);
}

/* The first ranks were started. Hosts of a fixed job that have none run as well. */
static void begin_running(struct rg_session *session)
{
    session->state = STATE_RUNNING;
    session->began_ns = session_elapsed_ns(session);
    for (int i = 0; is_fixed(session) && i < session->o.plan->nhosts; i++) {
        if (number_of(&session->hosts[i]) < 0)
            start_host(&session->hosts[i]);
    }
    session_input_start(session);
    session_chaos_begin(session);
    if (session->o.ops->on_running)
        session->o.ops->on_running(session->o.arg);
}

/* MASTER_PORT is to be free on the host of rank 0. */
static void choose_port(struct rg_session *session, int first_host)
{
    uint32_t port = session->hosts[first_host].hello.free_port;

    if (port && port <= UINT16_MAX)
        session->o.plan->master_port = (int) port;
}

static void publish(struct rg_session *session)
{
    struct session_elastic *elastic = session->elastic;
    struct rg_membership_epoch epoch = rg_membership_epoch(elastic->membership);
    struct rg_epoch_seats *seats = &elastic->seats;

    session->began_ns = session_elapsed_ns(session);
    if (rg_epoch_seats_take(seats, &epoch, session->o.plan) < 0 ||
        session_open_fence(session, epoch.number, epoch.size, seats->rank_of) < 0) {
        give_up(session, &(struct rg_error){ ENOMEM, 0, "no memory for the ranks" });
        return;
    }
    choose_port(session, seats->first_host);
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        rg_autobuf struct rg_buf mine = RG_BUF_INIT;
        if (!session_host_listens(&session->hosts[i]))
            continue;
        rg_epoch_seats_of(seats, session->o.plan, i, &mine);
        struct rg_msg_epoch msg = { epoch.number, (uint32_t) epoch.size, epoch.sync,
                                    { (uint8_t *) rg_buf_bytes(&mine), rg_buf_nbytes(&mine) } };
        session_send(&session->hosts[i], RG_MSG_EPOCH, &msg);
    }
    if (session->o.ops->on_epoch)
        session->o.ops->on_epoch(session->o.arg, epoch.number, epoch.size, seats->rank_of);
}

static void end_rank(struct rg_session *session, int place, bool hard)
{
    struct session_host *host = &session->hosts[session->o.plan->ranks[place].host];
    struct rg_msg_signal_rank msg = { (uint32_t) place, (uint32_t) (hard ? SIGKILL : SIGTERM) };

    session_send(host, RG_MSG_SIGNAL_RANK, &msg);
}

/* --- words for the user ----------------------------------------------------------------------- */

/* "rank 3 on b: exit code 1", of who failed; else the host's name. */
static void describe(const struct rg_session *session, int place, int host, char *text,
                     size_t nbytes)
{
    const struct rg_plan *plan = session->o.plan;
    char how[RG_CAUSE_MAX / 2];

    if (place < 0) {
        snprintf(text, nbytes, "host %s%s%s", host < 0 ? "" : plan->hosts[host].name,
                 host >= 0 && *session->hosts[host].reason ? ": " : "",
                 host < 0 ? "" : session->hosts[host].reason);
        return;
    }
    int rank = session_rank_of(session, place);

    rg_verdict_describe_end(&session->facts[place], how, sizeof(how));
    if (session->facts[place].end.end == RG_END_LOST)
        snprintf(how + strlen(how), sizeof(how) - strlen(how), " (%s)",
                 session->hosts[plan->ranks[place].host].reason);
    if (rank >= 0)
        snprintf(text, nbytes, "rank %d on %s: %s", rank, session->facts[place].end.host, how);
    else
        snprintf(text, nbytes, "a rank on %s: %s", session->facts[place].end.host, how);
}

static void tell_aside(struct rg_session *session, const struct rg_membership_action *action)
{
    const char *name = session->elastic->machines[action->name].name;
    char who[RG_CAUSE_MAX], text[RG_CAUSE_MAX + 512], until[64] = "for the rest of the job";
    uint64_t now_ns = elastic_now_ns(session);

    describe(session, action->place, action->host, who, sizeof(who));
    if (action->until_ns != RG_NEVER_NS)
        snprintf(until, sizeof(until), "for %.3g s",
                 (double) (action->until_ns - now_ns) / (double) RG_NS_PER_S);
    snprintf(text, sizeof(text), "host %s is set aside %s: %s%s", name, until, who,
             action->why == RG_MEMBERSHIP_NEVER_MET ? " (it did not come to meet the others)" : "");
    session_remark(session, -1, text);
    session_control_set_aside(session, action->name, action->place, who);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* A rank's failure is the job's. */
static void fail(struct rg_session *session, int rank)
{
    if (session->facts[rank].cut_by)
        session_await(session, session->facts[rank].cut_by - 1);
    session_end_after_failure(session, session_have_met(session));
}

static void end_short(struct rg_session *session, const struct rg_membership_action *action)
{
    const struct rg_elastic *asked = &session->o.job->elastic;
    bool first = rg_membership_epoch(session->elastic->membership).number == 0;
    char since[64] = "";

    if (action->waited)
        snprintf(since, sizeof(since), " for %.6g s (--elastic-timeout)",
                 (double) asked->timeout_ms / 1000.0);
    session_set_cause(session, action->waited ? RG_EXIT_TIMEOUT : RG_EXIT_UNAVAILABLE,
                      "too few hosts%s: there is room for %d rank%s, and it takes %d (%s)%s", since,
                      action->has, action->has == 1 ? "" : "s", action->needs,
                      first ? "-np" : "--min-np",
                      action->cause == RG_MEMBERSHIP_NO_ROOM
                          ? "; the job has had as many hosts as it can have in its life" : "");
}

static void end(struct rg_session *session, const struct rg_membership_action *action)
{
    char who[RG_CAUSE_MAX];

    session->open = false;
    session->elastic->over = true;
    stop_discovery(session->elastic);
    rg_timer_stop(&session->elastic->timer);
    switch (action->cause) {
    case RG_MEMBERSHIP_ALL_DONE:
        for (int i = 0; i < session->o.plan->nhosts; i++) {
            if (session->hosts[i].state == HOST_AWAITED)
                release_host(&session->hosts[i]);
        }
        session_release(session);
        return;
    case RG_MEMBERSHIP_TOO_FEW:
    case RG_MEMBERSHIP_NO_ROOM: end_short(session, action); break;
    case RG_MEMBERSHIP_RESET_LIMIT:
        session_remark(session, -1, session->o.job->elastic.restarts
                       ? "the ranks were started again as often as --max-restarts permits"
                       : "the ranks have changed as often as --reset-limit permits");
        break;
    case RG_MEMBERSHIP_ALL_ASIDE:
        if (action->host < 0)
            session_set_cause(session, RG_EXIT_UNAVAILABLE, "all hosts are set aside");
        break;
    default: break;
    }
    if (action->place >= 0) {
        int rank = rank_at(session, action->place);
        if (!is_fixed(session))
            session_accuse(session, rank);
        fail(session, rank);
    } else if (is_fixed(session)) {
        session_begin_end(session); /* the cause was kept when the host was lost */
    } else if (action->host >= 0) {
        describe(session, -1, action->host, who, sizeof(who));
        session_set_cause(session, RG_EXIT_HOST_LOST, "%s", who);
        session_begin_end(session);
    } else {
        session_set_cause(session, RG_EXIT_RESET_LIMIT, "hosts have come or gone once more");
        session_begin_end(session);
    }
    let_go(session);
}

static void end_in_vain(struct rg_session *session, int place)
{
    end(session, &(struct rg_membership_action){ .cause = RG_MEMBERSHIP_ONE_FAILED,
                                                 .place = place, .host = -1 });
}

static void tell_restart(struct rg_session *session, const struct rg_membership_action *action)
{
    char who[RG_CAUSE_MAX], text[RG_CAUSE_MAX + 128];

    if (session_again_is_vain(session, action->place)) {
        end_in_vain(session, action->place);
        return;
    }
    if (action->place < 0 && action->host < 0) {
        snprintf(text, sizeof(text), "restart %d: hosts have come or gone",
                 rg_membership_restarts(session->elastic->membership));
    } else {
        describe(session, action->place, action->host, who, sizeof(who));
        snprintf(text, sizeof(text), "restart %d, after %s",
                 rg_membership_restarts(session->elastic->membership), who);
    }
    session_remark(session, -1, text);
}

/* --- steps ------------------------------------------------------------------------------------ */

static void perform(struct rg_session *session, const struct rg_membership_action *action)
{
    char text[RG_HOST_NAME_MAX + 64];

    switch (action->type) {
    case RG_MEMBERSHIP_ADD_HOST: add_host(session, action); return;
    case RG_MEMBERSHIP_START_RANKS: start_ranks(host_at(session, action->host)); return;
    case RG_MEMBERSHIP_END_RANK: end_rank(session, action->place, action->hard); return;
    case RG_MEMBERSHIP_RELEASE:
        release_host(&session->hosts[action->host]);
        return;
    case RG_MEMBERSHIP_PUBLISH: publish(session); return;
    case RG_MEMBERSHIP_UPDATE: elastic_tell(session, action->result); return;
    case RG_MEMBERSHIP_RESTARTS: tell_restart(session, action); return;
    case RG_MEMBERSHIP_ASIDE: tell_aside(session, action); return;
    case RG_MEMBERSHIP_BACK:
        snprintf(text, sizeof(text), "host %s may be used again",
                 session->elastic->machines[action->name].name);
        session_remark(session, -1, text);
        return;
    case RG_MEMBERSHIP_END: end(session, action); return;
    default: return;
    }
}

/* Its word counts: the job is not being ended, by its own word or for a cause of the session's. */
static bool decides(const struct rg_session *session)
{
    return session->elastic->membership && !session->elastic->over &&
           session->state < STATE_ENDING;
}

static void tick(void *arg);

static void arm(struct rg_session *session)
{
    struct session_elastic *elastic = session->elastic;
    uint64_t deadline_ns = rg_membership_deadline_ns(elastic->membership);
    uint64_t now_ns = elastic_now_ns(session);

    rg_timer_stop(&elastic->timer);
    if (deadline_ns == RG_NEVER_NS || !decides(session) || session->paused)
        return;
    rg_timer_start(&elastic->timer, session->o.loop,
                   deadline_ns > now_ns ? (deadline_ns - now_ns) / RG_NS_PER_MS + 1 : 0, 0, tick,
                   session);
}

static void step(struct rg_session *session, struct rg_membership_event event)
{
    const struct rg_membership_action *actions;

    event.now_ns = elastic_now_ns(session);
    size_t n = rg_membership_step(session->elastic->membership, &event, &actions);

    for (size_t i = 0; i < n && decides(session); i++)
        perform(session, &actions[i]);
    if (session->elastic->started && session->state == STATE_STARTING)
        begin_running(session);
}

static void push(struct rg_session *session, struct rg_membership_event event)
{
    struct session_elastic *elastic = session->elastic;
    size_t done = 0;

    if (!decides(session))
        return;
    rg_buf_put(&elastic->queue, &event, sizeof(event));
    if (elastic->stepping)
        return;
    elastic->stepping = true;
    while (decides(session) && done < rg_buf_nbytes(&elastic->queue)) {
        memcpy(&event, (const uint8_t *) rg_buf_bytes(&elastic->queue) + done, sizeof(event));
        done += sizeof(event);
        step(session, event);
    }
    bool lost = rg_buf_status(&elastic->queue) < 0;

    rg_buf_fini(&elastic->queue);
    elastic->stepping = false;
    if (lost)
        give_up(session, &(struct rg_error){ ENOMEM, 0, "out of memory" });
    arm(session);
}

static void tick(void *arg)
{
    push(arg, (struct rg_membership_event){ .type = RG_MEMBERSHIP_TICK });
}

void session_elastic_go_on(struct rg_session *session)
{
    tick(session);
}

/* --- what happens ----------------------------------------------------------------------------- */

void session_elastic_ready(struct session_host *host)
{
    push(host->session, (struct rg_membership_event){ .type = RG_MEMBERSHIP_HOST_READY,
                                                      .host = number_of(host) });
}

void session_elastic_all_ready(struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nhosts; i++)
        session_elastic_ready(&session->hosts[i]);
}

void session_elastic_lost(struct session_host *host)
{
    bool failed = host->state == HOST_LOST && !host->taken;
    int number = number_of(host);

    push(host->session, (struct rg_membership_event){ .type = RG_MEMBERSHIP_HOST_LOST,
                                                      .host = number, .failed = failed });
    if (failed && is_fixed(host->session))
        session_begin_end(host->session); /* also where it has no ranks, or the end is on its way */
}

static void drain(struct rg_session *session, int name, uint64_t until_ns)
{
    push(session, (struct rg_membership_event){ .type = RG_MEMBERSHIP_DRAIN, .name = name,
                                                .until_ns = until_ns });
}

/* Another one follows it, so nobody hurries unless the platform's time for that is known; 0. */
static uint64_t known_until_ns(const struct rg_session *session)
{
    const struct rg_job *job = session->o.job;

    return job->notice_ms ? elastic_now_ns(session) +
                                rg_job_until_term_ms(job, job->notice_ms) * RG_NS_PER_MS : 0;
}

void session_elastic_drain(struct session_host *host)
{
    struct rg_session *session = host->session;
    char what[RG_HOST_NAME_MAX + 64];

    if (session_host_unseen(host) || session_host_returns(host)) {
        push(session, (struct rg_membership_event){
                          .type = RG_MEMBERSHIP_HOST_GOES, .host = number_of(host),
                          .until_ns = known_until_ns(session) });
        return;
    }
    for (size_t i = 0; i < session->elastic->nmachines; i++) {
        if (strcmp(session->elastic->machines[i].name, session_host_name(host)) == 0)
            drain(session, (int) i, session_notice_until_ns(session));
    }
    snprintf(what, sizeof(what), "host %s: its agent was told to stop", session_host_name(host));
    session_notice_given(session, what, session->o.job->notice_ms);
}

/* A rank of the epoch has saved its work, or failed; or nobody is left to save any. */
static bool ends_notice(const struct rg_session *session, int rank, const struct rg_fact *fact)
{
    return session_none_runs(session) ||
           (fact->end.end == RG_END_EXIT && !fact->signalled &&
            rg_membership_rank(session->elastic->membership, place_of(session, rank)) >= 0);
}

void session_elastic_rank_ended(struct rg_session *session, int rank, bool failed)
{
    struct rg_fact *fact = &session->facts[rank];

    if (fact->end.end == RG_END_LOST)
        session_again_lost(session);
    if (session_is_noticed(session) && ends_notice(session, rank, fact))
        session_notice_over(session);
    if (!decides(session)) { /* another one has failed while the job ends */
        if (failed)
            fail(session, rank);
        return;
    }
    if (session_again_explains(session, rank)) {
        end_in_vain(session, place_of(session, rank));
        return;
    }
    if (!is_fixed(session)) /* others may make up for it */
        fact->excused = failed;
    if (session->hosts[session->o.plan->ranks[rank].host].taken)
        return; /* it has not failed, and all of its host is lost at once */
    push(session, (struct rg_membership_event){
                      .type = RG_MEMBERSHIP_RANK_ENDED, .place = place_of(session, rank),
                      .ok = !failed, .asked = fact->signalled != 0, .cut_by = fact->cut_by - 1,
                      .faulty = failed && session_again_blames_host(session, rank) });
    if (failed && !is_fixed(session))
        session_waits_ended(session, rank);
}

void session_elastic_on_meet(struct session_host *host, const struct rg_msg_meet *msg)
{
    struct rg_session *session = host->session;

    if (msg->epoch && msg->epoch == session_epoch(session))
        session_leave_fence(session, (int) msg->rank, "it has left this epoch");
    push(session, (struct rg_membership_event){ .type = RG_MEMBERSHIP_RANK_MEETS,
                                                .place = (int) msg->rank, .epoch = msg->epoch,
                                                .failed = msg->failed != RG_MEET_FINE,
                                                .lacks = msg->failed == RG_MEET_LACKS });
}

void session_elastic_on_word(struct session_host *host, int place)
{
    struct rg_session *session = host->session;

    push(session, (struct rg_membership_event){ .type = RG_MEMBERSHIP_RANK_ELASTIC,
                                                .place = place });
    session_goes_on(session, rg_membership_in_place(session->elastic->membership));
}

/* --- the beginning ---------------------------------------------------------------------------- */

static struct rg_membership_rules rules_of(const struct rg_session *session)
{
    const struct rg_job *job = session->o.job;
    const struct rg_elastic *asked = &job->elastic;
    bool hasty = asked->timeout_ms > 0 && asked->timeout_ms < JOIN_MS;
    bool alone = !asked->discovery && job->nhosts == 1;

    return (struct rg_membership_rules){
        .elastic = true,
        .wanted_once = !asked->discovery,
        .way = asked->restarts ? RG_MEMBERSHIP_RESTART : RG_MEMBERSHIP_BY_RANKS,
        .np = job->np ? job->np : asked->min_np,
        .min_np = asked->min_np,
        .max_np = asked->max_np,
        .spares = asked->spares,
        .room_hosts = session->o.plan->room_hosts,
        .room_places = session->o.plan->room_ranks,
        .timeout_ns = asked->timeout_ms * RG_NS_PER_MS,
        .gather_ns = GATHER_MS * RG_NS_PER_MS,
        .settle_ns = SETTLE_MS * RG_NS_PER_MS,
        .grace_ns = job->grace_ms * RG_NS_PER_MS,
        .leave_ns = asked->timeout_ms * RG_NS_PER_MS,
        .join_ns = (hasty ? JOIN_MS : asked->timeout_ms) * RG_NS_PER_MS,
        .reset_limit = asked->reset_limit == RG_ELASTIC_NO_LIMIT ? -1 : asked->reset_limit,
        .tries = asked->restarts ? 0 : alone ? TRIES_ALONE : TRIES,
        .cooldown_min_ns = asked->cooldown_min_ms * RG_NS_PER_MS,
        .cooldown_max_ns = asked->cooldown_max_ms * RG_NS_PER_MS,
    };
}

/* All ranks, once. */
static struct rg_membership_rules fixed_rules(const struct rg_session *session)
{
    const struct rg_plan *plan = session->o.plan;

    return (struct rg_membership_rules){
        .wanted_once = true, .np = plan->nranks, .min_np = plan->nranks, .max_np = plan->nranks,
        .room_hosts = plan->nhosts, .room_places = plan->nranks, .reset_limit = -1, .tries = 1,
    };
}

/* The number that the membership has for a machine; -1: there is no room for one more. */
static int name_of(struct rg_session *session, const struct rg_host *host)
{
    struct session_elastic *elastic = session->elastic;
    const char *user = host->user ? host->user : "";

    for (size_t i = 0; i < elastic->nmachines; i++) {
        const struct machine *machine = &elastic->machines[i];
        if (strcmp(machine->name, host->name) == 0 &&
            strcmp(machine->user ? machine->user : "", user) == 0)
            return (int) i;
    }
    struct machine fresh = { .name = strdup(host->name), .user = *user ? strdup(user) : NULL,
                             .rank = -1 };
    bool fits = elastic->nmachines < (size_t) session->o.plan->room_hosts;

    if (!fits || !fresh.name || (*user && !fresh.user)) {
        free(fresh.name);
        free(fresh.user);
        return -1;
    }
    elastic->machines[elastic->nmachines] = fresh;
    return (int) elastic->nmachines++;
}

static void want(void *arg, const struct rg_job *hosts)
{
    struct rg_session *session = arg;
    rg_autofree struct rg_membership_machine *wanted = calloc(hosts->nhosts + 1, sizeof(*wanted));
    int each = session->o.job->ranks_per_host;
    size_t nwanted = 0;

    if (!wanted) {
        give_up(session, &(struct rg_error){ ENOMEM, 0, "out of memory" });
        return;
    }
    for (size_t i = 0; i < hosts->nhosts; i++) {
        int name = name_of(session, &hosts->hosts[i]);
        if (name >= 0)
            wanted[nwanted++] = (struct rg_membership_machine){
                name, each ? each : hosts->hosts[i].nslots };
    }
    if (nwanted < hosts->nhosts)
        session_remark(session, -1, "more hosts were listed than there is room for in one job");
    push(session, (struct rg_membership_event){ .type = RG_MEMBERSHIP_WANTED, .wanted = wanted,
                                                .nwanted = nwanted });
}

/* A job that an agent is the head of has the hosts that its platform gives it. */
#ifdef RG_AGENT
static int discover(struct rg_session *session)
{
    (void) session;
    return 0;
}
#else
static void on_failed(void *arg, const char *text)
{
    struct rg_session *session = arg;
    char words[RG_ERROR_TEXT_MAX + 64];

    if (!session->open)
        return;
    snprintf(words, sizeof(words), "%s; the hosts stay as they are", text);
    session_remark(session, -1, words);
}

static int discover(struct rg_session *session)
{
    const struct rg_elastic *asked = &session->o.job->elastic;
    struct rg_discovery_options options = {
        .loop = session->o.loop, .command = asked->discovery, .nslots = asked->slots_per_host,
        .period_ms = asked->discovery_ms ? asked->discovery_ms : DISCOVERY_MS,
        .limit_ms = DISCOVERY_LIMIT_MS, .on_hosts = want, .on_failed = on_failed, .arg = session,
    };

    return rg_discovery_start(&options, &session->elastic->discovery);
}
#endif

/* All hosts of the plan that have ranks. */
static void want_fixed(struct rg_session *session)
{
    const struct rg_plan *plan = session->o.plan;
    struct session_elastic *elastic = session->elastic;
    rg_autofree struct rg_membership_machine *wanted =
        calloc((size_t) plan->nhosts, sizeof(*wanted));

    if (!wanted) {
        give_up(session, &(struct rg_error){ ENOMEM, 0, "out of memory" });
        return;
    }
    for (int i = 0; i < plan->nhosts; i++) {
        int n = (int) elastic->nmachines;
        if (plan->hosts[i].nranks == 0)
            continue;
        wanted[n] = (struct rg_membership_machine){ n, plan->hosts[i].nranks };
        elastic->machines[elastic->nmachines++].host = i;
    }
    push(session, (struct rg_membership_event){ .type = RG_MEMBERSHIP_WANTED, .wanted = wanted,
                                                .nwanted = elastic->nmachines });
}

int session_elastic_begin(struct rg_session *session, struct rg_error *err)
{
    const struct rg_job *job = session->o.job;
    struct rg_membership_rules rules = is_fixed(session) ? fixed_rules(session)
                                                         : rules_of(session);

    if (session->o.doctor) /* it starts no ranks */
        return 0;
    int r = rg_membership_create(&rules, elastic_now_ns(session), &session->elastic->membership);
    if (r < 0)
        return rg_error_set(err, -r, "a job of %d ranks: %s", rules.np, strerror(-r));
    session->open = !is_fixed(session);
    session_control_open(session, drain);
    if (is_fixed(session)) {
        want_fixed(session);
        return 0;
    }
    want(session, job);
    if (job->elastic.discovery && session->open && discover(session) < 0)
        return rg_error_memory(err);
    return 0;
}
