/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/spawn.h"
#include "base/time.h"
#include "base/exitcode.h"
#include "launch/head/session_internal.h"
#include "spec/job/engine.h"

extern char **environ;

bool session_host_has_rank(const struct session_host *host, uint32_t rank)
{
    const struct rg_plan *plan = host->session->o.plan;

    return rank < (uint32_t) plan->nranks && plan->ranks[rank].host == host->index;
}

/* --- set-up ----------------------------------------------------------------------------------- */

/* Ranks inherit their agent's environment: a local agent's is ours, another's is its host's. */
static bool inherits(const struct rg_session *session)
{
    return session->o.driver->platform.here;
}

/* NAME:RANKS of each host. */
static int list_hosts(const struct rg_plan *plan, struct rg_strv *hosts)
{
    int r = 0;

    for (int i = 0; r == 0 && i < plan->nhosts; i++)
        r = rg_strv_addf(hosts, "%s:%d", plan->hosts[i].name, plan->hosts[i].nplanned);
    return r;
}

/* An engine's part goes to all hosts, for what it starts there; what the user sets comes last. */
static int list_env(struct rg_session *session, const struct rg_strv *base, struct rg_strv *env)
{
    int r = 0;

    if (rg_job_has_engine(session->o.job))
        r = rg_plan_rank_env(session->o.plan, session->o.job, 0, base, env);
    if (r == 0 && session->env.count)
        r = rg_strv_add_all(env, session->env.v);
    return r;
}

static int send_common(struct session_host *host, const struct rg_strv *base)
{
    struct rg_session *session = host->session;
    const struct rg_job *job = session->o.job;
    rg_autostrv struct rg_strv env = RG_STRV_INIT, options = RG_STRV_INIT;
    /* Once for all: a thousand hosts would take a sixth of a second longer. */
    int r = session->host_list.count ? 0 : list_hosts(session->o.plan, &session->host_list);

    if (r == 0)
        r = list_env(session, base, &env);
    if (r == 0)
        r = rg_job_engine_options(job, &options);

    if (r < 0)
        return r;
    struct rg_msg_setup setup = {
        .host = session->o.plan->hosts[host->index].name,
        .size = (uint32_t) session->o.plan->nranks,
        .command = job->command,
        .cwd = job->cwd,
        .inherit_env = 1,
        .env = env,
        .secret_env = session->secret_env,
        .lease_ms = job->lease_ms,
        .output_window = RG_MSG_OUTPUT_WINDOW,
        .host_index = (uint32_t) host->index,
        .hosts = session->host_list,
        .engine = (char *) rg_job_engine_name(job),
        .engine_options = options,
        .np = (uint32_t) session->o.plan->np,
        .resident = rg_job_has_engine(job),
        .bind = (uint8_t) job->bind,
        .oversubscribe = job->oversubscribe,
        .network = (char *) session_network_cidr(session),
        .interface = (char *) session_network_interface(host),
        .bundle = session_has_bundle(session) ? job->container.place.bundle_digest : (char *) "",
        .bundle_nbytes = job->container.place.bundle_nbytes,
        .bundle_error = job->container.image ? (char *) "" : job->container.place.bundle_error,
        .bundle_first = job->container.inject == RG_INJECT_YES,
    };

    return rg_msg_send(host->channel, RG_MSG_SETUP, &setup);
}

static int send_rank(struct session_host *host, int rank, const struct rg_strv *base_env)
{
    struct rg_session *session = host->session;
    const struct rg_job *job = session->o.job;
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    int r = rg_job_has_engine(job)
                ? 0 : rg_plan_rank_env(session->o.plan, job, rank, base_env, &env);

    if (r < 0)
        return r;
    struct rg_msg_rank msg = {
        .rank = (uint32_t) rank,
        .env = env,
        .takes_input = job->stdin_mode == RG_STDIN_ALL ||
                       (job->stdin_mode == RG_STDIN_RANK && job->stdin_rank == rank),
        .pty = job->pty && rank == 0,
        .rows = (uint32_t) session->rows,
        .columns = (uint32_t) session->columns,
    };
    return rg_msg_send(host->channel, RG_MSG_RANK, &msg);
}

