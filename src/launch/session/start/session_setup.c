/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of the ranks is made here, where the user's is, and sent to each host with
 * whatever else its ranks need: also the bundle (container/bundle.h), where a host is used without
 * an image and lacks it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/process/spawn.h"
#include "launch/session/core/session_end.h"
#include "launch/session/start/start.h"
#include "launch/net/network.h"
#include "launch/plan/place.h"
#include "job/engine.h"

extern char **environ;

struct bundle_host {
    bool wanted; /* it has not said yet that it needs no more */
    size_t sent; /* bytes of it */
};

struct session_setup {
    struct rg_strv env, secret_env; /* NAME=VALUE of --env and --share-env, and the caller's
                                     * OMP_NUM_THREADS */
    struct rg_strv hosts;           /* NAME:RANKS of each */
    struct rg_strv tasks;           /* NAME:1 of each, where the job has roles */
    int rows, columns;              /* of rank 0's terminal */
    struct rg_buf archive;          /* the bundle; empty before the first host wanted it */
    int nwanted;                    /* hosts that it is not known of whether they need more */
    struct bundle_host bundle[];
};

static int add_env(struct rg_strv *env, const struct rg_strv *wanted, const char *option,
                   struct rg_error *err)
{
    for (size_t i = 0; i < wanted->count; i++) {
        const char *name = wanted->v[i];
        int r;
        if (strchr(name, '=')) {
            r = rg_strv_add(env, name);
        } else if (getenv(name)) {
            r = rg_strv_addf(env, "%s=%s", name, getenv(name));
        } else {
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "%s %s: there is no such variable in the environment; export "
                                     "it, or leave the option out",
                                     option, name);
        }
        if (r < 0)
            return rg_error_set(err, -r, "no memory for the environment");
    }
    return 0;
}

int session_collect_env(struct rg_session *session, struct rg_error *err)
{
    struct session_setup *setup = session->setup;
    const char *threads = getenv("OMP_NUM_THREADS");
    int r = 0;

    /* As if by --env, which comes after it: where it is set, all ranks have as many threads. */
    if (threads && *threads && rg_strv_addf(&setup->env, "OMP_NUM_THREADS=%s", threads) < 0)
        r = rg_error_set(err, ENOMEM, "no memory for the environment");
    if (r == 0)
        r = add_env(&setup->env, &session->o.job->env, "--env", err);
    return r < 0 ? r : add_env(&setup->secret_env, &session->o.job->share_env, "--share-env", err);
}

/* Tasks that wait for one another (reigen wait-workers) prove by it that they are of this job. */
static int add_tasks_key(struct rg_session *session)
{
    static const char name[] = "REIGEN_KEY";
    uint8_t key[RG_KEY_NBYTES];
    char hex[2 * RG_KEY_NBYTES + 1];

    if (!session->o.job->nroles || rg_env_get(&session->setup->secret_env, name))
        return 0;
    rg_key_derive(session->key, "tasks", key);
    rg_key_format(key, hex);
    int r = rg_strv_addf(&session->setup->secret_env, "%s=%s", name, hex);
    explicit_bzero(key, sizeof(key));
    explicit_bzero(hex, sizeof(hex));
    return r;
}

/* Once for all hosts: it would take a sixth of a second longer for a thousand of them. */
static int init(struct rg_session *session)
{
    const struct rg_plan *plan = session->o.plan;
    int r = 0;

    for (int i = 0; r == 0 && i < plan->nhosts; i++)
        r = rg_strv_addf(&session->setup->hosts, "%s:%d", plan->hosts[i].name,
                         plan->hosts[i].nplanned);
    for (int i = 0; r == 0 && session->o.job->nroles && i < plan->nranks; i++)
        r = rg_strv_addf(&session->setup->tasks, "%s:1", plan->ranks[i].task);
    return r;
}

static void fini(struct rg_session *session)
{
    struct session_setup *setup = session->setup;

    for (size_t i = 0; i < setup->secret_env.count; i++)
        explicit_bzero(setup->secret_env.v[i], strlen(setup->secret_env.v[i]));
    rg_strv_fini(&setup->env);
    rg_strv_fini(&setup->secret_env);
    rg_strv_fini(&setup->hosts);
    rg_strv_fini(&setup->tasks);
    rg_buf_fini(&setup->archive);
}

const struct session_part session_setup_part = {
    SESSION_PART(setup), .nbytes_per_host = sizeof(struct bundle_host), .init = init, .fini = fini,
};

void session_resize(struct rg_session *session, int rows, int columns)
{
    session->setup->rows = rows;
    session->setup->columns = columns;
    session_broadcast(session, RG_MSG_RESIZE,
                      &(struct rg_msg_resize){ (uint32_t) rows, (uint32_t) columns });
}

/* --- SETUP and RANK --------------------------------------------------------------------------- */

