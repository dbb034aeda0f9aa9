/* SPDX-License-Identifier: Apache-2.0 */
/* What agents say of their ranks becomes the facts that the verdict judges, and the other hosts
 * hear of deaths. Here the ranks of all hosts meet, too. The answer to a fence is as large as the
 * job: so it is made once, and each agent gets it in parts, as fast as its link takes them. What
 * waits is one answer and each link's backlog. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "launch/session/core/session_end.h"
#include "launch/session/core/session_stream.h"
#include "launch/session/fence.h"
#include "launch/session/remote/remote.h"
#include "launch/session/session_internal.h"
#include "job/hostlist.h"
#include "wire/rankmsg.h"

struct rank {
    char *note;   /* the runtime's last; end.note points here */
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
            .engine = plan->ranks[i].task ? plan->ranks[i].task : plan->engine,
        };
    return session->facts ? 0 : -ENOMEM;
}

static void fini(struct rg_session *session)
{
    for (int i = 0; session->facts && i < session->o.plan->nranks; i++) {
        free(session->ranks->ranks[i].note);
        free(session->facts[i].text);
        free(session->facts[i].end.memory);
        free(session->facts[i].end.sshd_host);
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

/* --- fences ----------------------------------------------------------------------------------- */

struct session_fences {
    struct rg_fence *fence;
    struct rg_timer timer;
    bool met;
    uint32_t generation;  /* of the answer */
    struct rg_buf answer; /* the blobs; empty once all hosts have it, or it is void */
    size_t sent[];        /* bytes of it, to each host */
};

static int init_fences(struct rg_session *session)
{
    return rg_fence_create(session->o.plan->nranks, &session->fences->fence);
}

static void fini_fences(struct rg_session *session)
{
    rg_timer_stop(&session->fences->timer);
    rg_fence_destroy(session->fences->fence);
    rg_buf_fini(&session->fences->answer);
}

const struct session_part session_fences_part = {
    SESSION_PART(fences), .nbytes_per_host = sizeof(size_t), .init = init_fences,
    .fini = fini_fences,
};

/* Who has not all of an answer hears that there is none. */
static void fail_fence(struct rg_session *session, uint32_t generation, struct rg_error *err)
{
    struct rg_rankmsg_fence_failed msg = { generation, (uint32_t) err->errnum, err->text, 0 };

    rg_buf_fini(&session->fences->answer);
    session_broadcast(session, RG_MSG_FENCE_FAILED, &msg);
    rg_timer_stop(&session->fences->timer);
}

static void fence_due(void *arg);

static void watch_fence(struct rg_session *session)
{
    struct session_fences *fences = session->fences;
    uint64_t deadline_ns = rg_fence_deadline_ns(fences->fence);
    uint64_t now = rg_now_ns();

    if (deadline_ns == RG_NEVER_NS)
        rg_timer_stop(&fences->timer);
    else
        rg_timer_start(&fences->timer, session->o.loop,
                       deadline_ns > now ? (deadline_ns - now) / RG_NS_PER_MS + 1 : 0, 0, fence_due,
                       session);
}

static void fence_due(void *arg)
{
    struct rg_session *session = arg;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_fence_deadline_ns(session->fences->fence) > rg_now_ns())
        watch_fence(session);
    else if (rg_fence_expire(session->fences->fence, &err) < 0)
        fail_fence(session, 0, &err);
}

/* A rank has ended, and how: whoever waits for it in a fence is told so. */
static void tell_fence(struct rg_session *session, int rank, const char *how)
{
    struct rg_error err = RG_ERROR_INIT;

    if (rg_fence_rank_ended(session->fences->fence, rank, how, &err) < 0)
        fail_fence(session, 0, &err);
}

static bool all_have_it(const struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (session_host_listens(&session->hosts[i]) &&
            session->fences->sent[i] < rg_buf_nbytes(&session->fences->answer))
            return false;
    }
    return true;
}

