/* SPDX-License-Identifier: Apache-2.0 */
/* Dials, tries again, and claims. */
#include "coll/links/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "coll/ground/report.h"
#include "coll/net/handshake.h"
#include "coll/net/listener.h"
#include "coll/net/sock.h"
#include "coll/team/team.h"

/* ------------------------------------------------------------ a socket */

static void end_handshake(struct rg_socket *socket)
{
    if (socket->handshake)
        rg_handshake_fini(socket->handshake);
    free(socket->handshake);
    socket->handshake = NULL;
}

void rg_links_close(struct rg_socket *socket)
{
    end_handshake(socket);
    if (socket->fd >= 0)
        close(socket->fd);
    socket->fd = -1;
    socket->state = RG_SOCKET_NONE;
    socket->awaited = false;
}

void rg_links_adopt(const struct rg_links *links, struct rg_socket *socket, int take_fd)
{
    end_handshake(socket);
    socket->fd = take_fd;
    socket->state = RG_SOCKET_OPEN;
    socket->awaited = false;
    if (links->carries_data && !links->team->between.keeps_congestion)
        rg_sock_leave_bbr(take_fd);
}

int rg_links_take(struct rg_socket *socket)
{
    int fd = socket->fd;

    socket->fd = -1;
    socket->state = RG_SOCKET_NONE;
    return fd;
}

unsigned rg_links_events(const struct rg_socket *socket)
{
    return (unsigned) rg_handshake_events(socket->handshake); /* epoll's bits are poll's */
}

static uint32_t purpose_of(const struct rg_links *links, int i)
{
    return i == 0 ? links->purpose
                  : (links->purpose & 0x00ffffffu) | (uint32_t) ('0' + i) << 24;
}

/* ------------------------------------------------------------ dialling */

/* The first one where the one whose turn it is leads nowhere. */
static int rail_of(const struct rg_links *links, int i)
{
    int rail = links->team->nrails > 1 ? i % links->team->nrails : 0;

    return links->unfit_rails & 1u << rail ? 0 : rail;
}

/* Begin to connect; by the first rail from whatever address the routes say. */
static int connect_by_rail(const struct rg_team *team, int rank, int rail, int *ret_fd)
{
    struct rg_sockaddr source, address;

    if (!team->addresses || rg_sock_parse(rg_team_address(team, rank, rail), &address) < 0 ||
        (rail > 0 && rg_sock_parse(rg_team_address(team, team->rank, rail), &source) < 0))
        return -EDESTADDRREQ;
    return rg_sock_connect_tcp(rail > 0 ? &source : NULL, &address, ret_fd);
}

static int begin(const struct rg_links *links, int rank, int i, struct rg_socket *socket)
{
    const struct rg_team *team = links->team;
    int r;

    socket->rail = (uint8_t) rail_of(links, i);
    socket->ndials++;
    r = connect_by_rail(team, rank, socket->rail, &socket->fd);
    if (r == 0)
        socket->handshake = calloc(1, sizeof(*socket->handshake));
    if (r == 0 && !socket->handshake)
        r = -ENOMEM;
    if (r == 0)
        r = rg_handshake_dial(socket->handshake, socket->fd, team->data_key, purpose_of(links, i),
                              team->rank, rank);
    if (r == 0)
        socket->state = RG_SOCKET_DIALLING;
    return r;
}

/* The listener drops who is silent for long: a rank that was stopped in the middle handshakes
 * again. */
static bool may_dial_again(const struct rg_links *links, const struct rg_socket *socket)
{
    bool dropped = socket->cause == -EPIPE || socket->cause == -ECONNRESET;

    return (dropped || (links->takes_refusals && socket->cause == -ECONNREFUSED)) &&
           (links->ndials_max == 0 || socket->ndials < links->ndials_max);
}

static const char *describe(int cause)
{
    return cause == -EPIPE ? "it was closed" : strerror(-cause);
}

