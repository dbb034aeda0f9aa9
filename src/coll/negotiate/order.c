/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/negotiate/order.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/time.h"
#include "coll/net/handshake.h"
#include "coll/net/listener.h"
#include "coll/negotiate/order_decide.h"
#include "coll/negotiate/order_known.h"
#include "coll/net/sock.h"
#include "coll/team/liveness.h"

#define PURPOSE_ORDER 0x7264726fu /* "ordr" */
#define BEAT_NS RG_NS_PER_S
#define GAP_NS (2 * RG_NS_PER_S)       /* of our own calls: this process was stopped */
#define LAST_WORDS_NS (RG_NS_PER_S / 2) /* after a lost socket: others may know the cause better */
#define CHECK_NS (RG_NS_PER_S / 4)
#define READ_NBYTES 65536
#define RETRY_MS 50
/* A control connection: at the coordinator to each other leader, at a leader to the coordinator. */
struct peer {
    int fd; /* -1: none, or closed */
    int pidfd; /* of its process, where it runs on this host and we see it; -1 */
    int node, rank;
    struct rg_buf in, out;
    bool wants_out, goodbye, dead;
    uint64_t heard_ns, said_ns;
    uint64_t lost_ns; /* when the socket was lost, 0: not */
};
struct rg_order {
    struct rg_team *team;
    struct rg_order_events events;
    bool coordinator;
    int epoll_fd, npeers;
    struct peer *peers;          /* coordinator: by node, [0] unused; leader: [0] */
    struct rg_decider *decider;  /* coordinator */
    struct rg_known *known;      /* leader */
    bool gathering;              /* coordinator: leaders are missing */
    bool shut;                   /* on_shutdown was called */
    bool blocked;                /* what rg_order_blocked was told last */
    uint64_t silence_ns;         /* of a peer whose process we do not see: it is dead */
    struct rg_error died;        /* the first death that was told */
    uint64_t called_ns, checked_ns;
};

/* ------------------------------------------------------------ sockets */

static void watch(struct rg_order *order, struct peer *peer, bool out)
{
    struct epoll_event event = { .events = EPOLLIN | (out ? (unsigned) EPOLLOUT : 0),
                                 .data.ptr = peer };

    if (out != peer->wants_out)
        epoll_ctl(order->epoll_fd, EPOLL_CTL_MOD, peer->fd, &event);
    peer->wants_out = out;
}

static void close_peer(struct peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    if (peer->pidfd >= 0)
        close(peer->pidfd);
    peer->fd = peer->pidfd = -1;
    rg_buf_fini(&peer->in);
    rg_buf_fini(&peer->out);
}

static void lose(struct peer *peer)
{
    close_peer(peer);
    if (!peer->goodbye)
        peer->lost_ns = rg_now_ns();
}

static void flush(struct rg_order *order, struct peer *peer)
{
    while (peer->fd >= 0 && rg_buf_nbytes(&peer->out) > 0) {
        ssize_t n = send(peer->fd, rg_buf_bytes(&peer->out), rg_buf_nbytes(&peer->out),
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            watch(order, peer, true);
            return;
        }
        if (n < 0) {
            /* What the peer said last may still be there to read. */
            rg_buf_clear(&peer->out);
            return;
        }
        rg_buf_consume(&peer->out, (size_t) n);
    }
    if (peer->fd >= 0)
        watch(order, peer, false);
}

static int say(struct rg_order *order, struct peer *peer, const struct rg_order_frame *frame)
{
    (void) order;
    if (peer->fd < 0)
        return 0;
    rg_order_frame_put(frame, &peer->out);
    peer->said_ns = rg_now_ns();
    return rg_buf_status(&peer->out);
}

static int say_all(struct rg_order *order, const struct rg_order_frame *frame,
                   const struct peer *but)
{
    int r = 0;

    for (int i = 0; i < order->npeers; i++) {
        int s = &order->peers[i] == but ? 0 : say(order, &order->peers[i], frame);

        r = s < 0 ? s : r;
    }
    return r;
}

static void flush_all(struct rg_order *order)
{
    for (int i = 0; i < order->npeers; i++)
        if (rg_buf_nbytes(&order->peers[i].out) > 0 && !order->peers[i].wants_out)
            flush(order, &order->peers[i]);
}

