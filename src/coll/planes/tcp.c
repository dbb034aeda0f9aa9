/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/planes/tcp.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/time.h"
#include "coll/net/listener.h"

#define PURPOSE_ALL 0x6c6c6174u     /* "tall" */
#define PURPOSE_SOME 0x656d6f73u    /* "some" */
#define TURNS_MAX 64                /* of both lists in one progress call */
#define SCORE 100

/* ------------------------------------------------------------ headers */

static void put_header(const struct rg_tcp *tcp, int from, int to, uint8_t *header)
{
    const struct rg_tcp_op *op = &tcp->op;
    uint64_t nbytes = rg_tcp_op_nbytes(op, from, to);
    uint32_t number = (uint32_t) op->number;

    memset(header, 0, RG_TCP_HEADER_NBYTES);
    for (int i = 0; i < 4; i++)
        header[i] = (uint8_t) (number >> (8 * i));
    header[4] = (uint8_t) op->coll.kind;
    header[5] = op->coll.dtype;
    for (int i = 0; i < 8; i++)
        header[8 + i] = (uint8_t) (nbytes >> (8 * i));
}

static uint64_t get_number(const uint8_t *bytes, int nbytes)
{
    uint64_t value = 0;

    for (int i = 0; i < nbytes; i++)
        value |= (uint64_t) bytes[i] << (8 * i);
    return value;
}

static const char *coll_name(int kind)
{
    static const char *const names[] = { "allreduce",  "reduce",    "broadcast",
                                         "allgatherv", "alltoallv", "reducescatterv" };

    return kind >= 0 && kind < (int) rg_array_len(names) ? names[kind] : "?";
}

static int check_header(struct rg_tcp *tcp, int from, struct rg_error *err)
{
    const uint8_t *came = tcp->op.header_in;
    uint8_t expected[RG_TCP_HEADER_NBYTES];

    put_header(tcp, from, tcp->group.me, expected);
    if (memcmp(came, expected, sizeof(expected)) == 0)
        return 0;
    return rg_error_set(err, EPROTO, "rank %d sent operation %llu (%s of %llu bytes of type %d) "
                        "where this rank is at operation %llu (%s of %llu bytes of type %d)",
                        rg_team_world_rank(tcp->team, rg_tcp_rank(tcp, from)),
                        (unsigned long long) get_number(came, 4),
                        coll_name(came[4]), (unsigned long long) get_number(came + 8, 8),
                        came[5], (unsigned long long) get_number(expected, 4),
                        coll_name(expected[4]),
                        (unsigned long long) get_number(expected + 8, 8), expected[5]);
}

/* ------------------------------------------------------------ moving bytes */

/* Up to two pieces of memory, of which the first `done` bytes are behind us. */
static int cut(struct iovec iov[2], void *head, size_t head_nbytes, void *body, size_t body_nbytes,
               size_t done)
{
    int n = 0;

    if (done < head_nbytes)
        iov[n++] = (struct iovec) { (char *) head + done, head_nbytes - done };
    done = done > head_nbytes ? done - head_nbytes : 0;
    if (done < body_nbytes)
        iov[n++] = (struct iovec) { (char *) body + done, body_nbytes - done };
    return n;
}