/* What the ranks have before the plan adds its part. */
static int make_base_env(struct rg_session *session, struct rg_strv *env)
{
    int r = inherits(session) ? rg_strv_add_all(env, environ) : 0;

    rg_env_forget_launchers(env);
    /* Elsewhere only the agent knows whether it is set, and how many cores there are. */
    if (r == 0 && !inherits(session))
        r = rg_strv_add(env, "OMP_NUM_THREADS=");
    if (r == 0 && session->env.count)
        r = rg_strv_add_all(env, session->env.v);
    if (r == 0 && session->secret_env.count)
        r = rg_strv_add_all(env, session->secret_env.v);
    return r;
}

void session_send_setup(struct session_host *host)
{
    struct rg_session *session = host->session;
    const struct rg_plan_host *planned = &session->o.plan->hosts[host->index];
    rg_autostrv struct rg_strv base_env = RG_STRV_INIT;
    int r = make_base_env(session, &base_env);

    if (r == 0)
        r = send_common(host, &base_env);
    for (int i = 0; r == 0 && i < planned->nranks; i++)
        r = send_rank(host, session->o.plan->by_host[planned->first_rank_index + i], &base_env);
    for (size_t i = 0; i < base_env.count; i++)
        explicit_bzero(base_env.v[i], strlen(base_env.v[i]));
    /* Its agent has died: how, its link's end and the driver will tell. */
    if (r < 0 && r != -ENOTCONN) {
        session_set_cause(session, RG_EXIT_INTERNAL, "host %s: cannot send the ranks' set-up: %s",
                          planned->name, strerror(-r));
        session_begin_end(session);
    }
}

/* --- starts ----------------------------------------------------------------------------------- */

static void count_started(struct rg_session *session, int rank)
{
    if (session->ranks[rank].started)
        return;
    session->ranks[rank].started = true;
    if (++session->nstarted == session->o.plan->nranks)
        rg_timer_stop(&session->start_timer);
}

void session_on_started(struct session_host *host, const struct rg_msg_started *msg)
{
    struct rg_session *session = host->session;
    const char *cpus = msg->cpus ? msg->cpus : "";

    if (cpus[strspn(cpus, "0123456789,-")]) /* the user sees it */
        cpus = "";
    count_started(session, (int) msg->rank);
    if (session->ops->on_rank_started)
        session->ops->on_rank_started(session->o.arg, (int) msg->rank, (int) msg->pid, cpus);
}

/* --- fences ----------------------------------------------------------------------------------- */

static void fence_due(void *arg);

static void watch_fence(struct rg_session *session)
{
    uint64_t deadline_ns = rg_fence_deadline_ns(session->fence);
    uint64_t now = rg_now_ns();

    if (deadline_ns == RG_NEVER_NS)
        rg_timer_stop(&session->fence_timer);
    else
        rg_timer_start(&session->fence_timer, session->o.loop,
                       deadline_ns > now ? (deadline_ns - now) / RG_NS_PER_MS + 1 : 0, 0, fence_due,
                       session);
}

static void fail_fence(struct rg_session *session, uint32_t generation, struct rg_error *err)
{
    struct rg_msg_fence_failed msg = { generation, (uint32_t) err->errnum, err->text };

    session_broadcast(session, RG_MSG_FENCE_FAILED, &msg);
    rg_timer_stop(&session->fence_timer);
}

static void fence_due(void *arg)
{
    struct rg_session *session = arg;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_fence_deadline_ns(session->fence) > rg_now_ns())
        watch_fence(session);
    else if (rg_fence_expire(session->fence, &err) < 0)
        fail_fence(session, 0, &err);
}

void session_on_fence(struct session_host *host, const struct rg_msg_fence *msg)
{
    struct rg_session *session = host->session;
    struct rg_error err = RG_ERROR_INIT;
    uint64_t deadline_ns = msg->timeout_ms ? rg_now_ns() + msg->timeout_ms * RG_NS_PER_MS
                                           : RG_NEVER_NS;
    int r = rg_fence_arrive(session->fence, (int) msg->rank, msg->generation, deadline_ns,
                            msg->blob.data, msg->blob.nbytes, &err);

    if (r < 0) {
        fail_fence(session, msg->generation, &err);
    } else if (r == 0) {
        watch_fence(session);
    } else {
        rg_autobuf struct rg_buf blobs = RG_BUF_INIT;
        uint32_t generation = rg_fence_take(session->fence, &blobs);
        struct rg_msg_fence_done done = {
            generation, { (uint8_t *) rg_buf_bytes(&blobs), rg_buf_nbytes(&blobs) }
        };
        rg_timer_stop(&session->fence_timer);
        session->runtime_used = true;
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
        if (other != host && other->ready && other->channel)
            rg_msg_send(other->channel, RG_MSG_PEER_DIED, &msg);
    }
}

