/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/net/lobby.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/time.h"
#include "coll/net/knock.h"
#include "coll/ground/report.h"
#include "coll/net/sock.h"

struct visitor {
    int fd;
    bool proven;
    uint64_t came_ns;
    struct rg_knock knock;
    struct visitor *next;
};

struct rg_lobby {
    struct rg_lobby_options options;
    struct rg_acceptor acceptor;
    int nstrangers;
    struct visitor *visitors;
};

int rg_lobby_create(const struct rg_lobby_options *options, struct rg_lobby **ret_lobby)
{
    struct rg_lobby *lobby = calloc(1, sizeof(*lobby));

    if (!lobby) {
        close(options->listen_fd);
        return -ENOMEM;
    }
    lobby->options = *options;
    *ret_lobby = lobby;
    return 0;
}

/* Unlink and free; the descriptor is closed unless keep. */
static void let_go(struct rg_lobby *lobby, struct visitor *visitor, bool keep)
{
    for (struct visitor **at = &lobby->visitors; *at; at = &(*at)->next)
        if (*at == visitor) {
            *at = visitor->next;
            break;
        }
    if (!visitor->proven)
        lobby->nstrangers--;
    if (!keep)
        close(visitor->fd);
    rg_knock_fini(&visitor->knock);
    free(visitor);
}

void rg_lobby_destroy(struct rg_lobby *lobby)
{
    if (!lobby)
        return;
    while (lobby->visitors)
        let_go(lobby, lobby->visitors, false);
    close(lobby->options.listen_fd);
    free(lobby);
}

static void drop_oldest_stranger(struct rg_lobby *lobby)
{
    struct visitor *oldest = NULL;

    for (struct visitor *v = lobby->visitors; v; v = v->next)
        if (!v->proven && (!oldest || v->came_ns < oldest->came_ns))
            oldest = v;
    if (oldest)
        let_go(lobby, oldest, false);
}

static bool is_welcome(const struct rg_lobby *lobby, int fd)
{
    uid_t uid;

    return !lobby->options.check_uid || (rg_sock_peer(fd, &uid, NULL) == 0 && uid == geteuid());
}

static void accept_all(struct rg_lobby *lobby)
{
    bool tell;

    for (;;) {
        int fd = rg_accept(&lobby->acceptor, lobby->options.listen_fd, &tell);

        if (tell)
            rg_report(RG_LOG_WARN, RG_LOBBY_FULL_TEXT);
        if (fd < 0)
            return;
        struct visitor *visitor = is_welcome(lobby, fd) ? calloc(1, sizeof(*visitor)) : NULL;

        if (!visitor) {
            close(fd);
            continue;
        }
        if (!lobby->options.check_uid)
            rg_sock_tune_tcp(fd);
        visitor->fd = fd;
        visitor->came_ns = rg_now_ns();
        rg_knock_answer(&visitor->knock, fd, lobby->options.key, lobby->options.rank);
        visitor->next = lobby->visitors;
        lobby->visitors = visitor;
        if (++lobby->nstrangers > RG_LOBBY_STRANGERS_MAX)
            drop_oldest_stranger(lobby);
    }
}

static struct visitor *find(struct rg_lobby *lobby, uint32_t purpose, int rank,
                            const struct visitor *but)
{
    for (struct visitor *v = lobby->visitors; v; v = v->next)
        if (v->proven && v != but && v->knock.purpose == purpose &&
            (rank < 0 || v->knock.from == rank))
            return v;
    return NULL;
}

/* True when the visitor has just proven itself. */
static bool step(struct rg_lobby *lobby, struct visitor *visitor, uint64_t now_ns,
                 struct visitor **ret_next)
{
    int r = visitor->proven ? 0 : rg_knock_step(&visitor->knock);

