/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets and lives of other leaders, apart from what is agreed over them. */
#include "coll/negotiate/peers.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "base/time.h"
#include "coll/net/sock.h"
#include "coll/team/liveness.h"
#include "wire/conn.h"

#define BEAT_NS RG_NS_PER_S
#define GAP_NS (2 * RG_NS_PER_S)       /* of our own calls: this process was stopped */
#define LAST_WORDS_NS (RG_NS_PER_S / 2) /* after a lost socket: others may know the cause better */

struct peer {
    struct rg_peers *peers;
    struct rg_conn conn;
    int i;
    int pidfd; /* of its process, where it runs on this host and we see it; -1 */
    bool wants_out, goodbye, gone;
    uint64_t heard_ns, said_ns;
    uint64_t lost_ns; /* when the socket was lost, 0: not */
};

struct rg_peers {
    const struct rg_peers_ops *ops;
    void *arg;
    int epoll_fd, n;
    uint64_t silence_ns; /* of a peer whose process we do not see */
    uint64_t called_ns, checked_ns;
    struct rg_peers_count count;
    struct peer peer[];
};

static void close_peer(struct peer *peer)
{
    rg_conn_fini(&peer->conn);
    if (peer->pidfd >= 0)
        close(peer->pidfd);
    peer->pidfd = -1;
}

static void give_up(struct peer *peer, const char *why)
{
    if (peer->gone || peer->goodbye)
        return;
    peer->gone = true;
    close_peer(peer);
    peer->peers->ops->on_gone(peer->peers->arg, peer->i, why);
}

static int on_payload(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct peer *peer = arg;
    struct rg_order_frame frame;
    int r = rg_order_frame_get(type, payload, nbytes, &frame);

    if (r < 0)
        return r;
    peer->goodbye = peer->goodbye || type == RG_ORDER_GOODBYE;
    if (type != RG_ORDER_HEARTBEAT) {
        peer->peers->count.heard++;
        r = peer->peers->ops->on_frame(peer->peers->arg, peer->i, &frame);
    }
    rg_order_frame_fini(&frame);
    return r;
}

static size_t payload_max(void *arg, uint16_t type)
{
    (void) arg;
    (void) type;
    return RG_ORDER_PAYLOAD_MAX;
}

static const struct rg_conn_ops conn_ops = { on_payload, payload_max, .secret = false };

int rg_peers_add(struct rg_peers *peers, int i, int take_fd, pid_t pid)
{
    struct peer *peer = &peers->peer[i];
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = peer };

    close_peer(peer);
    *peer = (struct peer) { .peers = peers, .i = i, .pidfd = rg_pidfd_open(pid) };
    peer->heard_ns = peer->said_ns = rg_now_ns();
    rg_conn_init(&peer->conn, take_fd, &conn_ops, peer, NULL);
    rg_sock_tune_tcp(take_fd);
    return epoll_ctl(peers->epoll_fd, EPOLL_CTL_ADD, take_fd, &event) < 0 ? -errno : 0;
}

bool rg_peers_here(const struct rg_peers *peers, int i)
{
    return rg_conn_alive(&peers->peer[i].conn);
}

bool rg_peers_left(const struct rg_peers *peers, int i)
{
    return peers->peer[i].goodbye;
}

struct rg_peers_count rg_peers_count(const struct rg_peers *peers)
{
    return peers->count;
}

uint64_t rg_peers_round_trip_ns(const struct rg_peers *peers)
{
    uint64_t longest = 0;

    for (int node = 0; node < peers->n; node++) {
        int fd = peers->peer[node].conn.fd;
        uint64_t ns = fd >= 0 ? rg_sock_round_trip_ns(fd) : 0;

        longest = ns > longest ? ns : longest;
    }
    return longest;
}

int rg_peers_fd(const struct rg_peers *peers)
{
    return peers->epoll_fd;
}

/* ---- speaking */

static void flush(struct peer *peer)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = peer };

    rg_conn_flush(&peer->conn);
    bool out = rg_conn_pending(&peer->conn) > 0;

    if (out)
        event.events |= EPOLLOUT;
    if (out != peer->wants_out && rg_conn_alive(&peer->conn))
        epoll_ctl(peer->peers->epoll_fd, EPOLL_CTL_MOD, peer->conn.fd, &event);
    peer->wants_out = out;
}

void rg_peers_flush(struct rg_peers *peers)
{
    for (int i = 0; i < peers->n; i++)
        if (!peers->peer[i].wants_out && rg_conn_pending(&peers->peer[i].conn) > 0)
            flush(&peers->peer[i]);
}

/* To the peers from first to last, but one. */
static int say(struct rg_peers *peers, int first, int last, int but,
               const struct rg_order_frame *frame)
{
    rg_autobuf struct rg_buf payload = RG_BUF_INIT;
    uint64_t now_ns = rg_now_ns();
    int r;

    rg_order_frame_put(frame, &payload);
    r = rg_buf_status(&payload);
    for (int i = first; i <= last && r == 0; i++) {
        struct peer *peer = &peers->peer[i];

        if (i == but || !rg_conn_alive(&peer->conn))
            continue;
        peer->said_ns = now_ns;
        peers->count.said += frame->type != RG_ORDER_HEARTBEAT;
        r = rg_conn_send_raw(&peer->conn, frame->type, rg_buf_bytes(&payload),
                             rg_buf_nbytes(&payload));
    }
    return r;
}

