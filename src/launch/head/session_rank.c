/* SPDX-License-Identifier: Apache-2.0 */
/* What agents say of their ranks becomes the facts that the verdict judges; here, too, the ranks of
 * all hosts meet (fence.h) and hear of each other's deaths. */
#include "launch/head/session_rank.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/time.h"
#include "launch/head/core/session_end.h"
#include "launch/head/core/session_output.h"
#include "launch/head/fence.h"
#include "launch/head/remote/session_versions.h"

struct rank {
    char *note;   /* the runtime's last; end.note points here */
    char *text;   /* why it could not be started */
    char *memory; /* end.memory */
    bool started; /* STARTED or NOT_STARTED came */
};

struct session_ranks {
    struct rg_fence *fence;
    struct rg_timer timer; /* of the fence */
    bool met;              /* in a fence: their runtimes hear of deaths */
    int nstarted;
    struct rank ranks[];
};

int session_ranks_create(struct rg_session *session)
{
    const struct rg_plan *plan = session->o.plan;
    struct session_ranks *ranks = session->ranks =
        calloc(1, sizeof(*ranks) + (size_t) plan->nranks * sizeof(ranks->ranks[0]));

    session->facts = calloc((size_t) plan->nranks + 1, sizeof(*session->facts));
    for (int i = 0; session->facts && i < plan->nranks; i++)
        session->facts[i].end = (struct rg_rank_end){
            .rank = i, .host = plan->hosts[plan->ranks[i].host].name, .note = "",
            .engine = plan->engine,
        };
    return ranks && session->facts ? rg_fence_create(plan->nranks, &ranks->fence) : -ENOMEM;
}

void session_ranks_destroy(struct rg_session *session)
{
    struct session_ranks *ranks = session->ranks;

    free(session->facts);
    if (!ranks)
        return;
    rg_timer_stop(&ranks->timer);
    rg_fence_destroy(ranks->fence);
    for (int i = 0; i < session->o.plan->nranks; i++) {
        free(ranks->ranks[i].note);
        free(ranks->ranks[i].text);
        free(ranks->ranks[i].memory);
    }
    free(ranks);
}

/* --- starts ----------------------------------------------------------------------------------- */

static void count_started(struct rg_session *session, int rank)
{
    struct rank *r = &session->ranks->ranks[rank];

    session->ranks->nstarted += !r->started;
    r->started = true;
}

/* Call f(host, rank) for those of this host's ranks whose start is known of. */
static void each_started(struct session_host *host, void (*f)(struct session_host *host, int rank))
{
    const struct rg_plan *plan = host->session->o.plan;
    const struct rg_plan_host *planned = &plan->hosts[host->index];

    for (int i = 0; i < planned->nranks; i++) {
        int rank = plan->by_host[planned->first_rank_index + i];
        if (host->session->ranks->ranks[rank].started)
            f(host, rank);
    }
}

void session_end_streams(struct session_host *host)
{
    each_started(host, session_output_end);
}

bool session_all_started(const struct rg_session *session)
{
    return session->ranks->nstarted == session->o.plan->nranks;
}

bool session_all_started_on(const struct session_host *host)
{
    const struct rg_plan *plan = host->session->o.plan;
    const struct rg_plan_host *planned = &plan->hosts[host->index];

    for (int i = 0; i < planned->nranks; i++) {
        if (!host->session->ranks->ranks[plan->by_host[planned->first_rank_index + i]].started)
            return false;
    }
    return true;
}

void session_on_started(struct session_host *host, const struct rg_msg_started *msg)
{
    struct rg_session *session = host->session;
    const char *cpus = msg->cpus ? msg->cpus : "";

    if (cpus[strspn(cpus, "0123456789,-")]) /* the user sees it */
        cpus = "";
    count_started(session, (int) msg->rank);
    if (session->o.ops->on_rank_started)
        session->o.ops->on_rank_started(session->o.arg, (int) msg->rank, (int) msg->pid, cpus);
}

