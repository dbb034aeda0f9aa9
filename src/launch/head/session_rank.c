/* SPDX-License-Identifier: Apache-2.0 */
/* What agents say of their ranks becomes the facts that the verdict judges, and the other hosts
 * hear of deaths. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/exitcode.h"
#include "launch/head/core/session_end.h"
#include "launch/head/core/session_stream.h"
#include "launch/head/remote/remote.h"
#include "launch/head/session_internal.h"
#include "spec/job/hostlist.h"
#include "wire/rankmsg.h"

struct rank {
    char *note;   /* the runtime's last; end.note points here */
    char *text;   /* why it could not be started */
    char *memory; /* end.memory */
    char *sshd;   /* end.sshd_host */
    bool started; /* STARTED or NOT_STARTED came */
};

struct session_ranks {
    int nstarted;
    struct rank ranks[];
};

static int init(struct rg_session *session)
{
    const struct rg_plan *plan = session->o.plan;

    session->facts = calloc((size_t) plan->nranks, sizeof(*session->facts));
    for (int i = 0; session->facts && i < plan->nranks; i++)
        session->facts[i].end = (struct rg_rank_end){
            .rank = i, .host = plan->hosts[plan->ranks[i].host].name, .note = "",
            .engine = plan->engine,
        };
    return session->facts ? 0 : -ENOMEM;
}

static void fini(struct rg_session *session)
{
    const struct session_ranks *ranks = session->ranks;

    for (int i = 0; i < session->o.plan->nranks; i++) {
        free(ranks->ranks[i].note);
        free(ranks->ranks[i].text);
        free(ranks->ranks[i].memory);
        free(ranks->ranks[i].sshd);
    }
    free(session->facts);
}

const struct session_part session_ranks_part = {
    SESSION_PART(ranks), .nbytes_per_rank = sizeof(struct rank), .init = init, .fini = fini,
};

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

/* --- ends ------------------------------------------------------------------------------------- */

static struct rg_facts facts_of(struct rg_session *session)
{
    return (struct rg_facts){ .ranks = session->facts, .nranks = session->o.plan->nranks,
                              .own_cause = "", .output_lost = "" };
}

/* The ranks on other hosts hear of a death through us; those on its own host have heard. */
static void tell_others(struct session_host *host, const struct rg_rank_end *end)
{
    static const uint8_t ends[] = {
        [RG_END_EXIT] = RG_DEATH_EXIT, [RG_END_SIGNAL] = RG_DEATH_SIGNAL,
        [RG_END_NOT_STARTED] = RG_DEATH_NOT_STARTED, [RG_END_LOST] = RG_DEATH_LOST,
    };
    struct rg_session *session = host->session;
    struct rg_msg_peer_died msg = { .rank = (uint32_t) end->rank, .host = (uint32_t) host->index,
                                    .end = ends[end->end], .value = end->value, .oom = end->oom };

    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *other = &session->hosts[i];
        if (other != host && session_host_listens(other))
            session_send(other, RG_MSG_PEER_DIED, &msg);
    }
}

static void rank_ended(struct session_host *host, int rank, bool abnormal)
{
    struct rg_session *session = host->session;
    struct rg_fact *fact = &session->facts[rank];
    struct rg_facts facts = facts_of(session);
    const char *note = session->ranks->ranks[rank].note;
    char how[RG_CAUSE_MAX];

    fact->ended = true;
    fact->end.at_ns = session_elapsed_ns(session);
    fact->end.note = note ? note : "";
    fact->end.consequence = rg_verdict_is_consequence(&facts, rank);
    session->nended++;
    rg_verdict_describe_end(fact, how, sizeof(how));
    if (abnormal)
        tell_others(host, &fact->end);
    session_fence_rank_ended(session, rank, how);
    if (session->o.ops->on_rank_ended)
        session->o.ops->on_rank_ended(session->o.arg, &fact->end);
    if (fact->end.end != RG_END_EXIT || fact->end.value != 0) {
        if (fact->cut_by)
            session_await(session, fact->cut_by - 1);
        session_end_after_failure(session, session_have_met(session));
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
    if (session_set_cause(session, RG_EXIT_SIGNAL + signo,
                          "reigen was sent signal %d (%s) and handed it on", signo,
                          strsignal(signo)))
        session_cause_is_signal(session);
}

void session_on_exited(struct session_host *host, const struct rg_msg_exited *msg)
{
    struct rg_session *session = host->session;
    int rank = (int) msg->rank, status = (int) msg->status;
    struct rg_fact *fact = &session->facts[rank];
    struct rank *r = &session->ranks->ranks[rank];

    if (fact->ended)
        return;
    fact->end.end = WIFSIGNALED(status) ? RG_END_SIGNAL : RG_END_EXIT;
    fact->end.value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    fact->end.oom = msg->oom;
    if (msg->oom && msg->memory)
        fact->end.memory = r->memory = strndup(msg->memory, RG_MSG_TEXT_MAX);
    if (msg->sshd_host && *msg->sshd_host)
        fact->end.sshd_host = r->sshd = strndup(msg->sshd_host, RG_HOST_NAME_MAX);
    fact->end.sshd_port = (int) msg->sshd_port;
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
