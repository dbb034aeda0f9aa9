/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "coll/net/listener.h"
#include "coll/planes/tcp.h"
#include "coll/net/sock.h"

int rg_tcp_lost(struct rg_tcp *tcp, int member, int r, struct rg_error *err)
{
    int rank = rg_tcp_rank(tcp, member);
    int shown = rg_team_world_rank(tcp->team, rank);
    const char *host = tcp->team->peers[rank].host;

    if (r == -EACCES)
        return rg_error_set(err, EACCES, "rank %d on %s has another key", shown, host);
    if (r == -EPROTO)
        return rg_error_set(err, EPROTO, "rank %d on %s speaks another protocol", shown, host);
    return rg_error_set(err, ECONNRESET, "the connection to rank %d on %s is lost: %s", shown, host,
                        r == -EPIPE ? "it was closed" : strerror(-r));
}

void rg_tcp_disconnect(struct rg_tcp_link *link)
{
    if (link->handshake)
        rg_handshake_fini(link->handshake);
    free(link->handshake);
    if (link->fd >= 0)
        close(link->fd);
    link->handshake = NULL;
    link->fd = -1;
    link->state = RG_TCP_NONE;
}

static int dial(struct rg_tcp *tcp, int member, struct rg_error *err)
{
    struct rg_tcp_link *link = &tcp->links[member];
    int rank = rg_tcp_rank(tcp, member);
    struct rg_sockaddr address;
    int r = -EINVAL;

    if (!tcp->team->addresses || rg_sock_parse(tcp->team->addresses[rank], &address) < 0)
        return rg_error_set(err, EINVAL, "rank %d has no address to connect to",
                            rg_team_world_rank(tcp->team, rank));
    link->handshake = calloc(1, sizeof(*link->handshake));
    r = link->handshake ? rg_sock_connect_tcp(&address, &link->fd) : -ENOMEM;
    if (r == 0)
        r = rg_handshake_dial(link->handshake, link->fd, tcp->team->data_key, tcp->purpose,
                          tcp->team->rank, rank);
    if (r < 0)
        return rg_tcp_lost(tcp, member, r, err);
    link->state = RG_TCP_DIALLING;
    link->ndials++;
    return 0;
}

static int go_on_dialling(struct rg_tcp *tcp, int member, bool *ret_moved, struct rg_error *err)
{
    struct rg_tcp_link *link = &tcp->links[member];
    int r = rg_handshake_step(link->handshake);

    if (r == 0)
        return 0;
    *ret_moved = true;
    if (r < 0) {
        /* The listener drops who is silent for long: a rank that was stopped in the middle
         * handshakes again. */
        bool again = (r == -EPIPE || r == -ECONNRESET) && link->ndials < RG_TCP_DIALS_MAX;

        rg_tcp_disconnect(link);
        return again ? 0 : rg_tcp_lost(tcp, member, r, err);
    }
    rg_handshake_fini(link->handshake);
    free(link->handshake);
    link->handshake = NULL;
    link->state = RG_TCP_OPEN;
    return 1;
}

int rg_tcp_connect(struct rg_tcp *tcp, int member, bool *ret_moved, struct rg_error *err)
{
    struct rg_tcp_link *link = &tcp->links[member];
    int rank = rg_tcp_rank(tcp, member);

    if (link->state == RG_TCP_OPEN)
        return 1;
    if (tcp->team->rank < rank) {
        int r = link->state == RG_TCP_NONE ? dial(tcp, member, err) : 0;

        return r < 0 ? r : go_on_dialling(tcp, member, ret_moved, err);
    }
    *ret_moved |= rg_listener_progress(tcp->team->listener);
    link->fd = rg_listener_claim(tcp->team->listener, tcp->purpose, rank);
    if (link->fd < 0) {
        tcp->waits_for_listener = true;
        return 0;
    }
    *ret_moved = true;
    link->state = RG_TCP_OPEN;
    return 1;
}

void rg_tcp_drain(struct rg_tcp *tcp, uint64_t deadline_ns)
{
    for (int i = 0; i < tcp->group.nmembers; i++)
        if (tcp->links[i].state == RG_TCP_OPEN)
            rg_sock_drain(tcp->links[i].fd, deadline_ns);
}