/* --- fences ----------------------------------------------------------------------------------- */

static void fence_due(void *arg);

static void watch_fence(struct rg_session *session)
{
    uint64_t deadline_ns = rg_fence_deadline_ns(session->ranks->fence);
    uint64_t now = rg_now_ns();

    if (deadline_ns == RG_NEVER_NS)
        rg_timer_stop(&session->ranks->timer);
    else
        rg_timer_start(&session->ranks->timer, session->o.loop,
                       deadline_ns > now ? (deadline_ns - now) / RG_NS_PER_MS + 1 : 0, 0, fence_due,
                       session);
}

static void fail_fence(struct rg_session *session, uint32_t generation, struct rg_error *err)
{
    struct rg_msg_fence_failed msg = { generation, (uint32_t) err->errnum, err->text };

    session_broadcast(session, RG_MSG_FENCE_FAILED, &msg);
    rg_timer_stop(&session->ranks->timer);
}

static void fence_due(void *arg)
{
    struct rg_session *session = arg;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_fence_deadline_ns(session->ranks->fence) > rg_now_ns())
        watch_fence(session);
    else if (rg_fence_expire(session->ranks->fence, &err) < 0)
        fail_fence(session, 0, &err);
}

void session_on_fence(struct session_host *host, const struct rg_msg_fence *msg)
{
    struct rg_session *session = host->session;
    struct rg_error err = RG_ERROR_INIT;
    uint64_t deadline_ns = msg->timeout_ms ? rg_now_ns() + msg->timeout_ms * RG_NS_PER_MS
                                           : RG_NEVER_NS;
    int r = rg_fence_arrive(session->ranks->fence, (int) msg->rank, msg->generation, deadline_ns,
                            msg->blob.data, msg->blob.nbytes, &err);

    if (r < 0) {
        fail_fence(session, msg->generation, &err);
    } else if (r == 0) {
        watch_fence(session);
    } else {
        rg_autobuf struct rg_buf blobs = RG_BUF_INIT;
        uint32_t generation = rg_fence_take(session->ranks->fence, &blobs);
        struct rg_msg_fence_done done = {
            generation, { (uint8_t *) rg_buf_bytes(&blobs), rg_buf_nbytes(&blobs) }
        };
        rg_timer_stop(&session->ranks->timer);
        session->ranks->met = true;
        session_broadcast(session, RG_MSG_FENCE_DONE, &done);
    }
}

/* --- ends ------------------------------------------------------------------------------------- */

static struct rg_facts facts_of(struct rg_session *session)
{
    return (struct rg_facts){ .ranks = session->facts, .nranks = session->o.plan->nranks,
                              .own_cause = "", .output_lost = "" };
}

/* The ranks on other hosts hear of a death through us; those on its own host have heard. */
static void tell_others(struct session_host *host, int rank, const char *how)
{
    struct rg_session *session = host->session;
    struct rg_msg_peer_died msg = { (uint32_t) rank, (char *) how };

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *other = &session->hosts[i];
        if (other != host && session_host_listens(other))
            rg_msg_send(other->channel, RG_MSG_PEER_DIED, &msg);
    }
}

static void rank_ended(struct session_host *host, int rank, bool abnormal)
{
    struct rg_session *session = host->session;
    struct rg_fact *fact = &session->facts[rank];
    struct rg_facts facts = facts_of(session);
    struct rg_error err = RG_ERROR_INIT;
    const char *note = session->ranks->ranks[rank].note;
    char how[RG_CAUSE_MAX];

    fact->ended = true;
    fact->end.at_ns = session_elapsed_ns(session);
    fact->end.note = note ? note : "";
    fact->end.consequence = rg_verdict_is_consequence(&facts, rank);
    session->nended++;
    rg_verdict_describe(fact, how, sizeof(how));
    if (abnormal)
        tell_others(host, rank, how);
    const char *short_how = strstr(how, ": ");
    if (rg_fence_rank_ended(session->ranks->fence, rank, short_how ? short_how + 2 : how, &err) < 0)
        fail_fence(session, 0, &err);
    if (session->o.ops->on_rank_ended)
        session->o.ops->on_rank_ended(session->o.arg, &fact->end);
    if (fact->end.end != RG_END_EXIT || fact->end.value != 0) {
        if (fact->cut_by)
            session_await(session, fact->cut_by - 1);
        session_end_after_failure(session, session->ranks->met);
    }
    if (fact->awaited)
        session_awaited_ended(session);
    if (session->nended == session->o.plan->nranks)
        session_release(session);
}

