/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever looks at a job that does nothing wants to know for whom it waits. The ranks cannot say it
 * where they are not connected yet, or not any more; the launcher knows who has come. */
#include "launch/session/elastic/waits.h"

#include <stdio.h>
#include <string.h>

#include "launch/session/elastic/elastic_state.h"
#include "launch/session/meet/fence.h"
#include "launch/session/meet/meet.h"

#define NAMED_MAX 8 /* ranks or hosts in a text */

static double seconds(uint64_t ms)
{
    return (double) ms / 1000.0;
}

/* It has lasted for a tick more; key: a wait for something else has another one. Whether it is to
 * be told. */
static bool is_due(struct wait *wait, bool lasts, uint64_t key, uint64_t tick_ms)
{
    if (!lasts || key != wait->key)
        *wait = (struct wait){ .key = key };
    if (!lasts)
        return false;
    wait->ms += tick_ms;
    if (wait->ms < (wait->next_ms ? wait->next_ms : SESSION_WAITS_MS))
        return false;
    wait->next_ms = 2 * wait->ms;
    return true;
}

/* --- lists of ranks, in words ----------------------------------------------------------------- */

struct names {
    struct rg_buf text; /* "rank 1 on a, rank 2 on b" */
    int n;
};

static void add_rank(struct names *names, const struct rg_session *session, int place)
{
    const struct rg_plan *plan = session->o.plan;

    if (names->n++ < NAMED_MAX)
        rg_buf_printf(&names->text, "%srank %d on %s", names->n > 1 ? ", " : "",
                      session_rank_of(session, place), plan->hosts[plan->ranks[place].host].name);
}

static void add_host(struct names *names, const struct session_host *host)
{
    if (names->n++ < NAMED_MAX)
        rg_buf_printf(&names->text, "%s%s", names->n > 1 ? ", " : "host ", session_host_name(host));
}

/* Nothing, where there are no names. */
static void tell(struct rg_session *session, struct names *names, const char *rest)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    if (names->n == 0)
        return;
    rg_buf_printf(&text, "%s%s %s", rg_buf_text(&names->text), names->n > NAMED_MAX ? ", ..." : "",
                  rest);
    if (rg_buf_status(&text) == 0)
        session_remark(session, -1, rg_buf_text(&text));
    rg_buf_fini(&names->text);
}

/* --- what is waited for ----------------------------------------------------------------------- */

static void look_at_init(struct rg_session *session, uint64_t tick_ms)
{
    const struct rg_fence *fence = session_fence(session);
    struct wait *wait = &session->elastic->init;
    struct names late = { RG_BUF_INIT, 0 };
    uint32_t generation = 0;
    int nwaiting = fence ? rg_fence_nwaiting(fence, &generation) : 0;
    char rest[128];

    if (!is_due(wait, nwaiting > 0, (uint64_t) session_epoch(session) << 32 | generation, tick_ms))
        return;
    for (int place = 0; place < session->o.plan->nranks; place++) {
        int rank = session_rank_of(session, place);
        if (rank >= 0 && !rg_fence_waits(fence, rank))
            add_rank(&late, session, place);
    }
    snprintf(rest, sizeof(rest), "%s not come to init, where %d other%s for %.3g s",
             late.n > 1 ? "have" : "has", nwaiting, nwaiting > 1 ? "s have waited" : " has waited",
             seconds(wait->ms));
    tell(session, &late, rest);
}

/* The hosts whose agents have not come yet. */
static void put_awaited(const struct rg_session *session, struct rg_buf *text)
{
    int n = 0;

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        const struct session_host *host = &session->hosts[i];
        if (host->state == HOST_AWAITED && n++ < NAMED_MAX)
            rg_buf_printf(text, "%shost %s%s%s%s", n > 1 ? ", " : ": ", session_host_name(host),
                          *host->reason ? " (" : "", host->reason, *host->reason ? ")" : "");
    }
    if (n > NAMED_MAX)
        rg_buf_printf(text, ", ...");
    if (n == 0)
        rg_buf_printf(text, "; none is on its way");
}

static void look_at_hosts(struct rg_session *session, bool lacking, uint64_t tick_ms)
{
    struct wait *wait = &session->elastic->hosts;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    if (!is_due(wait, lacking, session_epoch(session), tick_ms))
        return;
    rg_buf_printf(&text, "hosts have been waited for for %.3g s, as the job lacks some (at most "
                  "%.6g s, --elastic-timeout)", seconds(wait->ms),
                  seconds(session->o.job->elastic.timeout_ms));
    put_awaited(session, &text);
    if (rg_buf_status(&text) == 0)
        session_remark(session, -1, rg_buf_text(&text));
}