uint64_t rg_peers_heard_ns(const struct rg_peers *peers, int i)
{
    return rg_conn_alive(&peers->peer[i].conn) ? peers->peer[i].heard_ns : UINT64_MAX;
}

int rg_peers_say(struct rg_peers *peers, int i, const struct rg_order_frame *frame)
{
    return say(peers, i, i, -1, frame);
}

int rg_peers_say_all(struct rg_peers *peers, int but, const struct rg_order_frame *frame)
{
    return say(peers, 0, peers->n - 1, but, frame);
}

/* ---- listening */

static void receive(struct peer *peer, uint64_t now_ns)
{
    int r = rg_conn_alive(&peer->conn) ? rg_conn_receive(&peer->conn, INT_MAX, NULL) : 0;

    peer->heard_ns = now_ns;
    if (r == 0)
        return;
    if (peer->conn.frame_error < 0)
        give_up(peer, "it sent what cannot be understood");
    close_peer(peer);
    if (!peer->goodbye)
        peer->lost_ns = now_ns;
}

/* Silence proves little: the network, a switch or the load may be to blame. Where the kernel knows
 * whether the peer lives, its word counts. */
static void judge_silence(struct peer *peer, uint64_t now_ns)
{
    uint64_t silence_ns = peer->peers->silence_ns;
    struct pollfd pfd = { peer->pidfd, POLLIN, 0 };
    char why[128];

    if (now_ns <= peer->heard_ns + (peer->pidfd >= 0 ? 2 * BEAT_NS : silence_ns))
        return;
    if (peer->pidfd >= 0) {
        if (poll(&pfd, 1, 0) > 0)
            give_up(peer, "its process has ended");
        return;
    }
    snprintf(why, sizeof(why), "nothing was heard of it for %.6g s (REIGEN_SILENCE_SECONDS)",
             (double) silence_ns / RG_NS_PER_S);
    give_up(peer, why);
}

/* Say that we are alive, and see who is not. */
static void check_lives(struct rg_peers *peers, uint64_t now_ns)
{
    struct rg_order_frame beat = { .type = RG_ORDER_HEARTBEAT };

    peers->checked_ns = now_ns;
    for (int i = 0; i < peers->n; i++) {
        struct peer *peer = &peers->peer[i];

        if (peer->lost_ns && now_ns > peer->lost_ns + LAST_WORDS_NS)
            give_up(peer, "its connection was closed");
        if (!rg_conn_alive(&peer->conn))
            continue;
        if (now_ns > peer->said_ns + BEAT_NS)
            rg_peers_say(peers, i, &beat);
        judge_silence(peer, now_ns);
    }
}

/* Silence counts only while we were listening: not while this process was stopped. */
static void forgive_gap(struct rg_peers *peers, uint64_t now_ns)
{
    bool gap = now_ns > peers->called_ns + GAP_NS;

    for (int i = 0; gap && i < peers->n; i++)
        peers->peer[i].heard_ns = now_ns;
    peers->called_ns = now_ns;
}

bool rg_peers_poll(struct rg_peers *peers)
{
    struct epoll_event events[64];
    uint64_t now_ns = rg_now_ns();
    int n = epoll_wait(peers->epoll_fd, events, 64, 0);

    forgive_gap(peers, now_ns);
    for (int i = 0; i < n; i++) {
        struct peer *peer = events[i].data.ptr;

        if (events[i].events & EPOLLOUT)
            flush(peer);
        if (events[i].events & ~(unsigned) EPOLLOUT)
            receive(peer, now_ns);
    }
    if (now_ns > peers->checked_ns + RG_PEERS_CHECK_NS)
        check_lives(peers, now_ns);
    return n > 0;
}

/* ---- life */

int rg_peers_create(int n, uint64_t silence_ns, const struct rg_peers_ops *ops, void *arg,
                    struct rg_peers **ret_peers)
{
    struct rg_peers *peers = calloc(1, sizeof(*peers) + (size_t) n * sizeof(peers->peer[0]));

    if (!peers)
        return -ENOMEM;
    *peers = (struct rg_peers) { .ops = ops, .arg = arg, .n = n, .silence_ns = silence_ns,
                                 .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };
    for (int i = 0; i < n; i++)
        peers->peer[i] = (struct peer) { .peers = peers, .i = i, .pidfd = -1, .conn.fd = -1 };
    if (peers->epoll_fd < 0) {
        int r = -errno;

        free(peers);
        return r;
    }
    *ret_peers = peers;
    return 0;
}

void rg_peers_destroy(struct rg_peers *peers, uint64_t deadline_ns)
{
    struct rg_order_frame goodbye = { .type = RG_ORDER_GOODBYE };

    if (!peers)
        return;
    rg_peers_say_all(peers, -1, &goodbye);
    for (int i = 0; i < peers->n; i++)
        rg_conn_flush(&peers->peer[i].conn);
    for (int i = 0; i < peers->n; i++) {
        rg_conn_drain(&peers->peer[i].conn, deadline_ns);
        if (rg_peers_here(peers, i))
            rg_sock_drain(peers->peer[i].conn.fd, deadline_ns);
        close_peer(&peers->peer[i]);
    }
    close(peers->epoll_fd);
    free(peers);
}

void rg_peers_after_fork(struct rg_peers *peers)
{
    for (int i = 0; i < peers->n; i++) {
        if (peers->peer[i].conn.fd >= 0)
            close(peers->peer[i].conn.fd);
        if (peers->peer[i].pidfd >= 0)
            close(peers->peer[i].pidfd);
    }
    close(peers->epoll_fd);
}