/* ------------------------------------------------------------ deaths */

static void tell_death(struct rg_order *order, int rank, const char *text, const struct peer *from)
{
    struct rg_order_frame frame = { .type = RG_ORDER_DIED, .rank = (uint32_t) rank, .text = text };

    if (order->died.errnum == 0)
        rg_error_set(&order->died, ECONNRESET, "%s", text);
    if (order->coordinator)
        say_all(order, &frame, from);
    order->events.on_died(order->events.arg, rank, text);
}

static void die(struct rg_order *order, struct peer *peer, const char *why)
{
    struct rg_error err = RG_ERROR_INIT;

    if (peer->dead || peer->goodbye)
        return;
    peer->dead = true;
    close_peer(peer);
    rg_error_set(&err, ECONNRESET, "rank %d on host %s is gone: %s",
                 rg_team_world_rank(order->team, peer->rank),
                 order->team->peers[peer->rank].host, why);
    tell_death(order, peer->rank, err.text, peer);
}

/* ------------------------------------------------------------ frames */

/* The first rank to leave ends the job for all; that others leave too is no news. */
static void shut(struct rg_order *order, int rank)
{
    if (!order->shut)
        order->events.on_shutdown(order->events.arg, rank);
    order->shut = true;
}

static void deliver(struct rg_order *order, const char *name, const struct rg_signature *sig,
                    const char *text, bool fused)
{
    order->events.on_decided(order->events.arg, name, sig, text && text[0] ? text : NULL, fused);
}

static void on_run(void *arg, const char *name, const struct rg_signature *sig, const char *text,
                   bool fused)
{
    deliver(arg, name, sig, text, fused);
}

/* Of both sides. 1: taken, 0: not of this kind. */
static int on_common(struct rg_order *order, struct peer *peer, const struct rg_order_frame *frame)
{
    switch (frame->type) {
    case RG_ORDER_HEARTBEAT:
        return 1;
    case RG_ORDER_GOODBYE:
        peer->goodbye = true;
        if (!order->coordinator)
            shut(order, peer->rank);
        else if (!order->shut)
            rg_decider_shutdown(order->decider, peer->rank);
        return 1;
    case RG_ORDER_DIED:
        tell_death(order, (int) frame->rank, frame->text, peer);
        return 1;
    default:
        return 0;
    }
}

static void on_tuned(struct rg_order *order, const struct rg_order_frame *frame)
{
    const struct rg_tuning tuning = { (uint64_t) frame->id << 10, frame->flags };

    if (order->events.on_tuned)
        order->events.on_tuned(order->events.arg, &tuning);
}

static int on_leader_frame(struct rg_order *order, struct peer *peer,
                           const struct rg_order_frame *frame)
{
    switch (frame->type) {
    case RG_ORDER_OFFER_NEW:
        return rg_decider_offer(order->decider, peer->node, frame->name, &frame->sig,
                                frame->text);
    case RG_ORDER_OFFER:
        return rg_decider_offer_id(order->decider, peer->node, frame->id);
    case RG_ORDER_JOIN:
        return rg_decider_join(order->decider, peer->node, (int) frame->rank);
    case RG_ORDER_SHUTDOWN:
        return rg_decider_shutdown(order->decider, (int) frame->rank);
    case RG_ORDER_EVICTED:
        return rg_decider_evicted(order->decider, frame->id);
    case RG_ORDER_STALL_REPLY:
        order->events.on_stall_reply(order->events.arg, peer->node, frame->text);
        return 0;
    case RG_ORDER_BLOCKED:
        rg_decider_blocked(order->decider, peer->node, frame->flags != 0);
        return 0;
    default:
        return -EBADMSG;
    }
}

static int on_coordinator_frame(struct rg_order *order, struct peer *peer,
                                const struct rg_order_frame *frame)
{
    struct rg_order_frame answer = { .type = RG_ORDER_EVICTED, .id = frame->id };

    switch (frame->type) {
    case RG_ORDER_DECIDED:
    case RG_ORDER_DECIDED_NEW:
        return rg_known_decided(order->known, frame, on_run, order);
    case RG_ORDER_JOINED:
        order->events.on_joined(order->events.arg, (int) frame->rank);
        return 0;
    case RG_ORDER_TUNE:
        on_tuned(order, frame);
        return 0;
    case RG_ORDER_SHUTDOWN:
        shut(order, (int) frame->rank);
        return 0;
    case RG_ORDER_STALL_QUERY:
        order->events.on_stall_query(order->events.arg);
        return 0;
    case RG_ORDER_EVICT:
        rg_known_forget(order->known, frame->id);
        return say(order, peer, &answer);
    default:
        return -EBADMSG;
    }
}

