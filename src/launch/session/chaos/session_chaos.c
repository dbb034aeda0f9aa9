/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks are killed and stopped by kill(1) on their hosts, as somebody there would do it: the agent
 * and the membership learn of it as of any other death, and know nothing of this. A host is cut off
 * by stopping its ranks, so that they and the others do not hear each other, and by neither reading
 * from its agent nor writing to it. */
#include "launch/session/chaos/chaos.h"

#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "launch/session/meet/meet.h"
#include "launch/session/remote/remote.h"

#define RETRY_MS 20 /* ranks that were told to start have no process yet */
#define NO_STATUS (1 << 8) /* waitpid's, of a command that says no */

struct cut {
    struct session_host *host; /* NULL: not cut off by this event */
    struct rg_timer timer;
};

struct session_chaos {
    struct rg_timer timer;
    struct cut cuts[RG_CHAOS_EVENTS_MAX]; /* by event */
    int pids[];                           /* by place; 0: none */
};

static void fini(struct rg_session *session)
{
    struct session_chaos *chaos = session->chaos;

    rg_timer_stop(&chaos->timer);
    for (size_t i = 0; i < RG_CHAOS_EVENTS_MAX; i++)
        rg_timer_stop(&chaos->cuts[i].timer);
}

const struct session_part session_chaos_part = {
    SESSION_PART(chaos), .nbytes_per_rank = sizeof(int), .fini = fini,
};

void session_chaos_process(struct rg_session *session, int place, int pid)
{
    session->chaos->pids[place] = pid;
}

/* --- whom it means ---------------------------------------------------------------------------- */

enum there { MISSING, SOON, HERE };

static struct session_host *host_of(struct rg_session *session, int place)
{
    return &session->hosts[session->o.plan->ranks[place].host];
}

static enum there look(struct rg_session *session, int place)
{
    if (!session_host_listens(host_of(session, place)))
        return MISSING;
    if (session->chaos->pids[place])
        return HERE;
    return session->facts[place].ended ? MISSING : SOON;
}

/* A machine that has come back is another host of the same name. */
static struct session_host *find_host(struct rg_session *session, const char *name)
{
    for (int i = session->o.plan->nhosts; i-- > 0;) {
        struct session_host *host = &session->hosts[i];
        if (session_host_listens(host) && strcmp(session_host_name(host), name) == 0)
            return host;
    }
    return NULL;
}

/* All ranks of a host that are to start are awaited. Other places of an elastic job stay empty. */
static enum there look_at_host(struct rg_session *session, const struct session_host *host)
{
    bool elastic = session->o.job->elastic.on, some = false;

    for (int place = 0; place < session->o.plan->nranks; place++) {
        enum there there = host_of(session, place) == host ? look(session, place) : MISSING;
        if (there == SOON && (!elastic || session_rank_of(session, place) >= 0))
            return SOON;
        some |= there == HERE;
    }
    return some ? HERE : MISSING;
}

static enum there find(struct rg_session *session, const struct rg_chaos_event *event,
                       struct session_host **ret_host, int *ret_place)
{
    bool elastic = session->o.job->elastic.on;
    enum there unless = elastic && session_epoch(session) == 0 ? SOON : MISSING;
    int place = -1;

    *ret_place = -1;
    if (event->who == RG_CHAOS_ON_HOST) {
        *ret_host = find_host(session, event->host);
        return *ret_host ? look_at_host(session, *ret_host) : unless;
    }
    if (elastic)
        place = session_place_of(session, (uint32_t) event->rank);
    else if (event->rank < session->o.plan->nranks)
        place = event->rank;
    if (place < 0)
        return unless;
    *ret_place = place;
    *ret_host = host_of(session, place);
    return look(session, place);
}

/* --- what is done to them --------------------------------------------------------------------- */

/* "kill -s KILL -- -12 -13": all processes of that rank, or of all ranks of the host. */
static void put_kill(struct session_host *host, int place, const char *signal, struct rg_buf *text)
{
    struct rg_session *session = host->session;

    rg_buf_printf(text, "kill -s %s --", signal);
    for (int i = 0; i < session->o.plan->nranks; i++) {
        if ((place < 0 || i == place) && host_of(session, i) == host && session->chaos->pids[i])
            rg_buf_printf(text, " -%d", session->chaos->pids[i]);
    }
}

