/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, loses and closes the sockets of a tcp plane. */
#include "coll/planes/tcp/tcp_link.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "coll/ground/report.h"
#include "coll/net/listener.h"
#include "coll/net/sock.h"
#include "coll/team/team.h"

#define DIALS_MAX 3

int rg_tcp_links_open(struct rg_tcp_links *links, const struct rg_plane_options *options)
{
    int n = options->group.nmembers;

    links->team = options->team;
    links->group = options->group;
    links->unfit_rails = options->team->unfit_rails;
    links->links = calloc((size_t) n, sizeof(*links->links));
    for (int i = 0; i < n * RG_TCP_SOCKETS_MAX && links->links; i++)
        links->links[i / RG_TCP_SOCKETS_MAX].sockets[i % RG_TCP_SOCKETS_MAX].fd = -1;
    return links->links ? 0 : -ENOMEM;
}

int rg_tcp_lost(const struct rg_tcp_links *links, int member, int r, struct rg_error *err)
{
    int rank = rg_group_rank(&links->group, member);
    int shown = rg_team_world_rank(links->team, rank);
    const char *host = links->team->peers[rank].host;

    if (r == -EACCES)
        return rg_error_set(err, EACCES, "rank %d on %s has another key", shown, host);
    if (r == -EPROTO)
        return rg_error_set(err, EPROTO, "rank %d on %s speaks another protocol", shown, host);
    if (r == -EMFILE || r == -ENFILE)
        return rg_error_set(err, -r, "no free descriptor for a connection to rank %d on %s; allow "
                            "more (ulimit -n), or fewer sockets (REIGEN_SOCKETS_PER_PAIR=1)", shown,
                            host);
    return rg_error_set(err, ECONNRESET, "the connection to rank %d on %s is lost: %s", shown, host,
                        r == -EPIPE ? "it was closed" : strerror(-r));
}

static void end_handshake(struct rg_tcp_socket *socket)
{
    if (socket->handshake)
        rg_handshake_fini(socket->handshake);
    free(socket->handshake);
    socket->handshake = NULL;
}

static void disconnect(struct rg_tcp_socket *socket)
{
    end_handshake(socket);
    if (socket->fd >= 0)
        close(socket->fd);
    socket->fd = -1;
    socket->state = RG_TCP_NONE;
}

static void opened(const struct rg_tcp_links *links, struct rg_tcp_socket *socket)
{
    socket->state = RG_TCP_OPEN;
    if (!links->team->between.keeps_congestion)
        rg_sock_leave_bbr(socket->fd);
}

/* Socket i of a pair has a purpose of its own: "tall", "tal1", "tal2", ... */
static uint32_t purpose_of(const struct rg_tcp_links *links, int i)
{
    return i == 0 ? links->purpose
                  : (links->purpose & 0x00ffffffu) | (uint32_t) ('0' + i) << 24;
}

/* Socket i goes by rail i modulo their number, or by the first one where that leads nowhere. */
static int rail_of(const struct rg_tcp_links *links, int i)
{
    int rail = links->team->nrails > 1 ? i % links->team->nrails : 0;

    return links->unfit_rails & 1u << rail ? 0 : rail;
}

/* Begin to connect; by the first rail from whatever address the routes say. -EDESTADDRREQ: there is
 * no address. */
static int connect_by_rail(const struct rg_team *team, int rank, int rail, int *ret_fd)
{
    struct rg_sockaddr source, address;

    if (!team->addresses || rg_sock_parse(rg_team_address(team, rank, rail), &address) < 0 ||
        (rail > 0 && rg_sock_parse(rg_team_address(team, team->rank, rail), &source) < 0))
        return -EDESTADDRREQ;
    return rg_sock_connect_from(rail > 0 ? &source : NULL, &address, ret_fd);
}

/* A socket cannot be had (r). By a further rail that is no loss: who named it may not know that it
 * does not connect all hosts, and the first one does. Then 0, and it is to be dialled again. */