static int on_frame(struct rg_order *order, struct peer *peer, const struct rg_order_frame *frame)
{
    if (frame->rank >= (uint32_t) order->team->size)
        return -EBADMSG;
    if (on_common(order, peer, frame))
        return 0;
    return order->coordinator ? on_leader_frame(order, peer, frame)
                              : on_coordinator_frame(order, peer, frame);
}

static int parse(struct rg_order *order, struct peer *peer)
{
    while (peer->fd >= 0) {
        struct rg_order_frame frame;
        size_t used;
        int r = rg_order_frame_get(rg_buf_bytes(&peer->in), rg_buf_nbytes(&peer->in), &frame,
                                   &used);

        if (r < 0 || used == 0)
            return r;
        rg_buf_consume(&peer->in, used);
        r = on_frame(order, peer, &frame);
        rg_order_frame_fini(&frame);
        if (r < 0)
            return r;
    }
    return 0;
}

static void receive(struct rg_order *order, struct peer *peer)
{
    while (peer->fd >= 0) {
        uint8_t *to = rg_buf_reserve(&peer->in, READ_NBYTES);
        ssize_t n = to ? recv(peer->fd, to, READ_NBYTES, MSG_DONTWAIT) : -1;

        if (to && n < 0 && errno == EINTR)
            continue;
        if (to && n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            lose(peer);
            return;
        }
        rg_buf_commit(&peer->in, (size_t) n);
        peer->heard_ns = rg_now_ns();
        if (parse(order, peer) < 0) {
            die(order, peer, "it sent what cannot be understood");
            return;
        }
        if (n < READ_NBYTES)
            return;
    }
}

/* ------------------------------------------------------------ progress */

/* True when there was anything to say. */
static bool emit(struct rg_order *order)
{
    struct rg_order_frame frame;
    bool fused = false, any = false;

    while (rg_decider_next(order->decider, &frame) > 0) {
        any = true;
        say_all(order, &frame, NULL);
        switch (frame.type) {
        case RG_ORDER_DECIDED:
        case RG_ORDER_DECIDED_NEW:
            deliver(order, frame.name, &frame.sig, frame.text, fused);
            fused = frame.flags & RG_ORDER_MORE;
            break;
        case RG_ORDER_JOINED:
            order->events.on_joined(order->events.arg, (int) frame.rank);
            break;
        case RG_ORDER_TUNE:
            on_tuned(order, &frame);
            break;
        case RG_ORDER_SHUTDOWN:
            shut(order, (int) frame.rank);
            break;
        default:
            break;
        }
    }
    return any;
}

/* Silence proves little: the network, a switch or the load may be to blame. Where the kernel knows
 * whether the peer lives, its word counts. */
static void judge_silence(struct rg_order *order, struct peer *peer, uint64_t now_ns)
{
    struct pollfd pfd = { peer->pidfd, POLLIN, 0 };
    char why[128];

    if (now_ns <= peer->heard_ns + (peer->pidfd >= 0 ? 2 * BEAT_NS : order->silence_ns))
        return;
    if (peer->pidfd >= 0) {
        if (poll(&pfd, 1, 0) > 0)
            die(order, peer, "its process has ended");
        return;
    }
    snprintf(why, sizeof(why), "nothing was heard of it for %.6g s (REIGEN_SILENCE_SECONDS)",
             (double) order->silence_ns / RG_NS_PER_S);
    die(order, peer, why);
}

