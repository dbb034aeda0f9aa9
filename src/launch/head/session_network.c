/* SPDX-License-Identifier: Apache-2.0 */
/* Between the last HELLO and START: which network connects the hosts, and what they are like. */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "launch/doctor/doctor.h"
#include "base/exitcode.h"
#include "launch/net/network.h"
#include "launch/head/session_internal.h"

#define PROBE_LIMIT_MS 8000    /* SYN is sent again after 1, 3 and 7 s */
#define HURRY_MS 2000          /* then a network that is sure beats a better one that may come */
#define INSPECT_LIMIT_MS 30000 /* python and nvidia-smi from a slow file system */

void session_keep_hello(struct session_host *host, struct rg_msg_hello *take_hello)
{
    host->addresses = take_hello->addresses;
    take_hello->addresses = (struct rg_strv) RG_STRV_INIT;
    host->boot_id = rg_steal_ptr(&take_hello->boot_id);
    host->netns = take_hello->netns;
    host->instance = take_hello->instance;
    host->free_port = take_hello->free_port;
}

static void refuse(struct rg_session *session, const struct rg_error *err)
{
    session_set_cause(session, err->exit_code ? err->exit_code : RG_EXIT_INTERNAL, "%s", err->text);
    session_begin_end(session);
}

/* --- what the hosts are like ------------------------------------------------------------------ */

static void examined(struct rg_session *session)
{
    const struct rg_plan *plan = session->o.plan;
    rg_autofree struct rg_doctor_host *hosts = calloc((size_t) plan->nhosts, sizeof(*hosts));
    struct rg_error err = RG_ERROR_INIT;
    struct rg_doctor_input input = { .hosts = hosts, .nhosts = plan->nhosts,
                                     .contained = session->o.job->container.image != NULL,
                                     .network = session->network,
                                     .network_err = &session->network_err,
                                     .required = &session->o.job->require };

    if (!hosts) {
        refuse(session, &(struct rg_error){ ENOMEM, 0, "out of memory" });
        return;
    }
    for (int i = 0; i < plan->nhosts; i++) {
        const struct session_host *host = &session->hosts[i];
        hosts[i] = (struct rg_doctor_host){
            .name = plan->hosts[i].name, .facts = host->facts, .addresses = &host->addresses,
            .nranks = plan->hosts[i].nplanned, .clock_ns = host->clock_ns,
            .clock_bound_ns = host->clock_bound_ns,
        };
    }
    if (session->o.doctor) {
        session->ops->on_examined(session->o.arg, &input);
        session_set_cause(session, RG_EXIT_OK, "examined");
        session_begin_end(session);
    } else if (rg_doctor_require(&input, &session->o.job->require, &err) < 0) {
        refuse(session, &err);
    } else {
        session_start_ranks(session);
    }
}

static void inspect(struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        host->asked_ns = rg_now_ns();
        host->asked_realtime_ns = rg_wall_ns();
        rg_msg_send(host->channel, RG_MSG_INSPECT, &(struct rg_msg_inspect){ INSPECT_LIMIT_MS });
    }
}

/* Its clock was read somewhere between our question and its answer. */
void session_on_clock(struct session_host *host, const struct rg_msg_clock *msg)
{
    uint64_t took_ns = rg_now_ns() - host->asked_ns;

    if (!host->asked_ns || host->facts)
        return;
    host->clock_bound_ns = took_ns / 2;
    host->clock_ns = (int64_t) (msg->realtime_ns - host->asked_realtime_ns - took_ns / 2);
}

int session_on_inspected(struct session_host *host, struct rg_msg_inspected *take_msg)
{
    struct rg_session *session = host->session;

    if (!host->asked_ns || host->facts)
        return -EBADMSG;
    host->facts = take_msg->text ? rg_steal_ptr(&take_msg->text) : strdup("");
    if (!host->facts)
        return -ENOMEM;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (!session->hosts[i].facts)
            return 0;
    }
    if (session->state == STATE_STARTING)
        examined(session);
    return 0;
}

/* --- the network ------------------------------------------------------------------------------ */

/* The plan's port was free on this computer; the first host may be another. The one where its agent
 * answered probes is free again when ranks start, and in the range. */
static int keep_addresses(struct rg_session *session)
{
    uint32_t port = session->o.job->ports.first ? session->hosts[0].probe_port
                                                : session->hosts[0].free_port;

    if (port && port <= UINT16_MAX && !session->o.driver->platform.here)
        session->o.plan->master_port = (int) port;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        char **address = &session->o.plan->hosts[i].address;
        free(*address);
        *address = strdup(rg_network_address(session->network, i));
        if (!*address)
            return -ENOMEM;
    }
    return 0;
}

/* An agent that is lost ends the job as soon as its driver has told how it died. Until then nothing
 * goes on, and what others found of its host, such as a port that refuses them, is no cause. */
static bool all_linked(const struct rg_session *session)
{
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (!session_is_linked(&session->hosts[i]))
            return false;
    }
    return true;
}

/* A host may have died whose link has not told yet: ask all, and refuse once all have answered. */
static void refuse_if_all_live(struct rg_session *session)
{
    if (session->network_refusing)
        return;
    session->network_refusing = true;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        struct session_host *host = &session->hosts[i];
        host->proof = ++host->npings;
        rg_msg_send(host->channel, RG_MSG_PING, NULL);
    }
}

void session_on_pong(struct session_host *host)
{
    struct rg_session *session = host->session;

    host->npongs++;
    if (!session->network_refusing || session->state != STATE_STARTING)
        return;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (session->hosts[i].npongs < session->hosts[i].proof)
            return;
    }
    refuse(session, &session->network_err);
}