static int try_first_rail(struct rg_tcp_links *links, int member, struct rg_tcp_socket *socket,
                          int r, struct rg_error *err)
{
    int rank = rg_group_rank(&links->group, member);
    const struct rg_team *team = links->team;
    unsigned rail = 1u << socket->rail;

    if (r == -EDESTADDRREQ && socket->rail == 0)
        return rg_error_set(err, EINVAL, "rank %d has no address to connect to",
                            rg_team_world_rank(team, rank));
    if (socket->rail == 0 || r == -ENOMEM || r == -EMFILE || r == -ENFILE)
        return rg_tcp_lost(links, member, r, err);
    if (!(links->unfit_rails & rail))
        rg_report(RG_LOG_WARN, "rank %d on %s is not reached at %s from %s (%s): what goes by that "
                  "network goes by the first one. Name only interfaces that lead to all hosts "
                  "(REIGEN_NETWORK_INTERFACE)", rg_team_world_rank(team, rank),
                  team->peers[rank].host, rg_team_address(team, rank, socket->rail),
                  rg_team_address(team, team->rank, socket->rail),
                  r == -EPIPE ? "it was closed" : strerror(-r));
    links->unfit_rails |= rail;
    socket->ndials = 0;
    return 0;
}

static int dial(struct rg_tcp_links *links, int member, int i, struct rg_error *err)
{
    struct rg_tcp_socket *socket = &links->links[member].sockets[i];
    int rank = rg_group_rank(&links->group, member);

    socket->rail = rail_of(links, i);
    int r = connect_by_rail(links->team, rank, socket->rail, &socket->fd);

    if (r == 0)
        socket->handshake = calloc(1, sizeof(*socket->handshake));
    r = r == 0 && !socket->handshake ? -ENOMEM : r;
    if (r == 0)
        r = rg_handshake_dial(socket->handshake, socket->fd, links->team->data_key,
                              purpose_of(links, i), links->team->rank, rank);
    if (r < 0) {
        disconnect(socket);
        return try_first_rail(links, member, socket, r, err);
    }
    socket->state = RG_TCP_DIALLING;
    socket->ndials++;
    return 0;
}

static int go_on_dialling(struct rg_tcp_links *links, int member, int i, bool *ret_moved,
                          struct rg_error *err)
{
    struct rg_tcp_socket *socket = &links->links[member].sockets[i];
    int r = socket->state == RG_TCP_DIALLING ? rg_handshake_step(socket->handshake) : -EAGAIN;

    if (r == 0)
        return 0;
    *ret_moved = true;
    if (r == -EAGAIN) /* it is to be dialled again */
        return 0;
    if (r < 0) {
        /* The listener drops who is silent for long: a rank that was stopped in the middle
         * handshakes again. */
        bool again = (r == -EPIPE || r == -ECONNRESET) && socket->ndials < DIALS_MAX;

        disconnect(socket);
        return again ? 0 : try_first_rail(links, member, socket, r, err);
    }
    end_handshake(socket);
    opened(links, socket);
    return 1;
}

/* Have one socket; as rg_tcp_connect. */
static int connect_one(struct rg_tcp_links *links, int member, int i, bool *ret_moved,
                       struct rg_error *err)
{
    struct rg_tcp_socket *socket = &links->links[member].sockets[i];
    int rank = rg_group_rank(&links->group, member);

    if (socket->state == RG_TCP_OPEN)
        return 1;
    if (links->team->rank < rank) {
        int r = socket->state == RG_TCP_NONE ? dial(links, member, i, err) : 0;

        return r < 0 ? r : go_on_dialling(links, member, i, ret_moved, err);
    }
    socket->fd = rg_listener_claim(links->team->listener, purpose_of(links, i), rank);
    if (socket->fd < 0) {
        links->waits_for_listener = true;
        return 0;
    }
    *ret_moved = true;
    opened(links, socket);
    return 1;
}

/* The sockets that must be open before number i is used: socket 0 alone, or all others, as one that
 * is dialled must not be left alone in the middle of its handshake. */
static int first_for(int i)
{
    return i == 0 ? 0 : 1;
}

static int end_for(const struct rg_tcp_links *links, int i)
{
    return i == 0 ? 1 : links->nsockets;
}

static bool is_ready(const struct rg_tcp_links *links, int member, int i)
{
    for (int k = first_for(i); k < end_for(links, i); k++)
        if (links->links[member].sockets[k].state != RG_TCP_OPEN)
            return false;
    return true;
}

int rg_tcp_connect(struct rg_tcp_links *links, int member, int i, bool *ret_moved,
                   struct rg_error *err)
{
    int r = 0;

    if (is_ready(links, member, i))
        return 1;
    if (links->team->rank > rg_group_rank(&links->group, member))
        *ret_moved |= rg_listener_progress(links->team->listener);
    for (int k = first_for(i); k < end_for(links, i) && r >= 0; k++)
        r = connect_one(links, member, k, ret_moved, err);
    return r < 0 ? r : is_ready(links, member, i);
}