static void put_command(const struct rg_chaos_event *event, struct session_host *host, int place,
                        struct rg_buf *text)
{
    if (event->verb == RG_CHAOS_KILL) {
        put_kill(host, place, "KILL", text);
        return;
    }
    put_kill(host, place, "STOP", text);
    if (!event->for_ms)
        return;
    rg_buf_printf(text, "; sleep %llu", (unsigned long long) (event->for_ms / 1000));
    if (event->for_ms % 1000)
        rg_buf_printf(text, ".%03u", (unsigned) (event->for_ms % 1000));
    rg_buf_printf(text, "; ");
    put_kill(host, place, "CONT", text);
}

static void mend(void *arg)
{
    struct cut *cut = arg;
    struct session_host *host = cut->host;

    rg_timer_stop(&cut->timer);
    cut->host = NULL;
    if (host->channel)
        rg_channel_cut(host->channel, false);
}

static void cut_off(struct session_host *host, struct cut *cut, uint64_t for_ms)
{
    rg_channel_cut(host->channel, true);
    cut->host = host;
    if (for_ms)
        rg_timer_start(&cut->timer, host->session->o.loop, for_ms, 0, mend, cut);
}

static void tell(struct session_host *host, struct rg_chaos_event *event)
{
    struct rg_session *session = host->session;
    int rank = event->who == RG_CHAOS_RANK ? event->rank : -1;

    event->happened = true;
    if (session->o.ops->on_chaos)
        session->o.ops->on_chaos(session->o.arg, event, rank, session_host_name(host));
}

/* False: whom it means has not started yet. */
static bool happen(struct rg_session *session, size_t i)
{
    struct rg_chaos_event *event = &session->o.chaos->events[i];
    rg_autobuf struct rg_buf command = RG_BUF_INIT;
    struct session_host *host;
    int place;
    enum there there = find(session, event, &host, &place);

    if (there == SOON)
        return false;
    event->missed = there == MISSING;
    if (event->missed)
        return true;
    put_command(event, host, place, &command);
    event->missed = rg_buf_status(&command) < 0 ||
                    session_remote_ask(host, rg_buf_text(&command), NULL) < 0;
    if (event->missed)
        return true;
    tell(host, event);
    if (event->verb == RG_CHAOS_CUT)
        cut_off(host, &session->chaos->cuts[i], event->for_ms);
    return true;
}

/* --- when ------------------------------------------------------------------------------------- */

static void look_at_clock(void *arg)
{
    struct rg_session *session = arg;
    struct rg_chaos *chaos = session->o.chaos;
    uint64_t now_ms = (rg_now_ns() - chaos->start_ns) / RG_NS_PER_MS, wait_ms = UINT64_MAX;

    rg_timer_stop(&session->chaos->timer);
    for (size_t i = 0; i < chaos->count && session->state == STATE_RUNNING; i++) {
        const struct rg_chaos_event *event = &chaos->events[i];
        uint64_t more_ms = event->at_ms > now_ms ? event->at_ms - now_ms : RETRY_MS;
        if (event->step || event->happened || event->missed)
            continue;
        if (event->at_ms <= now_ms && happen(session, i))
            continue;
        wait_ms = more_ms < wait_ms ? more_ms : wait_ms;
    }
    if (wait_ms != UINT64_MAX)
        rg_timer_start(&session->chaos->timer, session->o.loop, wait_ms, 0,
                       look_at_clock, session);
}

void session_chaos_begin(struct rg_session *session)
{
    struct rg_chaos *chaos = session->o.chaos;

    if (!chaos)
        return;
    if (!chaos->start_ns)
        chaos->start_ns = rg_now_ns();
    look_at_clock(session);
}

/* --- what ranks ask --------------------------------------------------------------------------- */

static bool is_due(const struct rg_chaos *chaos, const char *question, unsigned *ret_event)
{
    unsigned rank;
    int end = 0;

    if (!chaos || sscanf(question, "%u %u%n", ret_event, &rank, &end) != 2 || question[end] ||
        *ret_event >= chaos->count)
        return false;
    const struct rg_chaos_event *event = &chaos->events[*ret_event];

    return event->step && !event->happened && event->rank == (int) rank;
}

bool session_chaos_asked(struct session_host *host, const struct rg_msg_remote_open *msg)
{
    struct rg_chaos *chaos = host->session->o.chaos;
    unsigned i;

    if (strcmp(msg->host, RG_RANKMSG_CHAOS) != 0)
        return false;
    bool yes = is_due(chaos, msg->command, &i);

    if (yes)
        tell(host, &chaos->events[i]);
    session_send(host, RG_MSG_REMOTE_ENDED,
                 &(struct rg_msg_remote_exit){ msg->id, yes ? 0 : NO_STATUS, (char *) "" });
    return true;
}
