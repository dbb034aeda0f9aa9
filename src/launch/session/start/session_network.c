/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on several hosts need a network that connects all of them, and only the hosts can tell
 * which one does: they try each other before SETUP. */
#include <string.h>

#include "base/exitcode.h"
#include "launch/session/core/session_end.h"
#include "launch/session/start/start.h"
#include "launch/net/network.h"

#define PROBE_LIMIT_MS 8000    /* SYN is sent again after 1, 3 and 7 s */
#define HURRY_MS 2000          /* then a network that is sure beats a better one that may come */

struct network_host {
    bool listening;               /* LISTENING came, with this port */
    uint32_t probe_port;
    int *task_ports;              /* free there, for its tasks; NULL: none are wanted */
    uint64_t npings, npongs;      /* sent, and answered */
    uint64_t proof;               /* this many answers mean that it lives; see refuse_if_all_live */
};

struct session_network {
    struct rg_network *network; /* NULL before all have said HELLO */
    struct rg_error err;        /* why none connects the hosts */
    struct rg_timer timer;
    int nlistening;             /* hosts that have said so */
    size_t nprobes;             /* tries whose outcome is not known */
    bool hurry;                 /* a network that is sure is good enough */
    bool refusing;              /* none connects the hosts, if all of them still live */
    bool done;
    struct network_host hosts[];
};

static void fini(struct rg_session *session)
{
    rg_timer_stop(&session->network->timer);
    rg_network_destroy(session->network->network);
    for (int i = 0; i < session->o.plan->nhosts; i++)
        free(session->network->hosts[i].task_ports);
}

const struct session_part session_network_part = {
    SESSION_PART(network), .nbytes_per_host = sizeof(struct network_host), .fini = fini,
};

/* The plan's port was free on this computer; the first host may be another. The one where its agent
 * answered probes is free again when ranks start, and in the range. */
static int keep_addresses(struct rg_session *session)
{
    const struct session_network *net = session->network;
    uint32_t port = session->o.job->ports.first ? net->hosts[0].probe_port
                                                : session->hosts[0].hello.free_port;

    if (port && port <= UINT16_MAX && !session->o.driver->platform.here)
        session->o.plan->master_port = (int) port;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        char **address = &session->o.plan->hosts[i].address;
        free(*address);
        *address = strdup(rg_network_address(net->network, i));
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
        const struct session_host *host = &session->hosts[i];
        if (!session_host_listens(host) || host->gone || !rg_channel_open(host->channel))
            return false;
    }
    return true;
}

void session_ping(struct session_host *host)
{
    host->session->network->hosts[host->index].npings++;
    session_send(host, RG_MSG_PING, NULL);
}

/* A host may have died whose link has not told yet: ask all, and refuse once all have answered. */
static void refuse_if_all_live(struct rg_session *session)
{
    struct session_network *net = session->network;

    if (net->refusing)
        return;
    net->refusing = true;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        session_ping(&session->hosts[i]);
        net->hosts[i].proof = net->hosts[i].npings;
    }
}

void session_on_pong(struct session_host *host)
{
    struct rg_session *session = host->session;
    struct session_network *net = session->network;

    net->hosts[host->index].npongs++;
    if (!net->refusing || session->state != STATE_STARTING)
        return;
    for (int i = 0; i < session->o.plan->nhosts; i++) {
        if (net->hosts[i].npongs < net->hosts[i].proof)
            return;
    }
    session_end_by_error(session, &net->err);
}

static void decided(struct rg_session *session)
{
    struct session_network *net = session->network;

    net->refusing = false;
    rg_timer_stop(&net->timer);
    net->done = true;
    if (keep_addresses(session) < 0) {
        session_end_by_error(session, &(struct rg_error){ ENOMEM, 0, "out of memory" });
        return;
    }
    session_send_setup(session, net->network);
    session_set_up(session);
}

void session_set_up(struct rg_session *session)
{
    const struct session_network *net = session->network;

    if (session->state == STATE_STARTING && net->done && session_setup_is_done(session) &&
        all_linked(session))
        session_examine(session, net->network, &net->err);
}