static void rank_ended(struct session_host *host, int rank, bool abnormal)
{
    struct rg_session *session = host->session;
    struct rg_fact *fact = &session->facts[rank];
    struct rg_facts facts = facts_of(session);
    struct rg_error err = RG_ERROR_INIT;
    char how[RG_CAUSE_MAX];

    fact->ended = true;
    fact->end.at_ns = session_elapsed_ns(session);
    fact->end.note = session->ranks[rank].note ? session->ranks[rank].note : "";
    fact->end.consequence = rg_verdict_is_consequence(&facts, rank);
    session->nended++;
    rg_verdict_describe(fact, how, sizeof(how));
    if (abnormal)
        tell_others(host, rank, how);
    const char *short_how = strstr(how, ": ");
    if (rg_fence_rank_ended(session->fence, rank, short_how ? short_how + 2 : how, &err) < 0)
        fail_fence(session, 0, &err);
    if (session->ops->on_rank_ended)
        session->ops->on_rank_ended(session->o.arg, &fact->end);
    if (fact->end.end != RG_END_EXIT || fact->end.value != 0) {
        if (!*session->own_cause)
            session->some_failed = true;
        if (fact->cut_by)
            session_await(session, fact->cut_by - 1);
        session_end_after_failure(session);
    }
    if (fact->awaited)
        session_awaited_ended(session);
    if (session->nended == session->o.plan->nranks) {
        rg_timer_stop(&session->grace_timer);
        session_release(session);
    }
}

/* A signal that reigen handed on and that a rank did not survive: the sender's wish, not the rank's
 * fault. */
static void check_forwarded(struct rg_session *session, const struct rg_fact *fact)
{
    int signo = fact->end.value;

    if (session->state != STATE_RUNNING || fact->end.end != RG_END_SIGNAL ||
        fact->signalled != (uint32_t) signo || signo == SIGKILL)
        return;
    session->own_is_signal = !*session->own_cause;
    session_set_cause(session, RG_EXIT_SIGNAL + signo,
                      "reigen was sent signal %d (%s) and handed it on", signo, strsignal(signo));
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
    if (msg->oom && msg->memory && !session->ranks[rank].memory)
        session->ranks[rank].memory = strndup(msg->memory, RG_MSG_TEXT_MAX);
    fact->end.memory = session->ranks[rank].memory;
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
    session->ranks[rank].text = strndup(msg->text ? msg->text : "", RG_MSG_TEXT_MAX);
    fact->text = session->ranks[rank].text;
    fact->end.end = RG_END_NOT_STARTED;
    fact->end.value = (int) msg->errnum;
    fact->exit_code = (int) msg->exit_code;
    rank_ended(host, rank, true);
}

void session_lose_ranks(struct session_host *host)
{
    struct rg_session *session = host->session;
    const struct rg_plan_host *planned = &session->o.plan->hosts[host->index];

    for (int i = 0; i < planned->nranks; i++) {
        int rank = session->o.plan->by_host[planned->first_rank_index + i];
        struct rg_fact *fact = &session->facts[rank];
        if (fact->ended || !session->ranks[rank].started)
            continue;
        fact->end.end = RG_END_LOST;
        rank_ended(host, rank, true);
    }
}

/* --- notes ------------------------------------------------------------------------------------ */

void session_on_note(struct session_host *host, const struct rg_msg_note *msg)
{
    struct rg_session *session = host->session;
    const char *text = msg->text ? msg->text : "";

    if (msg->rank == RG_MSG_NO_RANK || msg->level != 0) {
        bool of_job = msg->rank == RG_MSG_NO_RANK || msg->level > 1;

        if (session->ops->on_note)
            session->ops->on_note(session->o.arg, of_job ? -1 : (int) msg->rank, text);
        return;
    }
    struct session_rank *rank = &session->ranks[msg->rank];
    struct rg_fact *fact = &session->facts[msg->rank];
    char *copy = strndup(text, RG_MSG_TEXT_MAX);
    if (!copy)
        return;
    free(rank->note);
    rank->note = copy;
    fact->end.note = copy;
}