/* 1: something went; 0: nothing can go now; -errno. */
static int send_bytes(struct rg_tcp *tcp, struct rg_error *err)
{
    struct rg_tcp_op *op = &tcp->op;
    struct rg_tcp_link *link = &tcp->links[op->send.peer];
    size_t head_nbytes = link->sent_op == op->number ? 0 : RG_TCP_HEADER_NBYTES;
    uint8_t header[RG_TCP_HEADER_NBYTES];
    struct iovec iov[2];

    if (head_nbytes > 0)
        put_header(tcp, tcp->group.me, op->send.peer, header);
    struct msghdr message = { .msg_iov = iov };

    message.msg_iovlen = (size_t) cut(iov, header, head_nbytes,
                                      (void *) (uintptr_t) op->send.from, op->send.nbytes,
                                      op->sent);
    ssize_t n = sendmsg(link->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : rg_tcp_lost(tcp, op->send.peer, -errno, err);
    op->sent += (size_t) n;
    if (op->sent == head_nbytes + op->send.nbytes) {
        link->sent_op = op->number;
        op->have_send = false;
        op->sends_done++;
    }
    return 1;
}

static int progress_send(struct rg_tcp *tcp, bool *moved, struct rg_error *err)
{
    struct rg_tcp_op *op = &tcp->op;

    if (!op->have_send && op->sends_done < op->nsends) {
        op->send_step(op, op->sends_done, &op->send);
        op->have_send = true;
        op->sent = 0;
    }
    if (!op->have_send || op->recvs_done < op->send.needs)
        return 0;
    if (op->send.nbytes == 0) {
        op->have_send = false;
        op->sends_done++;
        return 1;
    }
    int r = rg_tcp_connect(tcp, op->send.peer, moved, err);

    return r == 1 ? send_bytes(tcp, err) : r;
}

static int recv_bytes(struct rg_tcp *tcp, struct rg_error *err)
{
    struct rg_tcp_op *op = &tcp->op;
    struct rg_tcp_link *link = &tcp->links[op->recv.peer];
    size_t head_nbytes = link->received_op == op->number ? 0 : RG_TCP_HEADER_NBYTES;
    struct iovec iov[2];
    struct msghdr message = { .msg_iov = iov };

    message.msg_iovlen = (size_t) cut(iov, op->header_in, head_nbytes, op->recv.to,
                                      op->recv.nbytes, op->received);
    ssize_t n = recvmsg(link->fd, &message, MSG_DONTWAIT);

    if (n == 0)
        return rg_tcp_lost(tcp, op->recv.peer, -EPIPE, err);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : rg_tcp_lost(tcp, op->recv.peer, -errno, err);
    bool head_was_missing = op->received < head_nbytes;

    op->received += (size_t) n;
    if (head_was_missing && op->received >= head_nbytes) {
        int r = check_header(tcp, op->recv.peer, err);

        if (r < 0)
            return r;
    }
    if (op->received == head_nbytes + op->recv.nbytes) {
        link->received_op = op->number;
        op->recv_complete = true;
    }
    return 1;
}

static int progress_recv(struct rg_tcp *tcp, bool *moved, struct rg_error *err)
{
    struct rg_tcp_op *op = &tcp->op;

    if (!op->have_recv && op->recvs_done < op->nrecvs) {
        op->recv_step(op, op->recvs_done, &op->recv);
        op->have_recv = true;
        op->recv_complete = op->recv.nbytes == 0;
        op->received = 0;
    }
    if (!op->have_recv)
        return 0;
    if (op->recv_complete) {
        if (op->sends_done < op->recv.needs)
            return 0;
        rg_tcp_op_reduce(op, &op->recv);
        op->have_recv = false;
        op->recvs_done++;
        return 1;
    }
    int r = rg_tcp_connect(tcp, op->recv.peer, moved, err);

    return r == 1 ? recv_bytes(tcp, err) : r;
}

/* ------------------------------------------------------------ the plane's functions */

static size_t region_nbytes(int nmembers)
{
    (void) nmembers;
    return 0;
}

static int open_tcp(const struct rg_plane_options *options, void **ret_state,
                    struct rg_error *err)
{
    struct rg_tcp *tcp = calloc(1, sizeof(*tcp));
    int n = options->group.nmembers;

    if (tcp)
        tcp->links = calloc((size_t) n, sizeof(*tcp->links));
    if (!tcp || !tcp->links) {
        free(tcp);
        return rg_error_set(err, ENOMEM, "out of memory");
    }
    for (int i = 0; i < n; i++)
        tcp->links[i].fd = -1;
    tcp->team = options->team;
    tcp->group = options->group;
    tcp->purpose = options->group.ranks ? PURPOSE_SOME : PURPOSE_ALL;
    *ret_state = tcp;
    return 0;
}

static int score(void *state, enum rg_coll_kind kind, int dtype, size_t nbytes)
{
    (void) state;
    (void) kind;
    (void) dtype;
    (void) nbytes;
    return SCORE;
}

static int post(void *state, const struct rg_coll *coll)
{
    struct rg_tcp *tcp = state;

    if (tcp->dead)
        return -ECONNRESET;
    if (tcp->op.active)
        return -EBUSY;
    return rg_tcp_op_begin(&tcp->op, coll, tcp->group.nmembers, tcp->group.me);
}

static int tell_lost(struct rg_tcp *tcp, struct rg_error *err)
{
    if (rg_now_ns() < tcp->lost_ns + RG_TCP_LAST_WORDS_MS * RG_NS_PER_MS)
        return 0;
    if (err)
        *err = tcp->lost;
    return -ECONNRESET;
}

static int progress(void *state, bool *ret_moved, struct rg_error *err)
{
    struct rg_tcp *tcp = state;
    struct rg_tcp_op *op = &tcp->op;
    bool moved = true;

    if (tcp->dead)
        return rg_error_set(err, ECONNRESET, "the tcp plane was given up");
    if (!op->active)
        return 1;
    if (tcp->lost_ns)
        return tell_lost(tcp, err);
    for (int turn = 0; turn < TURNS_MAX && moved; turn++) {
        moved = tcp->waits_for_listener = false;
        struct rg_error cause = RG_ERROR_INIT;
        int s = progress_send(tcp, &moved, &cause);
        int r = s < 0 ? s : progress_recv(tcp, &moved, &cause);

        if (r == -ECONNRESET) {
            tcp->lost = cause;
            tcp->lost_ns = rg_now_ns();
            return 0;
        }
        if (r < 0) {
            if (err)
                *err = cause;
            return r;
        }
        moved |= s > 0 || r > 0;
        if (moved)
            *ret_moved = true;
        if (op->sends_done == op->nsends && op->recvs_done == op->nrecvs) {
            rg_tcp_op_end(op);
            *ret_moved = true;
            return 1;
        }
    }
    return 0;
}

static int add_fd(const struct rg_tcp_link *link, unsigned events, int *fds, unsigned *all_events,
                  int n, int max)
{
    if (link->state == RG_TCP_DIALLING)
        events = rg_handshake_events(link->handshake) & POLLOUT ? EPOLLOUT : EPOLLIN;
    for (int i = 0; i < n; i++)
        if (fds[i] == link->fd) {
            all_events[i] |= events;
            return n;
        }
    if (link->fd < 0 || n == max)
        return n;
    fds[n] = link->fd;
    all_events[n] = events;
    return n + 1;
}

static int wait_fds(void *state, int *ret_fds, unsigned *ret_events, int max)
{
    struct rg_tcp *tcp = state;
    struct rg_tcp_op *op = &tcp->op;
    int n = 0;

    if (tcp->dead || tcp->lost_ns || !op->active)
        return 0;
    if (op->have_send && op->recvs_done >= op->send.needs)
        n = add_fd(&tcp->links[op->send.peer], EPOLLOUT, ret_fds, ret_events, n, max);
    if (op->have_recv && !op->recv_complete)
        n = add_fd(&tcp->links[op->recv.peer], EPOLLIN, ret_fds, ret_events, n, max);
    if (tcp->waits_for_listener)
        n += rg_listener_wait_fds(tcp->team->listener, ret_fds + n, ret_events + n, max - n);
    return n;
}

static void abort_tcp(void *state)
{
    struct rg_tcp *tcp = state;

    tcp->dead = true;
    for (int i = 0; i < tcp->group.nmembers; i++)
        rg_tcp_disconnect(&tcp->links[i]);
    rg_tcp_op_fini(&tcp->op);
}

static void close_tcp(void *state, int timeout_ms)
{
    struct rg_tcp *tcp = state;

    if (!tcp)
        return;
    rg_tcp_drain(tcp, rg_now_ns() + (uint64_t) (timeout_ms > 0 ? timeout_ms : 0) * RG_NS_PER_MS);
    abort_tcp(tcp);
    free(tcp->links);
    free(tcp);
}

static void after_fork(void *state)
{
    struct rg_tcp *tcp = state;

    for (int i = 0; i < tcp->group.nmembers; i++)
        if (tcp->links[i].fd >= 0)
            close(tcp->links[i].fd);
}

const struct rg_plane_ops rg_plane_tcp = {
    .name = "tcp",
    .region_nbytes = region_nbytes,
    .open = open_tcp,
    .score = score,
    .post = post,
    .progress = progress,
    .wait_fds = wait_fds,
    .abort = abort_tcp,
    .close = close_tcp,
    .after_fork = after_fork,
};
