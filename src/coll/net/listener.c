/* SPDX-License-Identifier: Apache-2.0 */
/* One listener for all purposes: who dials is sorted by what it says it wants. */
#include "coll/net/listener.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/time.h"
#include "coll/net/handshake.h"
#include "coll/ground/report.h"
#include "coll/net/sock.h"

struct conn {
    int fd;
    bool proven;
    uint64_t came_ns;
    struct rg_handshake handshake;
    struct conn *next;
};

struct rg_listener {
    struct rg_listener_options options;
    struct rg_acceptor acceptor;
    int npending;
    struct conn *conns;
};

static void close_listening(const struct rg_listener_options *options)
{
    for (int i = 0; i < options->nlisten; i++)
        close(options->listen_fds[i]);
}

int rg_listener_create(const struct rg_listener_options *options, struct rg_listener **ret_listener)
{
    struct rg_listener *listener = calloc(1, sizeof(*listener));

    if (!listener) {
        close_listening(options);
        return -ENOMEM;
    }
    listener->options = *options;
    *ret_listener = listener;
    return 0;
}

/* Unlink and free; the descriptor is closed unless keep. */
static void let_go(struct rg_listener *listener, struct conn *conn, bool keep)
{
    for (struct conn **at = &listener->conns; *at; at = &(*at)->next)
        if (*at == conn) {
            *at = conn->next;
            break;
        }
    if (!conn->proven)
        listener->npending--;
    if (!keep)
        close(conn->fd);
    rg_handshake_fini(&conn->handshake);
    free(conn);
}

void rg_listener_destroy(struct rg_listener *listener)
{
    if (!listener)
        return;
    while (listener->conns)
        let_go(listener, listener->conns, false);
    close_listening(&listener->options);
    free(listener);
}

static bool is_full(const struct rg_listener *listener)
{
    return listener->npending >= RG_LISTENER_PENDING_MAX;
}

/* The oldest one goes that has had time to shake hands; else who comes waits in the kernel's queue,
 * as many ranks may dial at once, each by several sockets. False: all are young. */
static bool make_room(struct rg_listener *listener)
{
    struct conn *oldest = NULL;

    for (struct conn *v = listener->conns; v; v = v->next)
        if (!v->proven && (!oldest || v->came_ns < oldest->came_ns))
            oldest = v;
    if (!oldest || rg_now_ns() < oldest->came_ns + RG_LISTENER_YOUNG_MS * RG_NS_PER_MS)
        return false;
    let_go(listener, oldest, false);
    return true;
}

static bool is_welcome(const struct rg_listener *listener, int fd)
{
    uid_t uid;

    return !listener->options.check_uid || (rg_sock_peer(fd, &uid, NULL) == 0 && uid == geteuid());
}

static void accept_all(struct rg_listener *listener, int listen_fd)
{
    bool tell;

    while (!is_full(listener) || make_room(listener)) {
        int fd = rg_accept(&listener->acceptor, listen_fd, &tell);

        if (tell)
            rg_report(RG_LOG_WARN, RG_LISTENER_FULL_TEXT);
        if (fd < 0)
            return;
        struct conn *conn = is_welcome(listener, fd) ? calloc(1, sizeof(*conn)) : NULL;

        if (!conn) {
            close(fd);
            continue;
        }
        if (!listener->options.check_uid)
            rg_sock_tune_tcp(fd);
        conn->fd = fd;
        conn->came_ns = rg_now_ns();
        rg_handshake_answer(&conn->handshake, fd, listener->options.key, listener->options.rank);
        conn->next = listener->conns;
        listener->conns = conn;
        listener->npending++;
    }
}

static struct conn *find(struct rg_listener *listener, uint32_t purpose, int rank,
                            const struct conn *but)
{
    for (struct conn *v = listener->conns; v; v = v->next)
        if (v->proven && v != but && v->handshake.purpose == purpose &&
            (rank < 0 || v->handshake.from == rank))
            return v;
    return NULL;
}

/* True when the conn has just proven itself. */
static bool step(struct rg_listener *listener, struct conn *conn, uint64_t now_ns,
                 struct conn **ret_next)
{
    int r = conn->proven ? 0 : rg_handshake_step(&conn->handshake);

