/* SPDX-License-Identifier: Apache-2.0 */
/* How leaders come together: the coordinator waits for all others, and they dial it. While anybody
 * waits, those who are there hear that it lives, and a wait in vain ends at once, for all. */
#include "coll/negotiate/star.h"

#include <string.h>

#include "base/time.h"
#include "coll/net/handshake.h"
#include "coll/net/listener.h"
#include "coll/net/sock.h"
#include "coll/team/liveness.h"

#define PURPOSE_ORDER 0x7264726fu /* "ordr" */
#define RETRY_MS 50

/* What people call the leader of a node, and where it runs. */
static int shown(const struct rg_order *order, int node)
{
    return rg_team_world_rank(order->team, order->team->leaders[node]);
}

static const char *host_of(const struct rg_order *order, int node)
{
    return order->team->peers[order->team->leaders[node]].host;
}

static int name_missing(struct rg_order *order, int r, struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    for (int i = 1; i < order->team->nnodes; i++)
        if (!rg_peers_here(order->peers, i))
            rg_buf_printf(&text, "%s%d on %s", rg_buf_nbytes(&text) ? ", " : "", shown(order, i),
                          host_of(order, i));
    return rg_error_set(err, -r, "these ranks did not connect to rank %d at %s in time: %s; does "
                        "a firewall forbid it? REIGEN_NETWORK_INTERFACE chooses the network",
                        shown(order, 0), order->team->address, rg_buf_text(&text));
}

static bool all_came(const struct rg_order *order)
{
    for (int i = 1; i < order->team->nnodes; i++)
        if (!rg_peers_here(order->peers, i) && !rg_peers_left(order->peers, i))
            return false;
    return true;
}

static int add_peer(struct rg_order *order, int node, int take_fd)
{
    return rg_peers_add(order->peers, node, take_fd,
                        order->team->peers[order->team->leaders[node]].pid);
}

/* Take a leader in that has dialled; one that dials again has given its first socket up. 1: one
 * came, 0: none is there, or -errno. */
static int admit(struct rg_order *order)
{
    int rank = -1, fd = rg_listener_claim_any(order->team->listener, PURPOSE_ORDER, &rank);
    int node = fd < 0 ? -1 : order->team->peers[rank].node;

    if (fd < 0)
        return 0;
    if (node == 0 || order->team->leaders[node] != rank) {
        close(fd);
        return 1;
    }
    int r = add_peer(order, node, fd);

    return r < 0 ? r : 1;
}

/* Those who are here learn why this start fails. */
static int tell_failure(struct rg_order *order, int r, int rank, const struct rg_error *err)
{
    while (order->decider && admit(order) == 1)
        ;
    rg_order_announce_death(order, rank < 0 ? order->team->rank : rank, err->text);
    return r;
}

/* Whether a wait for another leader is in vain: then those who are here are told, too. */
static int look_around(struct rg_order *order, struct rg_error *err)
{
    int first = order->decider ? 1 : 0, last = order->decider ? order->team->nnodes - 1 : 0;
    int rank = -1;
    int r = order->events.on_waiting ? order->events.on_waiting(order->events.arg, &rank, err) : 0;

    for (int i = first; i <= last && r == 0; i++) {
        rank = order->team->leaders[i];
        if (!rg_peers_here(order->peers, i) && rg_process_ended(order->team->peers[rank].pid))
            r = rg_error_set(err, ECONNRESET, "rank %d on host %s died while the job started",
                             shown(order, i), host_of(order, i));
    }
    return r < 0 ? tell_failure(order, r, rank, err) : 0;
}

/* Wait a moment for a leader to come. Those who are here hear meanwhile that we live. */
static int await_leader(struct rg_order *order, uint64_t deadline_ns, struct rg_error *err)
{
    uint64_t until_ns = rg_now_ns() + RG_PEERS_CHECK_NS;
    int r =
        rg_listener_wait(order->team->listener, until_ns < deadline_ns ? until_ns : deadline_ns);

    if (r == 0)
        return 0;
    if (r != -ETIMEDOUT || rg_now_ns() >= deadline_ns)
        return tell_failure(order, name_missing(order, r, err), -1, err);
    rg_order_progress(order);
    if (order->died.errnum == 0)
        return look_around(order, err);
    *err = order->died;
    return -err->errnum;
}

static int gather(struct rg_order *order, uint64_t deadline_ns, struct rg_error *err)
{
    order->gathering = true;
    while (!all_came(order)) {
        int r = admit(order);

        if (r < 0)
            return rg_error_set(err, -r, "epoll: %s", strerror(-r));
        r = r == 0 ? await_leader(order, deadline_ns, err) : 0;
        if (r < 0)
            return r;
    }
    order->gathering = false;
    return 0;
}