/* Say that we are alive, and see who is not. */
static void check_lives(struct rg_order *order, uint64_t now_ns)
{
    struct rg_order_frame beat = { .type = RG_ORDER_HEARTBEAT };

    order->checked_ns = now_ns;
    for (int i = 0; i < order->npeers; i++) {
        struct peer *peer = &order->peers[i];

        if (peer->lost_ns && now_ns > peer->lost_ns + LAST_WORDS_NS)
            die(order, peer, "its connection was closed");
        if (peer->fd < 0)
            continue;
        if (now_ns > peer->said_ns + BEAT_NS)
            say(order, peer, &beat);
        judge_silence(order, peer, now_ns);
    }
}

/* Silence counts only while we were listening: not while this process was stopped. */
static void forgive_gap(struct rg_order *order, uint64_t now_ns)
{
    bool gap = now_ns > order->called_ns + GAP_NS;

    for (int i = 0; gap && i < order->npeers; i++)
        order->peers[i].heard_ns = now_ns;
    order->called_ns = now_ns;
}

int rg_order_progress(struct rg_order *order, bool *ret_moved, struct rg_error *err)
{
    struct epoll_event events[64];
    uint64_t now_ns = rg_now_ns();
    int n = epoll_wait(order->epoll_fd, events, 64, 0);

    (void) err;
    forgive_gap(order, now_ns);
    for (int i = 0; i < n; i++) {
        struct peer *peer = events[i].data.ptr;

        *ret_moved = true;
        if (events[i].events & EPOLLOUT)
            flush(order, peer);
        if (events[i].events & ~(unsigned) EPOLLOUT)
            receive(order, peer);
    }
    /* A leader that is still to come must not miss what is decided: it waits. */
    if (order->coordinator && !order->gathering && emit(order))
        *ret_moved = true;
    if (now_ns > order->checked_ns + CHECK_NS)
        check_lives(order, now_ns);
    flush_all(order);
    return 0;
}

int rg_order_wait_fds(struct rg_order *order, int *ret_fds, unsigned *ret_events, int max)
{
    if (max < 1)
        return 0;
    ret_fds[0] = order->epoll_fd;
    ret_events[0] = EPOLLIN;
    return 1;
}

/* ------------------------------------------------------------ what the progress engine says */

int rg_order_offer(struct rg_order *order, const char *name, const struct rg_signature *sig,
                   const char *error)
{
    struct rg_order_frame frame = { .type = RG_ORDER_OFFER_NEW, .name = name, .sig = *sig,
                                    .text = error ? error : "" };

    if (order->coordinator)
        return rg_decider_offer(order->decider, 0, name, sig, error);
    if (!error)
        frame.id = rg_known_number(order->known, name, sig);
    if (frame.id > 0)
        frame.type = RG_ORDER_OFFER;
    return say(order, &order->peers[0], &frame);
}

int rg_order_offer_join(struct rg_order *order, int last_rank)
{
    struct rg_order_frame frame = { .type = RG_ORDER_JOIN, .rank = (uint32_t) last_rank };

    return order->coordinator ? rg_decider_join(order->decider, 0, last_rank)
                              : say(order, &order->peers[0], &frame);
}

void rg_order_tune(struct rg_order *order, const struct rg_tuning *tuning)
{
    if (order->coordinator)
        rg_decider_tune(order->decider, tuning);
}

void rg_order_announce_death(struct rg_order *order, int rank, const char *text)
{
    struct rg_order_frame frame = { .type = RG_ORDER_DIED, .rank = (uint32_t) rank, .text = text };

    say_all(order, &frame, NULL);
    flush_all(order);
}

void rg_order_announce_shutdown(struct rg_order *order, int rank)
{
    struct rg_order_frame frame = { .type = RG_ORDER_SHUTDOWN, .rank = (uint32_t) rank };

    if (order->coordinator)
        rg_decider_shutdown(order->decider, rank);
    else
        say(order, &order->peers[0], &frame);
}

void rg_order_stall_query(struct rg_order *order)
{
    struct rg_order_frame frame = { .type = RG_ORDER_STALL_QUERY };

    if (order->coordinator)
        say_all(order, &frame, NULL);
}

int rg_order_missing(struct rg_order *order, const char *name, int *ret_nodes, int max)
{
    return order->coordinator ? rg_decider_missing(order->decider, name, ret_nodes, max) : 0;
}

void rg_order_blocked(struct rg_order *order, bool blocked)
{
    struct rg_order_frame frame = { .type = RG_ORDER_BLOCKED, .flags = blocked };

    if (order->coordinator)
        rg_decider_blocked(order->decider, 0, blocked);
    else if (blocked != order->blocked)
        say(order, &order->peers[0], &frame);
    order->blocked = blocked;
}