/* By a further rail it is no loss that a socket cannot be had: who named it may not know that it
 * does not connect all hosts, and the first one does. 0: it is to be dialled by that; or -errno. */
static int try_first_rail(struct rg_links *links, int rank, struct rg_socket *socket)
{
    const struct rg_team *team = links->team;
    int cause = socket->cause;

    if (socket->rail == 0 || cause == -ENOMEM || cause == -EMFILE || cause == -ENFILE)
        return cause;
    if (!(links->unfit_rails & 1u << socket->rail))
        rg_report(RG_LOG_WARN, "rank %d on %s is not reached at %s from %s (%s): what goes by that "
                  "network goes by the first one. Name only interfaces that lead to all hosts "
                  "(REIGEN_NETWORK_INTERFACE)", rg_team_world_rank(team, rank),
                  team->peers[rank].host, rg_team_address(team, rank, socket->rail),
                  rg_team_address(team, team->rank, socket->rail), describe(cause));
    links->unfit_rails |= 1u << socket->rail;
    socket->ndials = 0;
    return 0;
}

/* 0: it is dialled again, or -errno. */
static int fail(struct rg_links *links, int rank, struct rg_socket *socket, int cause)
{
    rg_links_close(socket);
    socket->cause = cause;
    if (links->pause_ms)
        socket->again_ns = rg_now_ns() + links->pause_ms * RG_NS_PER_MS;
    return may_dial_again(links, socket) ? 0 : try_first_rail(links, rank, socket);
}

int rg_links_dial(struct rg_links *links, int rank, int i, struct rg_socket *socket,
                  bool *ret_moved)
{
    int r = 0;

    if (socket->state == RG_SOCKET_OPEN)
        return 1;
    if (socket->state == RG_SOCKET_NONE) {
        if (socket->again_ns && rg_now_ns() < socket->again_ns)
            return 0;
        r = begin(links, rank, i, socket);
    }
    if (r == 0)
        r = rg_handshake_step(socket->handshake);
    if (r == 0)
        return 0;
    *ret_moved = true;
    if (r < 0)
        return fail(links, rank, socket, r);
    rg_links_adopt(links, socket, socket->fd);
    return 1;
}

/* ------------------------------------------------------------ both sides */

static int claim(const struct rg_links *links, int rank, int i, struct rg_socket *socket,
                 bool *ret_moved)
{
    int fd;

    if (socket->state == RG_SOCKET_OPEN)
        return 1;
    fd = rg_listener_claim(links->team->listener, purpose_of(links, i), rank);
    socket->awaited = fd < 0;
    if (fd < 0)
        return 0;
    *ret_moved = true;
    rg_links_adopt(links, socket, fd);
    return 1;
}

int rg_links_connect(struct rg_links *links, int rank, struct rg_socket *sockets, int from, int end,
                     bool *ret_moved)
{
    bool dials = links->team->rank < rank, all = true;

    if (!dials)
        *ret_moved |= rg_listener_progress(links->team->listener);
    for (int i = from; i < end; i++) {
        int r = dials ? rg_links_dial(links, rank, i, &sockets[i], ret_moved)
                      : claim(links, rank, i, &sockets[i], ret_moved);

        if (r < 0)
            return r;
        all = all && r == 1;
    }
    return all;
}

/* ------------------------------------------------------------ words */

int rg_links_tell(const struct rg_team *team, int rank, int cause, struct rg_error *err)
{
    int shown = rg_team_world_rank(team, rank);
    const char *host = team->peers[rank].host;

    if (cause == -EACCES)
        return rg_error_set(err, EACCES, "rank %d on %s has another key", shown, host);
    if (cause == -EDESTADDRREQ)
        return rg_error_set(err, EINVAL, "rank %d has no address to connect to", shown);
    return rg_error_set(err, ECONNRESET, "the connection to rank %d on %s is lost: %s", shown, host,
                        describe(cause));
}