/* An engine's part goes to all hosts, for what it starts there; what the user sets comes last. */
static int list_env(struct rg_session *session, const struct rg_strv *base, struct rg_strv *env)
{
    const struct session_setup *setup = session->setup;
    int r = 0;

    if (rg_job_has_engine(session->o.job))
        r = rg_plan_rank_env(session->o.plan, session->o.job, 0, base, env);
    if (r == 0 && setup->env.count)
        r = rg_strv_add_all(env, setup->env.v);
    return r;
}

static int send_common(struct session_host *host, const struct rg_strv *base, const char *network,
                       const char *interface)
{
    struct rg_session *session = host->session;
    struct session_setup *setup = session->setup;
    const struct rg_job *job = session->o.job;
    rg_autostrv struct rg_strv env = RG_STRV_INIT, options = RG_STRV_INIT;
    int r = list_env(session, base, &env);

    if (r == 0)
        r = rg_job_engine_options(job, &options);
    if (r < 0)
        return r;
    struct rg_msg_setup msg = {
        .host = session->o.plan->hosts[host->index].name,
        .size = (uint32_t) session->o.plan->room_ranks,
        .command = job->command,
        .cwd = job->cwd,
        .inherit_env = 1,
        .env = env,
        .secret_env = setup->secret_env,
        .lease_ms = job->lease_ms,
        .output_window = RG_MSG_OUTPUT_WINDOW,
        .host_index = (uint32_t) host->index,
        .hosts = setup->hosts,
        .tasks = setup->tasks,
        .engine = (char *) rg_job_engine_name(job),
        .engine_options = options,
        .np = (uint32_t) session->o.plan->np,
        .resident = rg_job_has_engine(job) || job->elastic.on,
        .elastic = job->elastic.on,
        .bind = (uint8_t) job->bind,
        .oversubscribe = job->oversubscribe,
        .network = (char *) network,
        .interface = (char *) interface,
        .bundle = rg_place_sends_bundle(job) ? job->container.place.bundle_digest : (char *) "",
        .bundle_nbytes = job->container.place.bundle_nbytes,
        .bundle_error = job->container.image ? (char *) "" : job->container.place.bundle_error,
        .bundle_first = job->container.inject == RG_INJECT_YES,
#ifndef RG_AGENT
        .script = (char *) session_sync_script(host),
        .sync = session_sync_is_on(session),
#endif
    };

    r = session_send(host, RG_MSG_SETUP, &msg);
    if (r == 0 && session->paused) /* its agent came when the others had been told already */
        r = session_send(host, RG_MSG_PAUSE, NULL);
    return r;
}

/* seat: of an elastic job's place; else NULL. */
static int send_rank(struct session_host *host, int rank, const struct rg_plan_seat *seat,
                     const struct rg_strv *base_env)
{
    struct rg_session *session = host->session;
    const struct rg_plan *plan = session->o.plan;
    const struct rg_job *job = session->o.job;
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    int r = seat                     ? rg_plan_seat_env(plan, job, rank, seat, base_env, &env)
            : job->nroles            ? rg_plan_task_env(plan, job, rank, &env)
            : rg_job_has_engine(job) ? 0
                                     : rg_plan_rank_env(plan, job, rank, base_env, &env);

    if (r < 0)
        return r;
    struct rg_msg_rank msg = {
        .rank = (uint32_t) rank,
        .env = env,
        .takes_input = !seat && (job->stdin_mode == RG_STDIN_ALL ||
                                 (job->stdin_mode == RG_STDIN_RANK && job->stdin_rank == rank)),
        .pty = job->pty && rank == job->stdin_rank,
        .rows = (uint32_t) session->setup->rows,
        .columns = (uint32_t) session->setup->columns,
    };
    return session_send(host, RG_MSG_RANK, &msg);
}

/* What the ranks have before the plan adds its part. */
static int make_base_env(struct rg_session *session, struct rg_strv *env)
{
    const struct session_setup *setup = session->setup;
    /* Ranks inherit their agent's environment: a local agent's is ours, another's is its host's. */
    bool inherits = session->o.driver->platform.here;
    int r = inherits ? rg_strv_add_all(env, environ) : 0;

    rg_env_forget_launchers(env);
    /* Elsewhere only the agent knows whether it is set, and how many cores there are. */
    if (r == 0 && !inherits)
        r = rg_strv_add(env, "OMP_NUM_THREADS=");
    if (r == 0 && setup->env.count)
        r = rg_strv_add_all(env, setup->env.v);
    if (r == 0 && setup->secret_env.count)
        r = rg_strv_add_all(env, setup->secret_env.v);
    return r;
}

/* r: of what was sent. Where its agent has died, its link's end and the driver will tell how. */
static void check_sent(struct session_host *host, int r)
{
    if (r == 0 || r == -ENOTCONN || r == -EPIPE)
        return;
    session_set_cause(host->session, RG_EXIT_INTERNAL,
                      "host %s: cannot send the ranks' set-up: %s", session_host_name(host),
                      strerror(-r));
    session_begin_end(host->session);
}