bool session_network_is_done(const struct rg_session *session)
{
    return session->network->done;
}

static void decide(struct rg_session *session)
{
    struct session_network *net = session->network;
    bool all = net->nprobes == 0;
    int r = 0;

    if (!all_linked(session))
        return;
    /* The doctor wants the whole matrix, and no network is a finding like others. */
    if (all || !session->o.doctor)
        r = rg_network_decide(net->network, net->hurry || all, &net->err);
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

    session->network->hurry = true;
    if (session->state == STATE_STARTING)
        decide(session);
}

int session_on_probed(struct session_host *host, const struct rg_msg_probed *msg)
{
    struct rg_session *session = host->session;
    struct session_network *net = session->network;

    if (!net->network)
        return -EBADMSG;
    int r = rg_network_probed(net->network, host->index, msg->index, (int) msg->errnum,
                              msg->rtt_us);
    if (r < 0)
        return r;
    net->nprobes--;
    if (!net->done && session->state == STATE_STARTING)
        decide(session);
    return 0;
}

static int send_probes(struct rg_session *session)
{
    int r = 0;

    for (int i = 0; r == 0 && i < session->o.plan->nhosts; i++) {
        rg_autostrv struct rg_strv targets = RG_STRV_INIT;
        r = rg_network_probes(session->network->network, i, &targets);
        if (r == 0 && targets.count)
            r = session_send(&session->hosts[i], RG_MSG_PROBE,
                            &(struct rg_msg_probe){ PROBE_LIMIT_MS, targets });
        if (r == -ENOTCONN || r == -EPIPE) /* which host is lost, and how, its link will tell */
            r = 0;
    }
    return r;
}

static void probe(struct rg_session *session)
{
    const struct rg_plan *plan = session->o.plan;
    struct session_network *net = session->network;
    rg_autofree struct rg_network_host *hosts = calloc((size_t) plan->nhosts, sizeof(*hosts));

    for (int i = 0; hosts && i < plan->nhosts; i++) {
        const struct rg_msg_hello *hello = &session->hosts[i].hello;
        hosts[i] = (struct rg_network_host){ plan->hosts[i].name, hello->boot_id, hello->netns,
                                             hello->instance, net->hosts[i].probe_port,
                                             &hello->addresses };
    }
    int r = hosts ? rg_network_create(hosts, plan->nhosts, &session->o.job->network_interfaces,
                                      session->o.doctor, &net->network, &net->err)
                  : rg_error_set(&net->err, ENOMEM, "out of memory");
    if (r == 0) {
        rg_network_all(net->network, &net->nprobes);
        r = send_probes(session);
        if (r < 0)
            rg_error_set_exit(&net->err, -r, RG_EXIT_HOST_LOST,
                              "asking agents for their network: %s", strerror(-r));
    }
    if (r < 0) {
        session_end_by_error(session, &net->err);
        return;
    }
    rg_timer_start(&net->timer, session->o.loop, HURRY_MS, 0, hurry_due, session);
    decide(session);
}

/* What --network-interface says of all hosts, and of this one. */
static int list_own(const struct session_host *host, struct rg_strv *own)
{
    const struct rg_strv *all = &host->session->o.job->network_interfaces;
    size_t length = strlen(session_host_name(host));
    int r = 0;

    for (size_t i = 0; r == 0 && i < all->count; i++) {
        const char *entry = all->v[i], *equals = strchr(entry, '=');
        if (!equals || ((size_t) (equals - entry) == length &&
                        strncmp(entry, session_host_name(host), length) == 0))
            r = rg_strv_add(own, entry);
    }
    return r;
}

int session_own_network(const struct session_host *host, struct rg_network **ret_network,
                        struct rg_error *err)
{
    const struct rg_msg_hello *hello = &host->hello;
    struct rg_network_host alone = { session_host_name(host), hello->boot_id, hello->netns,
                                     hello->instance, 0, &hello->addresses };
    rg_autostrv struct rg_strv own = RG_STRV_INIT;

    *ret_network = NULL;
    if (list_own(host, &own) < 0)
        return rg_error_memory(err);
    if (!own.count)
        return 0;
    int r = rg_network_create(&alone, 1, &own, false, ret_network, err);