    *ret_next = conn->next;
    if (r == 1 && conn->handshake.from >= listener->options.size)
        r = -EPROTO;
    /* A process of our own user on this host may stand still for a while. */
    bool late = !listener->options.check_uid && !conn->proven && r == 0 &&
                now_ns > conn->came_ns + RG_LISTENER_HANDSHAKE_MS * RG_NS_PER_MS;

    if (r < 0 || late) {
        let_go(listener, conn, false);
        return false;
    }
    if (r == 0)
        return false;
    conn->proven = true;
    listener->npending--;
    struct conn *older = find(listener, conn->handshake.purpose, conn->handshake.from, conn);

    if (older && *ret_next == older)
        *ret_next = older->next;
    if (older)
        let_go(listener, older, false);
    return true;
}

bool rg_listener_progress(struct rg_listener *listener)
{
    uint64_t now_ns;
    bool came = false;
    struct conn *next;

    for (int i = 0; i < listener->options.nlisten; i++)
        accept_all(listener, listener->options.listen_fds[i]);
    if (listener->npending == 0)
        return false;
    now_ns = rg_now_ns();
    for (struct conn *v = listener->conns; v; v = next)
        came |= step(listener, v, now_ns, &next);
    return came;
}

int rg_listener_claim(struct rg_listener *listener, uint32_t purpose, int rank)
{
    struct conn *conn = find(listener, purpose, rank, NULL);
    int fd = conn ? conn->fd : -1;

    if (conn)
        let_go(listener, conn, true);
    return fd;
}

int rg_listener_claim_any(struct rg_listener *listener, uint32_t purpose, int *ret_rank)
{
    const struct conn *conn = find(listener, purpose, -1, NULL);

    if (!conn)
        return -1;
    *ret_rank = conn->handshake.from;
    return rg_listener_claim(listener, purpose, *ret_rank);
}

int rg_listener_wait_fds(struct rg_listener *listener, int *ret_fds, unsigned *ret_events, int max)
{
    int n = 0;

    /* Where it is full, those who shake hands have their say, or the caller looks again. */
    for (int i = 0; i < listener->options.nlisten && n < max; i++) {
        if (rg_accept_pauses(&listener->acceptor) || is_full(listener))
            break;
        ret_fds[n] = listener->options.listen_fds[i];
        ret_events[n++] = EPOLLIN;
    }
    for (struct conn *v = listener->conns; v && n < max; v = v->next) {
        if (v->proven)
            continue;
        ret_fds[n] = v->fd;
        ret_events[n++] = rg_handshake_events(&v->handshake) == POLLOUT ? EPOLLOUT : EPOLLIN;
    }
    return n;
}

int rg_listener_wait(struct rg_listener *listener, uint64_t deadline_ns)
{
    for (;;) {
        int fds[RG_LISTENER_WAIT_FDS_MAX];
        unsigned events[RG_LISTENER_WAIT_FDS_MAX];
        struct pollfd pfds[RG_LISTENER_WAIT_FDS_MAX];

        if (rg_listener_progress(listener))
            return 0;
        uint64_t now_ns = rg_now_ns();

        if (now_ns >= deadline_ns)
            return -ETIMEDOUT;
        int n = rg_listener_wait_fds(listener, fds, events, RG_LISTENER_WAIT_FDS_MAX);

        for (int i = 0; i < n; i++)
            pfds[i] = (struct pollfd) { fds[i], events[i] == EPOLLOUT ? POLLOUT : POLLIN, 0 };
        uint64_t left_ms = (deadline_ns - now_ns) / RG_NS_PER_MS + 1;
        /* Connections that prove nothing are looked after once a second. */
        uint64_t most_ms = rg_accept_pauses(&listener->acceptor) ? RG_ACCEPT_PAUSE_MS : 1000;

        if (poll(pfds, (nfds_t) n, (int) (left_ms > most_ms ? most_ms : left_ms)) < 0 &&
            errno != EINTR)
            return -errno;
    }
}

void rg_listener_after_fork(struct rg_listener *listener)
{
    for (struct conn *v = listener->conns; v; v = v->next)
        close(v->fd);
    close_listening(&listener->options);
}