static void send_to_host(struct session_host *host, const char *network, const char *interface)
{
    struct rg_session *session = host->session;
    const struct rg_plan_host *planned = &session->o.plan->hosts[host->index];
    rg_autostrv struct rg_strv base_env = RG_STRV_INIT;
    int r = make_base_env(session, &base_env);

    if (r == 0)
        r = send_common(host, &base_env, network, interface);
    for (int i = 0; r == 0 && i < planned->nranks && !session->o.job->elastic.on; i++)
        r = send_rank(host, session->o.plan->by_host[planned->first_rank_index + i], NULL,
                      &base_env);
#ifndef RG_AGENT
    if (r == 0)
        session_sync_begin(host);
#endif
    for (size_t i = 0; i < base_env.count; i++)
        explicit_bzero(base_env.v[i], strlen(base_env.v[i]));
    check_sent(host, r);
}

void session_send_seats(struct session_host *host, const int *places,
                        const struct rg_plan_seat *seats, int n)
{
    rg_autostrv struct rg_strv base_env = RG_STRV_INIT;
    int r = make_base_env(host->session, &base_env);

    for (int i = 0; r == 0 && i < n; i++)
        r = send_rank(host, places[i], &seats[i], &base_env);
    for (size_t i = 0; i < base_env.count; i++)
        explicit_bzero(base_env.v[i], strlen(base_env.v[i]));
    if (r == 0)
        r = session_send(host, RG_MSG_START, NULL);
    check_sent(host, r);
}

void session_send_setup_to(struct session_host *host, const struct rg_network *network)
{
    struct session_setup *setup = host->session->setup;

    if (rg_place_sends_bundle(host->session->o.job)) {
        setup->bundle[host->index].wanted = true;
        setup->nwanted++;
    }
    send_to_host(host, network ? rg_network_cidr(network) : "",
                 network ? rg_network_interface(network, 0) : "");
}

void session_send_setup(struct rg_session *session, const struct rg_network *network)
{
    struct session_setup *setup = session->setup;
    int nhosts = session->o.plan->nhosts;

    if (add_tasks_key(session) < 0) {
        session_set_cause(session, RG_EXIT_INTERNAL, "out of memory");
        session_begin_end(session);
    }
    setup->nwanted = rg_place_sends_bundle(session->o.job) ? nhosts : 0;
    for (int i = 0; i < setup->nwanted; i++)
        setup->bundle[i].wanted = true;
    for (int i = 0; i < nhosts && session->state == STATE_STARTING; i++)
        send_to_host(&session->hosts[i], rg_network_cidr(network),
                     rg_network_interface(network, i));
}

/* --- the bundle ------------------------------------------------------------------------------- */

bool session_bundle_is_done(const struct rg_session *session)
{
    return session->setup->nwanted == 0;
}

bool session_bundle_is_wanted(const struct session_host *host)
{
    return host->session->setup->bundle[host->index].wanted;
}

/* Packed once, for the first host that lacks it. Without it the job goes on: the ranks that would
 * need it say why it is not there. */
static bool pack(struct session_host *host)
{
    struct rg_session *session = host->session;
    struct rg_buf *archive = &session->setup->archive;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_buf_nbytes(archive) == 0 &&
        rg_place_pack_bundle(&session->o.job->container.place, archive, &err) < 0) {
        rg_buf_fini(archive);
        session_remark(session, -1, err.text);
        return false;
    }
    return true;
}

static void send_up_to(struct session_host *host, size_t nbytes)
{
    const struct rg_buf *archive = &host->session->setup->archive;
    size_t *sent = &host->session->setup->bundle[host->index].sent;

    while (*sent < nbytes) {
        size_t n = nbytes - *sent;
        struct rg_msg_data msg = { { (uint8_t *) rg_buf_bytes(archive) + *sent,
                                     n < RG_MSG_CHUNK_MAX ? n : RG_MSG_CHUNK_MAX } };
        if (session_send(host, RG_MSG_BUNDLE, &msg) < 0)
            return; /* its link tells */
        *sent += msg.data.nbytes;
    }
}

int session_on_bundle_wanted(struct session_host *host, uint64_t nbytes)
{
    struct rg_session *session = host->session;
    struct session_setup *setup = session->setup;

    if (!session_bundle_is_wanted(host))
        return -EBADMSG;
    if (nbytes > 0) {
        snprintf(host->reason, sizeof(host->reason), "Reigen's Python packages are being sent");
        if (session->state != STATE_STARTING && !session_is_open(session))
            return 0;
        if (!pack(host)) {
            session_send(host, RG_MSG_BUNDLE, &(struct rg_msg_data){ { NULL, 0 } });
            return 0;
        }
        size_t all = rg_buf_nbytes(&setup->archive);
        send_up_to(host, nbytes < all ? (size_t) nbytes : all);
        return 0;
    }
    setup->bundle[host->index].wanted = false;
    *host->reason = '\0';
    if (--setup->nwanted == 0)
        rg_buf_fini(&setup->archive);
    return 0;
}