bool rg_order_crossed(struct rg_order *order, uint64_t before_ns, struct rg_error *err)
{
    return order->coordinator && rg_decider_crossed(order->decider, before_ns, err);
}

void rg_order_stall_reply(struct rg_order *order, const char *text)
{
    struct rg_order_frame frame = { .type = RG_ORDER_STALL_REPLY, .text = text };

    if (!order->coordinator)
        say(order, &order->peers[0], &frame);
}

/* ------------------------------------------------------------ life */

static int add_peer(struct rg_order *order, struct peer *peer, int fd, int node)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = peer };

    *peer = (struct peer) { .fd = fd, .node = node, .rank = order->team->leaders[node] };
    peer->pidfd = rg_pidfd_open(order->team->peers[peer->rank].pid);
    peer->heard_ns = peer->said_ns = rg_now_ns();
    rg_sock_tune_tcp(fd);
    return epoll_ctl(order->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int name_missing(struct rg_order *order, int r, struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    for (int i = 1; i < order->npeers; i++)
        if (order->peers[i].fd < 0)
            rg_buf_printf(&text, "%s%d on %s", rg_buf_nbytes(&text) ? ", " : "",
                          rg_team_world_rank(order->team, order->team->leaders[i]),
                          order->team->peers[order->team->leaders[i]].host);
    return rg_error_set(err, -r, "these ranks did not connect to rank %d at %s in time: %s; does "
                        "a firewall forbid it? REIGEN_NETWORK_INTERFACE chooses the network",
                        rg_team_world_rank(order->team, order->team->rank),
                        order->team->address, rg_buf_text(&text));
}

static int count_missing(const struct rg_order *order)
{
    int n = 0;

    for (int i = 1; i < order->npeers; i++)
        n += order->peers[i].fd < 0 && !order->peers[i].goodbye;
    return n;
}

/* Take a leader in that has dialled. 1: one came, 0: none is there, or -errno. */
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
    /* A leader that dials again has given its first socket up. */
    close_peer(&order->peers[node]);
    int r = add_peer(order, &order->peers[node], fd, node);

    return r < 0 ? r : 1;
}

/* Those who are here learn why this start fails. */
static int tell_failure(struct rg_order *order, int r, int rank, const struct rg_error *err)
{
    while (order->coordinator && admit(order) == 1)
        ;
    rg_order_announce_death(order, rank < 0 ? order->team->rank : rank, err->text);
    return r;
}

/* Whether a wait for another leader is in vain: then those who are here are told, too. */
static int look_around(struct rg_order *order, struct rg_error *err)
{
    int rank = -1;
    int r = order->events.on_waiting ? order->events.on_waiting(order->events.arg, &rank, err) : 0;

    for (int i = 0; i < order->npeers && r == 0; i++) {
        rank = order->team->leaders[i];
        if ((i > 0 || !order->coordinator) && order->peers[i].fd < 0 &&
            rg_process_ended(order->team->peers[rank].pid))
            r = rg_error_set(err, ECONNRESET, "rank %d on host %s died while the job started",
                             rg_team_world_rank(order->team, rank), order->team->peers[rank].host);
    }
    return r < 0 ? tell_failure(order, r, rank, err) : 0;
}

/* Wait a moment for a leader to come. Those who are here hear meanwhile that we live. */
static int await_leader(struct rg_order *order, uint64_t deadline_ns, struct rg_error *err)
{
    uint64_t until_ns = rg_now_ns() + CHECK_NS;
    bool moved = false;
    int r =
        rg_listener_wait(order->team->listener, until_ns < deadline_ns ? until_ns : deadline_ns);

    if (r == 0)
        return 0;
    if (r != -ETIMEDOUT || rg_now_ns() >= deadline_ns)
        return tell_failure(order, name_missing(order, r, err), -1, err);
    rg_order_progress(order, &moved, err);
    if (order->died.errnum == 0)
        return look_around(order, err);
    *err = order->died;
    return -err->errnum;
}