static void decided(struct rg_session *session)
{
    session->network_refusing = false;
    rg_timer_stop(&session->network_timer);
    session->network_done = true;
    if (keep_addresses(session) < 0) {
        refuse(session, &(struct rg_error){ ENOMEM, 0, "out of memory" });
        return;
    }
    session_bundle_begin(session);
    for (int i = 0; i < session->o.plan->nhosts && session->state == STATE_STARTING; i++)
        session_send_setup(&session->hosts[i]);
    session_set_up(session);
}

void session_set_up(struct rg_session *session)
{
    if (session->state != STATE_STARTING || session->nbundles || !all_linked(session))
        return;
    if (session->o.doctor || session->o.job->require.count)
        inspect(session);
    else
        session_start_ranks(session);
}

static void decide(struct rg_session *session)
{
    bool all = session->nprobes == 0;
    int r = 0;

    if (!all_linked(session))
        return;
    /* The doctor wants the whole matrix, and no network is a finding like others. */
    if (all || !session->o.doctor)
        r = rg_network_decide(session->network, session->network_hurry || all,
                              &session->network_err);
    if (r == 0)
        return;
    if (r > 0 || session->o.doctor)
        decided(session);
    else
        refuse_if_all_live(session);
}

static void hurry_due(void *arg)
{
    struct rg_session *session = arg;

    session->network_hurry = true;
    if (session->state == STATE_STARTING)
        decide(session);
}

int session_on_probed(struct session_host *host, const struct rg_msg_probed *msg)
{
    struct rg_session *session = host->session;

    if (!session->network)
        return -EBADMSG;
    int r = rg_network_probed(session->network, host->index, msg->index, (int) msg->errnum,
                              msg->rtt_us);
    if (r < 0)
        return r;
    session->nprobes--;
    if (!session->network_done && session->state == STATE_STARTING)
        decide(session);
    return 0;
}

static int send_probes(struct rg_session *session)
{
    int r = 0;

    for (int i = 0; r == 0 && i < session->o.plan->nhosts; i++) {
        rg_autostrv struct rg_strv targets = RG_STRV_INIT;
        r = rg_network_probes(session->network, i, &targets);
        if (r == 0 && targets.count)
            r = rg_msg_send(session->hosts[i].channel, RG_MSG_PROBE,
                            &(struct rg_msg_probe){ PROBE_LIMIT_MS, targets });
        if (r == -ENOTCONN || r == -EPIPE) /* which host is lost, and how, its link will tell */
            r = 0;
    }
    return r;
}

static void probe(struct rg_session *session)
{
    const struct rg_plan *plan = session->o.plan;
    rg_autofree struct rg_network_host *hosts = calloc((size_t) plan->nhosts, sizeof(*hosts));
    struct rg_error *err = &session->network_err;

    for (int i = 0; i < plan->nhosts; i++) {
        const struct session_host *host = &session->hosts[i];
        if (hosts)
            hosts[i] = (struct rg_network_host){ plan->hosts[i].name, host->boot_id, host->netns,
                                                 host->instance, host->probe_port,
                                                 &host->addresses };
    }
    int r = hosts ? rg_network_create(hosts, plan->nhosts, &session->o.job->network_interfaces,
                                      session->o.doctor, &session->network, err)
                  : rg_error_set(err, ENOMEM, "out of memory");
    if (r == 0) {
        rg_network_all(session->network, &session->nprobes);
        r = send_probes(session);
        if (r < 0)
            rg_error_set_exit(err, -r, RG_EXIT_HOST_LOST, "asking agents for their network: %s",
                              strerror(-r));
    }
    if (r < 0) {
        refuse(session, err);
        return;
    }
    rg_timer_start(&session->network_timer, session->o.loop, HURRY_MS, 0, hurry_due, session);
    decide(session);
}

/* Nobody listens before all are there, and a job on one host needs no probes. */
void session_find_network(struct rg_session *session)
{
    int nhosts = session->o.plan->nhosts;

    for (int i = 0; i < nhosts; i++) {
        if (!session->hosts[i].ready)
            return;
    }
    if (nhosts == 1)
        probe(session);
    for (int i = 0; nhosts > 1 && i < nhosts; i++)
        rg_msg_send(session->hosts[i].channel, RG_MSG_LISTEN,
                    &(struct rg_msg_listen){ (uint32_t) session->o.job->ports.first,
                                             (uint32_t) session->o.job->ports.last });
}

static void refuse_ports(struct session_host *host)
{
    struct rg_session *session = host->session;
    const struct rg_ports *ports = &session->o.job->ports;

    session_set_cause(session, RG_EXIT_UNAVAILABLE,
                      "host %s: all ports of --port-range %d-%d are in use there, or may not be "
                      "listened on; give more of them", session->o.plan->hosts[host->index].name,
                      ports->first, ports->last);
    session_begin_end(session);
}

int session_on_listening(struct session_host *host, const struct rg_msg_listening *msg)
{
    struct rg_session *session = host->session;

    if (session->network || host->listening || msg->port > UINT16_MAX)
        return -EBADMSG;
    host->listening = true;
    host->probe_port = msg->port;
    if (!msg->port && session->o.job->ports.first) {
        refuse_ports(host);
        return 0;
    }
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (!session->hosts[i].listening)
            return 0;
    }
    if (session->state == STATE_STARTING)
        probe(session);
    return 0;
}

const char *session_network_cidr(const struct rg_session *session)
{
    return session->network ? rg_network_cidr(session->network) : "";
}

const char *session_network_interface(const struct session_host *host)
{
    const struct rg_network *network = host->session->network;

    return network ? rg_network_interface(network, host->index) : "";
}