static void send_parts(struct session_host *host)
{
    struct session_fences *fences = host->session->fences;
    size_t all = rg_buf_nbytes(&fences->answer), *sent = &fences->sent[host->index];

    while (*sent < all && session_host_listens(host) && !rg_channel_congested(host->channel)) {
        size_t n = all - *sent < RG_FENCE_PART_MAX ? all - *sent : RG_FENCE_PART_MAX;
        struct rg_rankmsg_fence_done part = {
            fences->generation, (uint32_t) (all - *sent - n),
            { (uint8_t *) rg_buf_bytes(&fences->answer) + *sent, n }, 0
        };
        *sent += n;
        if (session_send(host, RG_MSG_FENCE_DONE, &part) < 0)
            return; /* its link tells */
    }
}

void session_fence_go_on(void *arg)
{
    struct session_host *host = arg;
    struct session_fences *fences = host->session->fences;

    if (!rg_buf_nbytes(&fences->answer))
        return;
    send_parts(host);
    if (all_have_it(host->session))
        rg_buf_fini(&fences->answer);
}

static void answer_fence(struct rg_session *session)
{
    struct session_fences *fences = session->fences;
    struct rg_error err = RG_ERROR_INIT;

    rg_buf_fini(&fences->answer);
    fences->generation = rg_fence_take(fences->fence, &fences->answer);
    rg_timer_stop(&fences->timer);
    if (rg_buf_status(&fences->answer) < 0) {
        rg_error_set(&err, ENOMEM, "no memory for the ranks' meeting");
        fail_fence(session, fences->generation, &err);
        return;
    }
    fences->met = true;
    for (int i = 0; i < session->o.plan->nhosts; i++)
        fences->sent[i] = 0;
    for (int i = 0; i < session->o.plan->nhosts; i++)
        send_parts(&session->hosts[i]);
    if (all_have_it(session))
        rg_buf_fini(&fences->answer);
}

void session_on_fence(struct session_host *host, const struct rg_msg_fence *msg)
{
    struct rg_session *session = host->session;
    struct rg_error err = RG_ERROR_INIT;
    uint64_t deadline_ns = msg->timeout_ms ? rg_now_ns() + msg->timeout_ms * RG_NS_PER_MS
                                           : RG_NEVER_NS;
    int r = rg_fence_arrive(session->fences->fence, (int) msg->rank, msg->generation, deadline_ns,
                            msg->blob.data, msg->blob.nbytes, &err);

    if (r < 0)
        fail_fence(session, msg->generation, &err);
    else if (r == 0)
        watch_fence(session);
    else
        answer_fence(session);
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
    struct rg_msg_peer_died msg = { .rank = (uint32_t) end->rank, .host = (uint32_t) host->index,
                                    .end = ends[end->end], .value = end->value, .oom = end->oom };

    for (int i = 0; i < session->o.plan->nhosts; i++) {
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
    const char *note = session->ranks->ranks[rank].note;
    char how[RG_CAUSE_MAX];

    fact->ended = true;
    fact->end.at_ns = session_elapsed_ns(session);
    enum outcome outcome = judge(session, rank);
    fact->end.note = note ? note : "";
    fact->end.consequence = rg_verdict_is_consequence(&facts, rank);
    fact->end.borne = fact->excused && !fact->signalled;
    session->nended++;
    rg_verdict_describe_end(fact, how, sizeof(how));
    if (abnormal && !fact->excused)
        tell_others(host, &fact->end);
    tell_fence(session, rank, how);
    if (session->o.ops->on_rank_ended)
        session->o.ops->on_rank_ended(session->o.arg, &fact->end);
    if (outcome == FAILS) {
        if (fact->cut_by)
            session_await(session, fact->cut_by - 1);
        session_end_after_failure(session, session->fences->met);
    }
    if (fact->awaited)
        session_awaited_ended(session);
    if (outcome == ENOUGH)
        session_end_well(session);
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