    *ret_next = visitor->next;
    if (r == 1 && visitor->knock.from >= lobby->options.size)
        r = -EPROTO;
    /* A process of our own user on this host may stand still for a while. */
    bool late = !lobby->options.check_uid && !visitor->proven && r == 0 &&
                now_ns > visitor->came_ns + RG_LOBBY_KNOCK_MS * RG_NS_PER_MS;

    if (r < 0 || late) {
        let_go(lobby, visitor, false);
        return false;
    }
    if (r == 0)
        return false;
    visitor->proven = true;
    lobby->nstrangers--;
    struct visitor *older = find(lobby, visitor->knock.purpose, visitor->knock.from, visitor);

    if (older && *ret_next == older)
        *ret_next = older->next;
    if (older)
        let_go(lobby, older, false);
    return true;
}

bool rg_lobby_progress(struct rg_lobby *lobby)
{
    uint64_t now_ns;
    bool came = false;
    struct visitor *next;

    accept_all(lobby);
    if (lobby->nstrangers == 0)
        return false;
    now_ns = rg_now_ns();
    for (struct visitor *v = lobby->visitors; v; v = next)
        came |= step(lobby, v, now_ns, &next);
    return came;
}

int rg_lobby_claim_any(struct rg_lobby *lobby, uint32_t purpose, int *ret_rank)
{
    struct visitor *visitor = find(lobby, purpose, -1, NULL);

    if (!visitor)
        return -1;
    int fd = visitor->fd;

    *ret_rank = visitor->knock.from;
    let_go(lobby, visitor, true);
    return fd;
}

int rg_lobby_claim(struct rg_lobby *lobby, uint32_t purpose, int rank)
{
    struct visitor *visitor = find(lobby, purpose, rank, NULL);

    if (!visitor)
        return -1;
    int fd = visitor->fd;

    let_go(lobby, visitor, true);
    return fd;
}

int rg_lobby_wait_fds(struct rg_lobby *lobby, int *ret_fds, unsigned *ret_events, int max)
{
    int n = 0;

    if (max > 0 && !rg_accept_pauses(&lobby->acceptor)) {
        ret_fds[n] = lobby->options.listen_fd;
        ret_events[n++] = EPOLLIN;
    }
    for (struct visitor *v = lobby->visitors; v && n < max; v = v->next) {
        if (v->proven)
            continue;
        ret_fds[n] = v->fd;
        ret_events[n++] = rg_knock_events(&v->knock) == POLLOUT ? EPOLLOUT : EPOLLIN;
    }
    return n;
}

int rg_lobby_wait(struct rg_lobby *lobby, uint64_t deadline_ns)
{
    for (;;) {
        int fds[RG_LOBBY_STRANGERS_MAX + 1];
        unsigned events[RG_LOBBY_STRANGERS_MAX + 1];
        struct pollfd pfds[RG_LOBBY_STRANGERS_MAX + 1];

        if (rg_lobby_progress(lobby))
            return 0;
        uint64_t now_ns = rg_now_ns();

        if (now_ns >= deadline_ns)
            return -ETIMEDOUT;
        int n = rg_lobby_wait_fds(lobby, fds, events, RG_LOBBY_STRANGERS_MAX + 1);

        for (int i = 0; i < n; i++)
            pfds[i] = (struct pollfd) { fds[i], events[i] == EPOLLOUT ? POLLOUT : POLLIN, 0 };
        uint64_t left_ms = (deadline_ns - now_ns) / RG_NS_PER_MS + 1;
        /* Strangers are looked after once a second. */
        uint64_t most_ms = rg_accept_pauses(&lobby->acceptor) ? RG_ACCEPT_PAUSE_MS : 1000;

        if (poll(pfds, (nfds_t) n, (int) (left_ms > most_ms ? most_ms : left_ms)) < 0 &&
            errno != EINTR)
            return -errno;
    }
}

void rg_lobby_after_fork(struct rg_lobby *lobby)
{
    for (struct visitor *v = lobby->visitors; v; v = v->next)
        close(v->fd);
    close(lobby->options.listen_fd);
}
