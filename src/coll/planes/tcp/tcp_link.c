/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, loses and closes the sockets of a tcp plane. */
#include "coll/planes/tcp/tcp_link.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "coll/net/sock.h"
#include "coll/team/team.h"

#define DIALS_MAX 3
#define COUNT_NS (RG_NS_PER_S / 4)

int rg_tcp_links_open(struct rg_tcp_links *links, const struct rg_plane_options *options,
                      uint32_t purpose)
{
    int n = options->group.nmembers;

    links->team = options->team;
    links->dialling = (struct rg_links){ .team = options->team, .purpose = purpose,
                                         .ndials_max = DIALS_MAX, .carries_data = true,
                                         .unfit_rails = options->team->unfit_rails };
    links->group = options->group;
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

    if (r == -EPROTO)
        return rg_error_set(err, EPROTO, "rank %d on %s speaks another protocol", shown, host);
    if (r == -EMFILE || r == -ENFILE)
        return rg_error_set(err, -r, "no free descriptor for a connection to rank %d on %s; allow "
                            "more (ulimit -n), or fewer sockets (REIGEN_SOCKETS_PER_PAIR=1)", shown,
                            host);
    return rg_links_tell(links->team, rank, r, err);
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
        if (links->links[member].sockets[k].state != RG_SOCKET_OPEN)
            return false;
    return true;
}

int rg_tcp_connect(struct rg_tcp_links *links, int member, int i, bool *ret_moved,
                   struct rg_error *err)
{
    int rank, r;

    if (is_ready(links, member, i))
        return 1;
    rank = rg_group_rank(&links->group, member);
    r = rg_links_connect(&links->dialling, rank, links->links[member].sockets, first_for(i),
                         end_for(links, i), ret_moved);
    if (r == 0 && links->team->rank > rank)
        links->waits_for_listener = true;
    return r < 0 ? rg_tcp_lost(links, member, r, err) : r;
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
    const struct rg_socket *sockets = links->links[member].sockets;

    if (is_ready(links, member, i))
        return add_fd(sockets[i].fd, events, fds, all_events, n, max);
    for (int k = first_for(i); k < end_for(links, i); k++)
        if (sockets[k].state == RG_SOCKET_DIALLING)
            n = add_fd(sockets[k].fd, rg_links_events(&sockets[k]), fds, all_events, n, max);
    return n;
}

/* Call fn for each open socket. */
static void each_open(const struct rg_tcp_links *links, void (*fn)(int fd, void *arg), void *arg)
{
    for (int i = 0; i < links->group.nmembers; i++)
        for (int k = 0; k < RG_TCP_SOCKETS_MAX; k++)
            if (links->links[i].sockets[k].state == RG_SOCKET_OPEN)
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
        if (link->sockets[k].state != RG_SOCKET_OPEN ||
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

/* The sockets of a pair take turns, so each of them is busy while the pair is. */
static void read_traffic(const struct rg_tcp_link *link, int nsockets, uint64_t *ret_nbytes,
                         uint64_t *ret_us)
{
    *ret_nbytes = *ret_us = 0;
    for (int k = 0; k < nsockets; k++) {
        struct tcp_info info;
        socklen_t length = sizeof(info);

        memset(&info, 0, sizeof(info)); /* an older kernel knows less */
        if (link->sockets[k].state != RG_SOCKET_OPEN ||
            getsockopt(link->sockets[k].fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0)
            continue;
        uint64_t us = info.tcpi_busy_time > info.tcpi_rwnd_limited
                          ? info.tcpi_busy_time - info.tcpi_rwnd_limited
                          : 0;
        *ret_nbytes += info.tcpi_bytes_acked;
        *ret_us = us > *ret_us ? us : *ret_us;
    }
}

/* A pair's sums are smaller where a socket was closed. */
static uint64_t count_link(struct rg_tcp_links *links, struct rg_tcp_link *link)
{
    struct rg_team_traffic *traffic = links->team->between.traffic;
    uint64_t nbytes, us, before_us = link->sending_us, before_nbytes = link->sent_nbytes;

    read_traffic(link, links->nsockets, &nbytes, &us);
    link->sent_nbytes = nbytes;
    link->sending_us = us;
    if (nbytes <= before_nbytes)
        return 0;
    atomic_fetch_add(&traffic->sent_nbytes, nbytes - before_nbytes);
    us = us > before_us ? us - before_us : 0;
    atomic_fetch_add(&traffic->sending_us, us);
    return us + 1;
}

void rg_tcp_count_traffic(struct rg_tcp_links *links, uint64_t now_ns)
{
    struct rg_team_traffic *traffic = links->team->between.traffic;
    uint64_t longest = 0;

    if (!traffic || now_ns < links->counted_ns + COUNT_NS)
        return;
    links->counted_ns = now_ns;
    for (int i = 0; i < links->group.nmembers; i++) {
        uint64_t us = links->links[i].sent.op ? count_link(links, &links->links[i]) : 0;

        if (us > longest)
            atomic_store(&traffic->sent_to, 1 + rg_group_rank(&links->group, i));
        longest = us > longest ? us : longest;
    }
}

void rg_tcp_disconnect(struct rg_tcp_links *links)
{
    for (int i = 0; i < links->group.nmembers; i++)
        for (int k = 0; k < RG_TCP_SOCKETS_MAX; k++)
            rg_links_close(&links->links[i].sockets[k]);
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