static int add_fd(int fd, unsigned events, int *fds, unsigned *all_events, int n, int max)
{
    for (int i = 0; i < n; i++)
        if (fds[i] == fd) {
            all_events[i] |= events;
            return n;
        }
    if (n == max)
        return n;
    fds[n] = fd;
    all_events[n] = events;
    return n + 1;
}

int rg_tcp_wait_fds(const struct rg_tcp_links *links, int member, int i, unsigned events,
                    int *fds, unsigned *all_events, int n, int max)
{
    const struct rg_tcp_socket *sockets = links->links[member].sockets;

    if (is_ready(links, member, i))
        return add_fd(sockets[i].fd, events, fds, all_events, n, max);
    for (int k = first_for(i); k < end_for(links, i); k++)
        if (sockets[k].state == RG_TCP_DIALLING)
            n = add_fd(sockets[k].fd,
                       rg_handshake_events(sockets[k].handshake) == POLLOUT ? EPOLLOUT : EPOLLIN,
                       fds, all_events, n, max);
    return n;
}

/* Call fn for each open socket. */
static void each_open(const struct rg_tcp_links *links, void (*fn)(int fd, void *arg), void *arg)
{
    for (int i = 0; i < links->group.nmembers; i++)
        for (int k = 0; k < RG_TCP_SOCKETS_MAX; k++)
            if (links->links[i].sockets[k].state == RG_TCP_OPEN)
                fn(links->links[i].sockets[k].fd, arg);
}

static void drain_one(int fd, void *deadline_ns)
{
    rg_sock_drain(fd, *(uint64_t *) deadline_ns);
}

void rg_tcp_drain(struct rg_tcp_links *links, uint64_t deadline_ns)
{
    each_open(links, drain_one, &deadline_ns);
}

/* What all sockets of a pair have sent per second, as the kernel has measured it. 0: one of them
 * had nothing more to send, and so tells less than the network can do. */
static uint64_t delivery_rate(const struct rg_tcp_link *link, int nsockets)
{
    uint64_t rate = 0;

    for (int k = 0; k < nsockets; k++) {
        struct tcp_info info;
        socklen_t length = sizeof(info);

        memset(&info, 0, sizeof(info)); /* an older kernel knows less */
        if (link->sockets[k].state != RG_TCP_OPEN ||
            getsockopt(link->sockets[k].fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0 ||
            info.tcpi_delivery_rate_app_limited)
            return 0;
        rate += info.tcpi_delivery_rate;
    }
    return rate;
}

void rg_tcp_note_rates(struct rg_tcp_links *links, uint64_t op_number)
{
    for (int i = 0; i < links->group.nmembers; i++) {
        struct rg_tcp_link *link = &links->links[i];
        uint64_t rate = link->sent.op == op_number ? delivery_rate(link, links->nsockets) : 0;

        link->rate = rate > link->rate ? rate : link->rate;
    }
}

static void look_one(int fd, void *longest_ns)
{
    uint64_t ns = rg_sock_round_trip_ns(fd), *longest = longest_ns;

    *longest = ns > *longest ? ns : *longest;
}

void rg_tcp_look(const struct rg_tcp_links *links, uint64_t *ret_round_trip_ns, uint64_t *ret_rate)
{
    *ret_round_trip_ns = *ret_rate = 0;
    each_open(links, look_one, ret_round_trip_ns);
    for (int i = 0; i < links->group.nmembers; i++) {
        uint64_t rate = links->links[i].rate;

        if (rate > 0 && (*ret_rate == 0 || rate < *ret_rate))
            *ret_rate = rate;
    }
}

void rg_tcp_disconnect(struct rg_tcp_links *links)
{
    for (int i = 0; i < links->group.nmembers; i++)
        for (int k = 0; k < RG_TCP_SOCKETS_MAX; k++)
            disconnect(&links->links[i].sockets[k]);
}

void rg_tcp_links_close(struct rg_tcp_links *links)
{
    if (links->links)
        rg_tcp_disconnect(links);
    free(links->links);
}

void rg_tcp_links_after_fork(struct rg_tcp_links *links)
{
    for (int i = 0; i < links->group.nmembers; i++)
        for (int k = 0; k < RG_TCP_SOCKETS_MAX; k++)
            if (links->links[i].sockets[k].fd >= 0)
                close(links->links[i].sockets[k].fd);
}
