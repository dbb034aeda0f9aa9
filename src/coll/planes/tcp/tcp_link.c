/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, loses and closes the sockets of a tcp plane. */
#include "coll/planes/tcp/tcp.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "coll/net/listener.h"
#include "coll/net/sock.h"
#include "coll/team/team.h"

#define DIALS_MAX 3

int rg_tcp_links_open(struct rg_tcp_links *links, const struct rg_plane_options *options)
{
    int n = options->group.nmembers;

    links->team = options->team;
    links->group = options->group;
    links->links = calloc((size_t) n, sizeof(*links->links));
    for (int i = 0; i < n && links->links; i++)
        links->links[i].fd = -1;
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
    return rg_error_set(err, ECONNRESET, "the connection to rank %d on %s is lost: %s", shown, host,
                        r == -EPIPE ? "it was closed" : strerror(-r));
}

static void end_handshake(struct rg_tcp_link *link)
{
    if (link->handshake)
        rg_handshake_fini(link->handshake);
    free(link->handshake);
    link->handshake = NULL;
}

static void disconnect(struct rg_tcp_link *link)
{
    end_handshake(link);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    link->state = RG_TCP_NONE;
}

static int dial(struct rg_tcp_links *links, int member, struct rg_error *err)
{
    struct rg_tcp_link *link = &links->links[member];
    int rank = rg_group_rank(&links->group, member);
    struct rg_sockaddr address;
    int r = -EINVAL;

    if (!links->team->addresses || rg_sock_parse(links->team->addresses[rank], &address) < 0)
        return rg_error_set(err, EINVAL, "rank %d has no address to connect to",
                            rg_team_world_rank(links->team, rank));
    link->handshake = calloc(1, sizeof(*link->handshake));
    r = link->handshake ? rg_sock_connect_tcp(&address, &link->fd) : -ENOMEM;
    if (r == 0)
        r = rg_handshake_dial(link->handshake, link->fd, links->team->data_key, links->purpose,
                          links->team->rank, rank);
    if (r < 0)
        return rg_tcp_lost(links, member, r, err);
    link->state = RG_TCP_DIALLING;
    link->ndials++;
    return 0;
}

static int go_on_dialling(struct rg_tcp_links *links, int member, bool *ret_moved,
                          struct rg_error *err)
{
    struct rg_tcp_link *link = &links->links[member];
    int r = rg_handshake_step(link->handshake);

    if (r == 0)
        return 0;
    *ret_moved = true;
    if (r < 0) {
        /* The listener drops who is silent for long: a rank that was stopped in the middle
         * handshakes again. */
        bool again = (r == -EPIPE || r == -ECONNRESET) && link->ndials < DIALS_MAX;

        disconnect(link);
        return again ? 0 : rg_tcp_lost(links, member, r, err);
    }
    end_handshake(link);
    link->state = RG_TCP_OPEN;
    return 1;
}

int rg_tcp_connect(struct rg_tcp_links *links, int member, bool *ret_moved, struct rg_error *err)
{
    struct rg_tcp_link *link = &links->links[member];
    int rank = rg_group_rank(&links->group, member);

    if (link->state == RG_TCP_OPEN)
        return 1;
    if (links->team->rank < rank) {
        int r = link->state == RG_TCP_NONE ? dial(links, member, err) : 0;

        return r < 0 ? r : go_on_dialling(links, member, ret_moved, err);
    }
    *ret_moved |= rg_listener_progress(links->team->listener);
    link->fd = rg_listener_claim(links->team->listener, links->purpose, rank);
    if (link->fd < 0) {
        links->waits_for_listener = true;
        return 0;
    }
    *ret_moved = true;
    link->state = RG_TCP_OPEN;
    return 1;
}

void rg_tcp_drain(struct rg_tcp_links *links, uint64_t deadline_ns)
{
    for (int i = 0; i < links->group.nmembers; i++)
        if (links->links[i].state == RG_TCP_OPEN)
            rg_sock_drain(links->links[i].fd, deadline_ns);
}

static bool look(const struct rg_tcp_link *link, struct tcp_info *ret_info)
{
    socklen_t length = sizeof(*ret_info);

    memset(ret_info, 0, sizeof(*ret_info)); /* an older kernel knows less */
    return link->state == RG_TCP_OPEN &&
           getsockopt(link->fd, IPPROTO_TCP, TCP_INFO, ret_info, &length) == 0;
}

void rg_tcp_note_rates(struct rg_tcp_links *links, uint64_t op_number)
{
    for (int i = 0; i < links->group.nmembers; i++) {
        struct rg_tcp_link *link = &links->links[i];
        struct tcp_info info;

        /* A sender that had nothing more to send tells less than the network can do. */
        if (link->sent_op == op_number && look(link, &info) &&
            !info.tcpi_delivery_rate_app_limited && info.tcpi_delivery_rate > link->rate)
            link->rate = info.tcpi_delivery_rate;
    }
}

void rg_tcp_look(const struct rg_tcp_links *links, uint64_t *ret_round_trip_ns, uint64_t *ret_rate)
{
    *ret_round_trip_ns = *ret_rate = 0;
    for (int i = 0; i < links->group.nmembers; i++) {
        const struct rg_tcp_link *link = &links->links[i];
        uint64_t ns = link->state == RG_TCP_OPEN ? rg_sock_round_trip_ns(link->fd) : 0;

        *ret_round_trip_ns = ns > *ret_round_trip_ns ? ns : *ret_round_trip_ns;
        if (link->rate > 0 && (*ret_rate == 0 || link->rate < *ret_rate))
            *ret_rate = link->rate;
    }
}

void rg_tcp_disconnect(struct rg_tcp_links *links)
{
    for (int i = 0; i < links->group.nmembers; i++)
        disconnect(&links->links[i]);
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
        if (links->links[i].fd >= 0)
            close(links->links[i].fd);
}