static int gather(struct rg_order *order, uint64_t deadline_ns, struct rg_error *err)
{
    order->gathering = true;
    while (count_missing(order) > 0) {
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
        uint64_t until_ns = now_ns + CHECK_NS < deadline_ns ? now_ns + CHECK_NS : deadline_ns;
        int r = rg_handshake_finish(handshake, until_ns);

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
        r = add_peer(order, &order->peers[0], fd, 0);
    if (r < 0)
        return rg_error_set(err, -r, "connecting to rank %d on %s at %s: %s%s",
                            rg_team_world_rank(order->team, order->team->leaders[0]),
                            order->team->peers[order->team->leaders[0]].host,
                            order->team->addresses[order->team->leaders[0]],
                            r == -EACCES ? "it has another key" : strerror(-r),
                            r == -ETIMEDOUT || r == -EHOSTUNREACH || r == -ENETUNREACH
                                ? "; does a firewall forbid it? REIGEN_NETWORK_INTERFACE chooses "
                                  "the network" : "");
    return 0;
}

static int allocate(struct rg_order *order, const struct rg_config *config)
{
    struct rg_decider_options options = { .nnodes = order->team->nnodes,
                                          .leaders = order->team->leaders,
                                          .world_ranks = order->team->world_ranks,
                                          .fusion_nbytes = config->fusion_nbytes,
                                          .capacity = config->cache_capacity,
                                          .on_offered = order->events.on_offered,
                                          .arg = order->events.arg };

    order->npeers = order->coordinator ? order->team->nnodes : 1;
    order->peers = calloc((size_t) order->npeers, sizeof(*order->peers));
    if (!order->peers)
        return -ENOMEM;
    for (int i = 0; i < order->npeers; i++)
        order->peers[i].fd = order->peers[i].pidfd = -1;
    order->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (order->epoll_fd < 0)
        return -errno;
    return order->coordinator ? rg_decider_create(&options, &order->decider)
                              : rg_known_create(&order->known);
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
    order->coordinator = team->node == 0;
    order->silence_ns = config->silence_ms * RG_NS_PER_MS;
    order->epoll_fd = -1;
    r = allocate(order, config);
    if (r < 0)
        rg_error_set(err, -r, "%s", strerror(-r));
    else
        r = order->coordinator ? gather(order, deadline_ns, err) : dial(order, deadline_ns, err);
    order->called_ns = order->checked_ns = rg_now_ns();
    if (r < 0) {
        rg_order_destroy(order, 0);
        return r;
    }
    *ret_order = order;
    return 0;
}

/* Until what was said has reached the peer, or the deadline. */
static void drain(struct rg_order *order, struct peer *peer, uint64_t deadline_ns)
{
    flush(order, peer);
    while (peer->fd >= 0 && rg_buf_nbytes(&peer->out) > 0 &&
           rg_fd_wait(peer->fd, POLLOUT, deadline_ns) == 0)
        flush(order, peer);
    if (peer->fd >= 0)
        rg_sock_drain(peer->fd, deadline_ns);
}

void rg_order_destroy(struct rg_order *order, int timeout_ms)
{
    struct rg_order_frame goodbye = { .type = RG_ORDER_GOODBYE }, frame;
    uint64_t deadline_ns =
        rg_now_ns() + (uint64_t) (timeout_ms > 0 ? timeout_ms : 0) * RG_NS_PER_MS;

    if (!order)
        return;
    if (order->peers) {
        while (order->decider && rg_decider_next(order->decider, &frame) > 0)
            say_all(order, &frame, NULL);
        say_all(order, &goodbye, NULL);
        flush_all(order);
    }
    for (int i = 0; order->peers && i < order->npeers; i++) {
        drain(order, &order->peers[i], deadline_ns);
        close_peer(&order->peers[i]);
    }
    if (order->epoll_fd >= 0)
        close(order->epoll_fd);
    rg_decider_destroy(order->decider);
    rg_known_destroy(order->known);
    free(order->peers);
    free(order);
}

void rg_order_after_fork(struct rg_order *order)
{
    for (int i = 0; i < order->npeers; i++) {
        if (order->peers[i].fd >= 0)
            close(order->peers[i].fd);
        if (order->peers[i].pidfd >= 0)
            close(order->peers[i].pidfd);
    }
    close(order->epoll_fd);
}