/* Of an elastic job: members wait for others of them, or for hosts that are missing. */
static void look_at_meeting(struct rg_session *session, uint64_t tick_ms)
{
    const struct rg_membership *membership = session->elastic->membership;
    struct wait *wait = &session->elastic->meeting;
    struct names late = { RG_BUF_INIT, 0 };
    int ncome = 0, nawaited = 0, nbusy = 0;
    char rest[128];

    for (int place = 0; place < rg_membership_nplaces(membership); place++) {
        enum rg_membership_meeting is = rg_membership_meeting(membership, place);
        ncome += is == RG_MEMBERSHIP_COME;
        nawaited += is == RG_MEMBERSHIP_AWAITED;
        nbusy += is == RG_MEMBERSHIP_BUSY;
    }
    look_at_hosts(session, nawaited == 0 && nbusy == 0, tick_ms);
    if (!is_due(wait, ncome && nawaited, session_epoch(session), tick_ms))
        return;
    for (int place = 0; place < rg_membership_nplaces(membership); place++) {
        if (rg_membership_meeting(membership, place) == RG_MEMBERSHIP_AWAITED)
            add_rank(&late, session, place);
    }
    snprintf(rest, sizeof(rest), "%s not come to meet the others, who have waited for %.3g s",
             late.n > 1 ? "have" : "has", seconds(wait->ms));
    tell(session, &late, rest);
}

/* Ranks that have met the others, and are alone now, as those have ended well. */
static void look_at_rest(struct rg_session *session, uint64_t tick_ms)
{
    struct wait *wait = &session->elastic->rest;
    struct names late = { RG_BUF_INIT, 0 };
    int nended = 0, nleft = 0;
    char rest[128];

    for (int place = 0; place < session->o.plan->nranks; place++) {
        if (session_rank_of(session, place) < 0)
            continue;
        nended += session->facts[place].ended && rg_end_is_good(&session->facts[place].end);
        nleft += !session->facts[place].ended;
    }
    if (!is_due(wait, session_have_met(session) && nended && nleft, (uint64_t) nleft, tick_ms))
        return;
    for (int place = 0; place < session->o.plan->nranks; place++) {
        if (session_rank_of(session, place) >= 0 && !session->facts[place].ended)
            add_rank(&late, session, place);
    }
    snprintf(rest, sizeof(rest), "%s not ended; %d other%s ended %.3g s ago",
             late.n > 1 ? "have" : "has", nended, nended > 1 ? "s have" : " has",
             seconds(wait->ms));
    tell(session, &late, rest);
}

/* One whose silence will be its end only much later. */
static void look_at_silence(struct rg_session *session)
{
    struct names lost = { RG_BUF_INIT, 0 }, back = { RG_BUF_INIT, 0 };
    uint64_t ms = 0;
    char rest[128];

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        bool silent = session_host_listens(host) && host->silent_ms >= SESSION_WAITS_MS;
        if (silent == host->silent_told)
            continue;
        host->silent_told = silent;
        if (host->state == HOST_READY)
            add_host(silent ? &lost : &back, host);
        if (silent && host->silent_ms > ms)
            ms = host->silent_ms;
    }
    snprintf(rest, sizeof(rest), "%s been silent for %.3g s; after %.6g s %s as lost (--lease)",
             lost.n > 1 ? "have" : "has", seconds(ms), seconds(session->o.job->lease_ms),
             lost.n > 1 ? "they count" : "it counts");
    tell(session, &lost, rest);
    tell(session, &back, back.n > 1 ? "are heard again" : "is heard again");
}

/* Its machine is set aside. */
static bool is_aside(const struct rg_session *session, int place)
{
    const struct rg_plan_host *host = &session->o.plan->hosts[session->o.plan->ranks[place].host];
    const struct session_elastic *elastic = session->elastic;
    struct rg_membership_aside aside;

    for (size_t i = 0; i < elastic->nmachines; i++) {
        if (strcmp(elastic->machines[i].name, host->name) == 0 &&
            rg_membership_aside(elastic->membership, (int) i, &aside))
            return true;
    }
    return false;
}

void session_waits_ended(struct rg_session *session, int place)
{
    const struct rg_fact *fact = &session->facts[place];
    int rank = session_rank_of(session, place);
    struct session_elastic *elastic = session->elastic;
    char who[32] = "a rank", how[RG_CAUSE_MAX / 2], text[RG_CAUSE_MAX];

    if (!session_is_open(session) || !rg_membership_in_place(elastic->membership) ||
        fact->signalled || fact->end.end == RG_END_LOST || is_aside(session, place))
        return;
    if (elastic->told_epoch != session_epoch(session))
        elastic->ntold = 0;
    elastic->told_epoch = session_epoch(session);
    if (elastic->ntold++ >= NAMED_MAX)
        return; /* one loss may end them all */
    rg_verdict_describe_end(fact, how, sizeof(how));
    if (rank >= 0)
        snprintf(who, sizeof(who), "rank %d", rank);
    snprintf(text, sizeof(text), "%s on %s: %s; its host is not set aside for this", who,
             fact->end.host, how);
    session_remark(session, -1, text);
}

void session_waits_look(struct rg_session *session, uint64_t tick_ms)
{
    if (session->paused || session->state >= STATE_ENDING || session->o.doctor)
        return;
    if (session->o.job->lease_ms > SESSION_WAITS_MS)
        look_at_silence(session);
    if (session->state == STATE_RUNNING) {
        look_at_init(session, tick_ms);
        look_at_rest(session, tick_ms);
    }
    if (session_is_open(session) && session->elastic->membership)
        look_at_meeting(session, tick_ms);
}
