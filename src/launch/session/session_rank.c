/* SPDX-License-Identifier: Apache-2.0 */
/* What agents say of their ranks becomes the facts that the verdict judges, and the other hosts
 * hear of deaths. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "launch/session/chaos/chaos.h"
#include "launch/session/core/session_end.h"
#include "launch/session/core/session_facts.h"
#include "launch/session/core/session_stream.h"
#include "launch/session/elastic/elastic.h"
#include "launch/session/meet/meet.h"
#include "launch/session/remote/remote.h"
#include "launch/session/session_internal.h"
#include "wire/rankmsg.h"

void session_on_started(struct session_host *host, const struct rg_msg_started *msg)
{
    struct rg_session *session = host->session;
    const char *cpus = msg->cpus ? msg->cpus : "";

    if (cpus[strspn(cpus, "0123456789,-")]) /* the user sees it */
        cpus = "";
    session_count_started(session, (int) msg->rank);
    session_chaos_process(session, (int) msg->rank, (int) msg->pid);
    session_output_begin(session, (int) msg->rank);
    if (session->o.ops->on_rank_started)
        session->o.ops->on_rank_started(session->o.arg, (int) msg->rank, (int) msg->pid, cpus);
}

/* --- ends ------------------------------------------------------------------------------------- */

/* The ranks on other hosts hear of a death through us; those on its own host have heard. */
static void tell_others(struct session_host *host, const struct rg_rank_end *end)
{
    static const uint8_t ends[] = {
        [RG_END_EXIT] = RG_DEATH_EXIT, [RG_END_SIGNAL] = RG_DEATH_SIGNAL,
        [RG_END_NOT_STARTED] = RG_DEATH_NOT_STARTED, [RG_END_LOST] = RG_DEATH_LOST,
    };
    struct rg_session *session = host->session;
    int rank = session_rank_of(session, end->rank);
    struct rg_msg_peer_died msg = { .rank = (uint32_t) rank, .host = (uint32_t) host->index,
                                    .end = ends[end->end], .value = end->value, .oom = end->oom,
                                    .epoch = session_epoch(session),
                                    .name = session_is_open(session)
                                                ? (char *) session_host_name(host)
                                                : (char *) "" };

    for (int i = 0; rank >= 0 && i < session->o.plan->nhosts; i++) {
        struct session_host *other = &session->hosts[i];
        if (other != host && session_host_listens(other))
            session_send(other, RG_MSG_PEER_DIED, &msg);
    }
}

enum outcome { NOTHING, FAILS, ENOUGH };

/* What a rank's end means for the job. A task that fails may be excused by the rules of its role,
 * and others may have been enough. */
static enum outcome judge(struct rg_session *session, int rank)
{
    struct rg_fact *fact = &session->facts[rank];
    bool well = rg_end_is_good(&fact->end);
    int index, count = 0;
    const struct rg_role *role = rg_job_role_of(session->o.job, rank, &index);

    if (!role)
        return well ? NOTHING : FAILS;
    for (int i = 0; i < role->ntasks; i++) {
        const struct rg_fact *other = &session->facts[rank - index + i];
        count += other->ended && rg_end_is_good(&other->end) == well;
    }
    if (well)
        return role->min_succeeded && count >= role->min_succeeded ? ENOUGH : NOTHING;
    fact->excused = session->state == STATE_RUNNING &&
                    !(role->min_failed && count >= role->min_failed);
    return fact->excused ? NOTHING : FAILS;
}

static void rank_ended(struct session_host *host, int rank, bool abnormal)
{
    struct rg_session *session = host->session;
    struct rg_fact *fact = &session->facts[rank];
    struct rg_facts facts = { .ranks = session->facts, .nranks = session->o.plan->nranks };
    char how[RG_CAUSE_MAX];

    fact->ended = true;
    session_chaos_process(session, rank, 0);
    fact->end.at_ns = session_elapsed_ns(session);
    enum outcome outcome = judge(session, rank);
    fact->end.consequence = rg_verdict_is_consequence(&facts, rank);
    fact->end.borne = fact->excused && !fact->signalled;
    session->nended++;
    rg_verdict_describe_end(fact, how, sizeof(how));
    if (abnormal && !fact->excused)
        tell_others(host, &fact->end);
    session_leave_fence(session, rank, how);
    if (session->o.ops->on_rank_ended)
        session->o.ops->on_rank_ended(session->o.arg, &fact->end);
    if (outcome == ENOUGH)
        session_end_well(session);
    session_elastic_rank_ended(session, rank, outcome == FAILS);
    if (fact->awaited)
        session_awaited_ended(session);
    if (!session_is_open(session) && session_none_runs(session))
        session_release(session);
}

/* A signal that reigen handed on and that a rank did not survive: the sender's wish, not the rank's
 * fault. In an elastic job SIGTERM is the membership's word. */
static void check_forwarded(struct rg_session *session, const struct rg_fact *fact)
{
    int signo = fact->end.value;

    if (session->state != STATE_RUNNING || fact->end.end != RG_END_SIGNAL ||
        fact->signalled != (uint32_t) signo || signo == SIGKILL)
        return;
    /* So ends a rank that has no place any more in an elastic job; we were sent nothing. */
    if (session_is_open(session) && signo == SIGTERM)
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

    if (fact->ended)
        return;
    fact->end.end = WIFSIGNALED(status) ? RG_END_SIGNAL : RG_END_EXIT;
    fact->end.value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    fact->end.oom = msg->oom;
    if (msg->oom && msg->memory)
        fact->end.memory = strndup(msg->memory, RG_MSG_TEXT_MAX);
    if (msg->sshd_host && *msg->sshd_host)
        fact->end.sshd_host = strndup(msg->sshd_host, RG_HOST_NAME_MAX);
    fact->end.sshd_port = (int) msg->sshd_port;
    fact->end.in_runtime = msg->in_runtime;
    /* Where the ranks were about to meet, we know it before the runtime says so. */
    if (msg->cut_by != RG_MSG_NO_RANK || session->o.job->elastic.on)
        fact->cut_by = 1 + session_place_of(session, msg->cut_by);
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
    session_count_started(session, rank);
    fact->text = strndup(msg->text ? msg->text : "", RG_MSG_TEXT_MAX);
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
    session_each_started(host, lose);
}

/* --- notes ------------------------------------------------------------------------------------ */

void session_on_note(struct session_host *host, const struct rg_msg_note *msg)
{
    struct rg_session *session = host->session;
    const char *text = msg->text ? msg->text : "";

    if (msg->level == RG_NOTE_PREEMPTIBLE) {
        session_wants_notice(session);
        return;
    }
    if (msg->level == RG_NOTE_WHERE) {
        if (msg->rank != RG_MSG_NO_RANK && session_note_place(session, (int) msg->rank, text))
            session_end_told_where(session);
        return;
    }
    if (msg->level == RG_NOTE_DEADLOCK) {
        if (session->state == STATE_RUNNING &&
            session_set_cause(session, RG_EXIT_DEADLOCK, "%s", text))
            session_begin_end(session);
        return;
    }
    if (msg->rank == RG_MSG_NO_RANK || msg->level != 0) {
        bool of_job = msg->rank == RG_MSG_NO_RANK || msg->level > 1;

        session_remark(session, of_job ? -1 : (int) msg->rank, text);
        return;
    }
    session_note_rank(session, (int) msg->rank, text);
}