    r = r < 0 ? r : rg_network_decide(*ret_network, true, err);
    if (r >= 0 && !*rg_network_cidr(*ret_network)) /* one place can do without */
        return rg_error_set_exit(err, ENODEV, RG_EXIT_UNAVAILABLE,
                                 "--network-interface %s: it has no interface, and no network, "
                                 "of this name", own.v[0]);
    return r;
}

static void refuse_ports(struct session_host *host)
{
    const struct rg_ports *ports = &host->session->o.job->ports;

    if (!ports->first)
        session_set_cause(host->session, RG_EXIT_UNAVAILABLE,
                          "host %s: too few free ports for its tasks", session_host_name(host));
    session_set_cause(host->session, RG_EXIT_UNAVAILABLE,
                      "host %s: all ports of --port-range %d-%d are in use there, or may not be "
                      "listened on; give more of them", session_host_name(host), ports->first,
                      ports->last);
    session_begin_end(host->session);
}

/* Nobody listens before all are there, and a job on one host needs no probes, but tasks want
 * ports. */
void session_find_network(struct rg_session *session)
{
    const struct rg_job *job = session->o.job;
    int nhosts = session->o.plan->nhosts;
    bool asks = nhosts > 1 || job->nroles;

    for (int i = 0; i < nhosts; i++) {
        if (session->hosts[i].state != HOST_READY)
            return;
    }
    if (!asks)
        probe(session);
    for (int i = 0; asks && i < nhosts; i++) {
        int nports = rg_plan_count_ports(session->o.plan, job, i);
        struct rg_msg_listen msg = { (uint32_t) job->ports.first, (uint32_t) job->ports.last,
                                     (uint32_t) nports };
        if (nports > RG_MSG_TASK_PORTS_MAX) {
            refuse_ports(&session->hosts[i]);
            return;
        }
        session_send(&session->hosts[i], RG_MSG_LISTEN, &msg);
    }
}

/* Keep a host's answer. 0; -ENOENT: there are too few; -EBADMSG, -ENOMEM. */
static int take_ports(struct session_host *host, const struct rg_span *ports)
{
    struct rg_session *session = host->session;
    struct rg_reader reader = rg_reader_make(ports->data, ports->nbytes);
    int count = rg_plan_count_ports(session->o.plan, session->o.job, host->index);
    int *found = calloc((size_t) count + 1, sizeof *found);

    if (!found)
        return -ENOMEM;
    free(session->network->hosts[host->index].task_ports);
    session->network->hosts[host->index].task_ports = found;
    for (int i = 0; i < count; i++)
        found[i] = rg_reader_u16(&reader);
    if (ports->nbytes > 2 * (size_t) count)
        return -EBADMSG;
    return reader.bad ? -ENOENT : 0;
}

/* All hosts have said which: tell the plan. */
static int keep_ports(struct rg_session *session)
{
    struct rg_plan *plan = session->o.plan;
    rg_autofree int **found = calloc((size_t) plan->nhosts, sizeof *found);

    for (int i = 0; found && i < plan->nhosts; i++)
        found[i] = session->network->hosts[i].task_ports;
    return found ? rg_plan_set_ports(plan, session->o.job, found) : -ENOMEM;
}

int session_on_listening(struct session_host *host, const struct rg_msg_listening *msg)
{
    struct rg_session *session = host->session;
    struct session_network *net = session->network;
    struct network_host *h = &net->hosts[host->index];

    if (net->network || h->listening || msg->port > UINT16_MAX)
        return -EBADMSG;
    h->listening = true;
    h->probe_port = msg->port;
    int r = session->o.job->nroles ? take_ports(host, &msg->task_ports) : 0;
    if (r == -ENOENT || (!msg->port && session->o.job->ports.first)) {
        refuse_ports(host);
        return 0;
    }
    if (r < 0)
        return r;
    if (++net->nlistening == session->o.plan->nhosts && session->state == STATE_STARTING) {
        r = session->o.job->nroles ? keep_ports(session) : 0;
        if (r < 0)
            return r;
        probe(session);
    }
    return 0;
}