/* Until the coordinator has let us in; -ESHUTDOWN with err: in vain. */
static int finish_handshake(struct rg_order *order, struct rg_handshake *handshake,
                            uint64_t deadline_ns, struct rg_error *err)
{
    for (;;) {
        uint64_t now_ns = rg_now_ns();
        uint64_t look_ns = now_ns + RG_PEERS_CHECK_NS;
        int r = rg_handshake_finish(handshake, look_ns < deadline_ns ? look_ns : deadline_ns);

        if (r != -ETIMEDOUT || rg_now_ns() >= deadline_ns)
            return r;
        /* A coordinator that has let us in may have left already. */
        if (look_around(order, err) < 0)
            return rg_handshake_step(handshake) == 1 ? 0 : -ESHUTDOWN;
    }
}

static int dial_once(struct rg_order *order, uint64_t deadline_ns, int *ret_fd,
                     struct rg_error *err)
{
    struct rg_team *team = order->team;
    struct rg_sockaddr address;
    struct rg_handshake handshake;
    rg_autoclose int fd = -1;
    int r = rg_sock_parse(team->addresses[team->leaders[0]], &address);

    if (r == 0)
        r = rg_sock_connect_tcp(&address, &fd);
    if (r < 0)
        return r;
    r = rg_handshake_dial(&handshake, fd, team->data_key, PURPOSE_ORDER, team->rank,
                          team->leaders[0]);
    if (r == 0)
        r = finish_handshake(order, &handshake, deadline_ns, err);
    rg_handshake_fini(&handshake);
    if (r == 0)
        *ret_fd = rg_steal_fd(&fd);
    return r;
}

static int dial(struct rg_order *order, uint64_t deadline_ns, struct rg_error *err)
{
    int fd = -1, r = dial_once(order, deadline_ns, &fd, err);

    while ((r == -EPIPE || r == -ECONNRESET || r == -ECONNREFUSED) && rg_now_ns() < deadline_ns) {
        rg_sleep_ms(RETRY_MS);
        r = look_around(order, err) < 0 ? -ESHUTDOWN : dial_once(order, deadline_ns, &fd, err);
    }
    if (r == -ESHUTDOWN)
        return -err->errnum;
    if (r == 0)
        r = add_peer(order, 0, fd);
    if (r < 0)
        return rg_error_set(err, -r, "connecting to rank %d on %s at %s: %s%s",
                            shown(order, 0), host_of(order, 0),
                            order->team->addresses[order->team->leaders[0]],
                            r == -EACCES ? "it has another key" : strerror(-r),
                            r == -ETIMEDOUT || r == -EHOSTUNREACH || r == -ENETUNREACH
                                ? "; does a firewall forbid it? REIGEN_NETWORK_INTERFACE chooses "
                                  "the network" : "");
    return 0;
}

/* 0 or -errno. */
static int prepare(struct rg_order *order, const struct rg_config *config)
{
    struct rg_decider_options options = { .nnodes = order->team->nnodes,
                                          .leaders = order->team->leaders,
                                          .world_ranks = order->team->world_ranks,
                                          .fusion_nbytes = config->fusion_nbytes,
                                          .capacity = config->cache_capacity,
                                          .direct = order->events.on_void != NULL,
                                          .on_offered = order->events.on_offered,
                                          .arg = order->events.arg };
    bool coordinates = order->team->node == 0;
    int r = rg_peers_create(coordinates ? order->team->nnodes : 1,
                            config->silence_ms * RG_NS_PER_MS, &rg_order_peers_ops, order,
                            &order->peers);

    if (r < 0)
        return r;
    r = rg_known_create(&order->known);
    return r == 0 && coordinates ? rg_decider_create(&options, &order->decider) : r;
}

int rg_order_create(struct rg_team *team, const struct rg_config *config,
                    const struct rg_order_events *events, uint64_t deadline_ns,
                    struct rg_order **ret_order, struct rg_error *err)
{
    struct rg_order *order = calloc(1, sizeof(*order));
    int r;

    if (!order)
        return rg_error_set(err, ENOMEM, "out of memory");
    order->team = team;
    order->events = *events;
    r = prepare(order, config);
    if (r < 0)
        rg_error_set(err, -r, "%s", strerror(-r));
    else
        r = order->decider ? gather(order, deadline_ns, err) : dial(order, deadline_ns, err);
    if (r < 0) {
        rg_order_destroy(order, 0);
        return r;
    }
    *ret_order = order;
    return 0;
}