/* A signal that reigen handed on and that a rank did not survive: the sender's wish, not the rank's
 * fault. */
static void check_forwarded(struct rg_session *session, const struct rg_fact *fact)
{
    int signo = fact->end.value;

    if (session->state != STATE_RUNNING || fact->end.end != RG_END_SIGNAL ||
        fact->signalled != (uint32_t) signo || signo == SIGKILL)
        return;
    session_set_signalled(session, signo, "reigen was sent signal %d (%s) and handed it on",
                          signo, strsignal(signo));
}

void session_on_exited(struct session_host *host, const struct rg_msg_exited *msg)
{
    struct rg_session *session = host->session;
    int rank = (int) msg->rank, status = (int) msg->status;
    struct rg_fact *fact = &session->facts[rank];
    char **memory = &session->ranks->ranks[rank].memory;

    if (fact->ended)
        return;
    fact->end.end = WIFSIGNALED(status) ? RG_END_SIGNAL : RG_END_EXIT;
    fact->end.value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    fact->end.oom = msg->oom;
    if (msg->oom && msg->memory && !*memory)
        *memory = strndup(msg->memory, RG_MSG_TEXT_MAX);
    fact->end.memory = *memory;
    fact->end.in_runtime = msg->in_runtime;
    if (msg->cut_by < (uint32_t) session->o.plan->nranks)
        fact->cut_by = 1 + (int) msg->cut_by;
    fact->signalled = msg->signalled;
    check_forwarded(session, fact);
    rank_ended(host, rank, status != 0 || msg->in_runtime);
}

void session_on_not_started(struct session_host *host, const struct rg_msg_not_started *msg)
{
    struct rg_session *session = host->session;
    int rank = (int) msg->rank;
    struct rg_fact *fact = &session->facts[rank];

    if (fact->ended)
        return;
    count_started(session, rank);
    fact->text = session->ranks->ranks[rank].text =
        strndup(msg->text ? msg->text : "", RG_MSG_TEXT_MAX);
    fact->end.end = RG_END_NOT_STARTED;
    fact->end.value = (int) msg->errnum;
    fact->exit_code = (int) msg->exit_code;
    rank_ended(host, rank, true);
}

static void lose(struct session_host *host, int rank)
{
    struct rg_fact *fact = &host->session->facts[rank];

    if (fact->ended)
        return;
    fact->end.end = RG_END_LOST;
    rank_ended(host, rank, true);
}

void session_lose_ranks(struct session_host *host)
{
    each_started(host, lose);
}

/* --- notes ------------------------------------------------------------------------------------ */

void session_on_note(struct session_host *host, const struct rg_msg_note *msg)
{
    struct rg_session *session = host->session;
    const char *text = msg->text ? msg->text : "";

    if (msg->rank == RG_MSG_NO_RANK || msg->level != 0) {
        bool of_job = msg->rank == RG_MSG_NO_RANK || msg->level > 1;

        session_remark(session, of_job ? -1 : (int) msg->rank, text);
        return;
    }
    struct rank *rank = &session->ranks->ranks[msg->rank];
    struct rg_fact *fact = &session->facts[msg->rank];
    char *copy = strndup(text, RG_MSG_TEXT_MAX);
    if (!copy)
        return;
    free(rank->note);
    rank->note = copy;
    fact->end.note = copy;
}
