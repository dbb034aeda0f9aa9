/* SPDX-License-Identifier: Apache-2.0 */
/* The tcp plane: its life, and the working off of transfers; tcp_op.h tells how it works. */
#include <endian.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/net/listener.h"
#include "coll/planes/common.h"
#include "coll/planes/plane.h"
#include "coll/planes/tcp/tcp_link.h"
#include "coll/planes/tcp/tcp_op.h"
#include "coll/team/team.h"

#define PURPOSE_ALL 0x6c6c6174u     /* "tall" */
#define PURPOSE_SOME 0x656d6f73u    /* "some" */
#define TURNS_MAX 64                /* of both lists in one progress call */
#define SCORE 100
#define PIECES_MAX 64               /* of memory that go to the kernel at once */
#define MUCH_NBYTES (4u << 20)      /* an operation of so many shows how quick the network is */

/* Little-endian. */
struct header {
    uint32_t number; /* of the operation */
    uint8_t kind, dtype;
    uint8_t algorithm, log2_chunk;
    uint64_t nbytes; /* of the whole operation */
};

_Static_assert(sizeof(struct header) == 16, "no gaps");

struct sending {
    size_t ndone;
    bool have;               /* a transfer in hand: */
    struct rg_tcp_send now;
    size_t nbytes;           /* of it that have gone, header included */
};

struct receiving {
    size_t ndone;
    bool have;
    struct rg_tcp_recv now;
    bool complete;           /* its bytes are here, its reduction may be to come */
    size_t nbytes;
    struct header header;
    uint64_t since_ns;       /* when all that had come was taken, and more was due; 0: not yet */
    uint64_t since_nbytes;   /* that have come since then, and so at the network's rate */
};

struct tcp {
    struct rg_tcp_links links;
    struct rg_tcp_way way;
    struct rg_tcp_op op;
    bool active, dead;
    bool surveys;            /* op is a survey, next comes after it */
    struct rg_coll *next;    /* owned */
    int nnext;
    size_t next_capacity;
    uint64_t rate;           /* bytes per second that have come in an operation, the most so far */
    struct rg_tcp_way shown; /* a copy of way as it was last agreed, for whoever asks meanwhile */
    pthread_mutex_t shown_lock;
    struct sending sending;
    struct receiving receiving;
    struct rg_loss loss;     /* of a member's socket */
};

/* ------------------------------------------------------------ headers */

static struct header header_of(const struct rg_tcp_op *op, int from, int to)
{
    return (struct header){ .number = htole32((uint32_t) op->number),
                            .kind = (uint8_t) op->coll.kind,
                            .dtype = op->coll.dtype,
                            .algorithm = (uint8_t) op->algorithm,
                            .log2_chunk = (uint8_t) rg_floor_log2((int) op->chunk_nbytes),
                            .nbytes = htole64(rg_tcp_op_nbytes(op, from, to)) };
}

static int check_header(struct tcp *tcp, int from, struct rg_error *err)
{
    const struct header *came = &tcp->receiving.header;
    const struct header mine = header_of(&tcp->op, from, tcp->links.group.me);

    if (memcmp(came, &mine, sizeof(mine)) == 0)
        return 0;
    return rg_error_set(err, EPROTO, "rank %d sent operation %u (%s of %llu bytes of type %d, "
                        "by %s) "
                        "where this rank is at operation %u (%s of %llu bytes of type %d, "
                        "by %s)",
                        rg_team_world_rank(tcp->links.team, rg_group_rank(&tcp->links.group, from)),
                        le32toh(came->number), rg_coll_name(came->kind),
                        (unsigned long long) le64toh(came->nbytes), came->dtype,
                        rg_algorithm_name((enum rg_algorithm) came->algorithm),
                        le32toh(mine.number), rg_coll_name(mine.kind),
                        (unsigned long long) le64toh(mine.nbytes), mine.dtype,
                        rg_algorithm_name(tcp->op.algorithm));
}

/* ------------------------------------------------------------ moving bytes */

/* A transfer's bytes, its header and then its body, but for the first `done` of them, and at most
 * `most`. How many pieces of memory these are; what there are more of has its turn later. */
static int cut(struct iovec iov[PIECES_MAX], void *head, size_t head_nbytes,
               const struct rg_tcp_place *body, size_t body_nbytes, size_t done, size_t most)
{
    size_t gone = done > head_nbytes ? done - head_nbytes : 0, left = body_nbytes - gone;
    struct rg_tcp_place rest = { body->area, body->offset + gone };
    int n = 0;

    if (done < head_nbytes)
        iov[n++] = (struct iovec) { (char *) head + done, head_nbytes - done };
    /* A stripe is longer than a header. */
    most -= n > 0 ? iov[0].iov_len : 0;
    left = left < most ? left : most;
    return left > 0 ? n + rg_tcp_area_cut(&rest, left, PIECES_MAX - n, iov + n) : n;
}

_Static_assert(RG_TCP_STRIPE_NBYTES > sizeof(struct header), "a header is in one stripe");

/* Where this operation's stream is: at its beginning, unless something of it has gone. */
static uint64_t stream_at(const struct tcp *tcp, const struct rg_tcp_stream *stream)
{
    return stream->op == tcp->op.number ? stream->nbytes : 0;
}

/* The socket that has the next byte from or to the member. */
static int next_socket(const struct tcp *tcp, const struct rg_tcp_stream *stream)
{
    return rg_tcp_socket_of(stream_at(tcp, stream), tcp->links.nsockets);
}

/* Of a transfer of which so many bytes have gone: those of the header, which the stream's first one
 * carries. */
static size_t head_of(const struct tcp *tcp, const struct rg_tcp_stream *stream, size_t gone)
{
    return stream_at(tcp, stream) == gone ? sizeof(struct header) : 0;
}

static void advance(const struct tcp *tcp, struct rg_tcp_stream *stream, size_t nbytes)
{
    stream->nbytes = stream_at(tcp, stream) + nbytes;
    stream->op = tcp->op.number;
}

/* 1: something went; 0: nothing can go now; -errno. */
static int send_bytes(struct tcp *tcp, struct rg_error *err)
{
    const struct rg_tcp_op *op = &tcp->op;
    struct sending *sending = &tcp->sending;
    struct rg_tcp_link *link = &tcp->links.links[sending->now.peer];
    struct header header = header_of(op, op->me, sending->now.peer);
    uint64_t at = stream_at(tcp, &link->sent);
    int nsockets = tcp->links.nsockets;
    size_t head_nbytes = head_of(tcp, &link->sent, sending->nbytes);
    struct iovec iov[PIECES_MAX];
    struct msghdr message = { .msg_iov = iov };

    message.msg_iovlen = (size_t) cut(iov, &header, head_nbytes, &sending->now.from,
                                      sending->now.nbytes, sending->nbytes,
                                      rg_tcp_stripe_left(at, nsockets));
    ssize_t n = sendmsg(link->sockets[rg_tcp_socket_of(at, nsockets)].fd, &message,
                        MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR
                   ? 0 : rg_tcp_lost(&tcp->links, sending->now.peer, -errno, err);
    sending->nbytes += (size_t) n;
    advance(tcp, &link->sent, (size_t) n);
    if (sending->nbytes == head_nbytes + sending->now.nbytes) {
        sending->have = false;
        sending->ndone++;
    }
    return 1;
}

static int progress_send(struct tcp *tcp, bool *moved, struct rg_error *err)
{
    const struct rg_tcp_op *op = &tcp->op;
    struct sending *sending = &tcp->sending;

    if (!sending->have && sending->ndone < op->nsends) {
        op->send_step(op, sending->ndone, &sending->now);
        sending->have = true;
        sending->nbytes = 0;
    }
    if (!sending->have || tcp->receiving.ndone < sending->now.needs)
        return 0;
    if (sending->now.nbytes == 0) {
        sending->have = false;
        sending->ndone++;
        return 1;
    }
    int r = rg_tcp_connect(&tcp->links, sending->now.peer,
                           next_socket(tcp, &tcp->links.links[sending->now.peer].sent), moved, err);

    return r == 1 ? send_bytes(tcp, err) : r;
}

static int recv_bytes(struct tcp *tcp, struct rg_error *err)
{
    struct receiving *receiving = &tcp->receiving;
    struct rg_tcp_link *link = &tcp->links.links[receiving->now.peer];
    uint64_t at = stream_at(tcp, &link->received);
    int nsockets = tcp->links.nsockets;
    size_t head_nbytes = head_of(tcp, &link->received, receiving->nbytes);
    struct rg_tcp_place to = rg_tcp_op_landing(&tcp->op, &receiving->now);
    struct iovec iov[PIECES_MAX];
    struct msghdr message = { .msg_iov = iov };

    message.msg_iovlen = (size_t) cut(iov, &receiving->header, head_nbytes, &to,
                                      receiving->now.nbytes, receiving->nbytes,
                                      rg_tcp_stripe_left(at, nsockets));
    ssize_t n = recvmsg(link->sockets[rg_tcp_socket_of(at, nsockets)].fd, &message, MSG_DONTWAIT);

    if (n == 0)
        return rg_tcp_lost(&tcp->links, receiving->now.peer, -EPIPE, err);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return rg_tcp_lost(&tcp->links, receiving->now.peer, -errno, err);
    if (n < 0) {
        if (at > 0 && !receiving->since_ns)
            receiving->since_ns = rg_now_ns();
        return 0;
    }
    bool head_was_missing = receiving->nbytes < head_nbytes;

    receiving->nbytes += (size_t) n;
    receiving->since_nbytes += receiving->since_ns ? (size_t) n : 0;
    advance(tcp, &link->received, (size_t) n);
    if (head_was_missing && receiving->nbytes >= head_nbytes) {
        int r = check_header(tcp, receiving->now.peer, err);

        if (r < 0)
            return r;
    }
    receiving->complete = receiving->nbytes == head_nbytes + receiving->now.nbytes;
    return 1;
}

static int progress_recv(struct tcp *tcp, bool *moved, struct rg_error *err)
{
    struct rg_tcp_op *op = &tcp->op;
    struct receiving *receiving = &tcp->receiving;

    if (!receiving->have && receiving->ndone < op->nrecvs) {
        op->recv_step(op, receiving->ndone, &receiving->now);
        receiving->have = true;
        receiving->complete = receiving->now.nbytes == 0;
        receiving->nbytes = 0;
    }
    if (!receiving->have)
        return 0;
    if (receiving->complete) {
        if (tcp->sending.ndone < receiving->now.needs)
            return 0;
        rg_tcp_op_reduce(op, &receiving->now);
        receiving->have = false;
        receiving->ndone++;
        return 1;
    }
    int r = rg_tcp_connect(&tcp->links, receiving->now.peer,
                           next_socket(tcp, &tcp->links.links[receiving->now.peer].received), moved,
                           err);

    return r == 1 ? recv_bytes(tcp, err) : r;
}

/* ------------------------------------------------------------ the plane's functions */

static int open_tcp(const struct rg_plane_options *options, void **ret_state,
                    struct rg_error *err)
{
    uint32_t purpose = options->group.scope == RG_SCOPE_ALL ? PURPOSE_ALL : PURPOSE_SOME;
    struct tcp *tcp = calloc(1, sizeof(*tcp));

    if (!tcp || rg_tcp_links_open(&tcp->links, options, purpose) < 0) {
        free(tcp);
        return rg_error_set(err, ENOMEM, "out of memory");
    }
    rg_tcp_way_init(&tcp->way, options);
    tcp->shown = tcp->way;
    pthread_mutex_init(&tcp->shown_lock, NULL);
    *ret_state = tcp;
    return 0;
}

static int score(const void *state, const struct rg_plane_task *task)
{
    (void) state, (void) task;
    return SCORE;
}

static uint8_t direct_way(void *state, size_t nbytes, uint64_t round_trip_ns)
{
    struct tcp *tcp = state;

    if (tcp->way.round_trip_ns != round_trip_ns) {
        tcp->way.round_trip_ns = round_trip_ns;
        pthread_mutex_lock(&tcp->shown_lock);
        tcp->shown.round_trip_ns = round_trip_ns;
        pthread_mutex_unlock(&tcp->shown_lock);
    }
    return rg_tcp_way_direct(&tcp->way, nbytes, round_trip_ns);
}

static int begin(struct tcp *tcp, const struct rg_coll *colls, int n, struct rg_tcp_way *way)
{
    int r = rg_tcp_op_begin(&tcp->op, colls, n, way, tcp->links.group.nmembers,
                            tcp->links.group.me);

    tcp->active = r == 0;
    tcp->links.nsockets = way->nsockets;
    tcp->sending = (struct sending){ 0 };
    tcp->receiving = (struct receiving){ 0 };
    return r;
}

/* Keep these for after the survey. */
static int keep_next(struct tcp *tcp, const struct rg_coll *colls, int n)
{
    if (rg_grow(&tcp->next, &tcp->next_capacity, (size_t) n) < 0)
        return -ENOMEM;
    memcpy(tcp->next, colls, (size_t) n * sizeof(*colls));
    tcp->nnext = n;
    return 0;
}

static int post_fused(void *state, const struct rg_coll *colls, int n)
{
    struct tcp *tcp = state;

    if (tcp->dead)
        return -ECONNRESET;
    tcp->surveys = rg_tcp_way_due(&tcp->way);
    if (tcp->surveys) {
        uint64_t round_trip_ns, rate;
        struct rg_tcp_way way;
        struct rg_coll survey;
        int r = keep_next(tcp, colls, n);

        if (r < 0)
            return r;
        rg_tcp_look(&tcp->links, &round_trip_ns, &rate);
        rate = rate > tcp->rate ? rate : tcp->rate;
        survey = rg_tcp_way_survey(&tcp->way, round_trip_ns, rate, &way);
        return begin(tcp, &survey, 1, &way);
    }
    return begin(tcp, colls, n, &tcp->way);
}

static int post(void *state, const struct rg_coll *coll)
{
    return post_fused(state, coll, 1);
}

/* People ask from other threads. */
static void show(struct tcp *tcp)
{
    pthread_mutex_lock(&tcp->shown_lock);
    tcp->shown = tcp->way;
    pthread_mutex_unlock(&tcp->shown_lock);
}

/* How quick the network is at least, by an operation that is over. A rank that is kept from its
 * core makes both numbers smaller, so the greatest ones count. */
static void note_rates(struct tcp *tcp)
{
    const struct receiving *receiving = &tcp->receiving;
    uint64_t us = receiving->since_ns ? (rg_now_ns() - receiving->since_ns) / 1000 : 0;
    uint64_t rate = us > 0 ? receiving->since_nbytes * 1000000 / us : 0;

    tcp->rate = rate > tcp->rate ? rate : tcp->rate;
    rg_tcp_note_rates(&tcp->links, tcp->op.number);
}

/* All transfers are done. 1; 0: it was a survey, and the operation itself begins; -errno. */
static int end(struct tcp *tcp, struct rg_error *err)
{
    struct rg_tcp_op *op = &tcp->op;
    int r;

    rg_tcp_op_end(op);
    tcp->active = false;
    if (op->total >= MUCH_NBYTES && !tcp->way.given)
        note_rates(tcp);
    rg_tcp_count_traffic(&tcp->links, rg_now_ns());
    if (!tcp->surveys)
        return 1;
    tcp->surveys = false;
    rg_tcp_way_learn(&tcp->way);
    show(tcp);
    r = begin(tcp, tcp->next, tcp->nnext, &tcp->way);
    return r < 0 ? rg_error_set(err, -r, "out of memory") : 0;
}

static int progress(void *state, bool *ret_moved, struct rg_error *err)
{
    struct tcp *tcp = state;
    struct rg_tcp_op *op = &tcp->op;
    bool moved = true;

    if (tcp->dead)
        return rg_error_set(err, ECONNRESET, "the tcp plane was given up");
    if (!tcp->active)
        return 1;
    if (tcp->loss.at_ns)
        return rg_loss_tell(&tcp->loss, err);
    for (int turn = 0; turn < TURNS_MAX && moved; turn++) {
        moved = tcp->links.waits_for_listener = false;
        struct rg_error cause = RG_ERROR_INIT;
        int s = progress_send(tcp, &moved, &cause);
        int r = s < 0 ? s : progress_recv(tcp, &moved, &cause);

        if (r == -ECONNRESET) {
            tcp->loss.cause = cause;
            tcp->loss.at_ns = rg_now_ns();
            return 0;
        }
        if (r < 0) {
            struct rg_error unheard = RG_ERROR_INIT;

            /* A member whose operation is another one is to hear of this one, too, if it is the one
             * that this rank sends to. Its header may have come with the connection, before
             * anything was sent. */
            if (r == -EPROTO)
                progress_send(tcp, &moved, &unheard);
            if (err)
                *err = cause;
            return r;
        }
        moved |= s > 0 || r > 0;
        if (moved)
            *ret_moved = true;
        if (tcp->sending.ndone == op->nsends && tcp->receiving.ndone == op->nrecvs) {
            *ret_moved = moved = true;
            r = end(tcp, err);
            if (r != 0)
                return r;
        }
    }
    return 0;
}

static int wait_fds(void *state, int *ret_fds, unsigned *ret_events, int max)
{
    struct tcp *tcp = state;
    const struct sending *sending = &tcp->sending;
    const struct receiving *receiving = &tcp->receiving;
    const struct rg_tcp_links *links = &tcp->links;
    int n = 0;

    if (tcp->dead || tcp->loss.at_ns || !tcp->active)
        return 0;
    if (sending->have && receiving->ndone >= sending->now.needs)
        n = rg_tcp_wait_fds(links, sending->now.peer,
                            next_socket(tcp, &links->links[sending->now.peer].sent), EPOLLOUT,
                            ret_fds, ret_events, n, max);
    if (receiving->have && !receiving->complete)
        n = rg_tcp_wait_fds(links, receiving->now.peer,
                            next_socket(tcp, &links->links[receiving->now.peer].received), EPOLLIN,
                            ret_fds, ret_events, n, max);
    if (tcp->links.waits_for_listener)
        n += rg_listener_wait_fds(tcp->links.team->listener, ret_fds + n, ret_events + n, max - n);
    return n;
}

static void abort_tcp(void *state)
{
    struct tcp *tcp = state;

    tcp->dead = true;
    tcp->active = false;
    rg_tcp_disconnect(&tcp->links);
    rg_tcp_op_fini(&tcp->op);
}

static void close_tcp(void *state, int timeout_ms)
{
    struct tcp *tcp = state;

    rg_tcp_drain(&tcp->links,
                 rg_now_ns() + (uint64_t) (timeout_ms > 0 ? timeout_ms : 0) * RG_NS_PER_MS);
    rg_tcp_op_fini(&tcp->op);
    rg_tcp_links_close(&tcp->links);
    pthread_mutex_destroy(&tcp->shown_lock);
    free(tcp->next);
    free(tcp);
}

static void print(void *state, struct rg_buf *text)
{
    struct tcp *tcp = state;
    struct rg_tcp_way way;

    pthread_mutex_lock(&tcp->shown_lock);
    way = tcp->shown;
    pthread_mutex_unlock(&tcp->shown_lock);
    rg_tcp_way_print(&way, text);
}

static void after_fork(void *state)
{
    struct tcp *tcp = state;

    rg_tcp_links_after_fork(&tcp->links);
}

static const struct rg_plane_advice_ops advice = { .direct_way = direct_way };

const struct rg_plane_ops rg_plane_tcp = {
    .name = "tcp",
    .scopes = 1u << RG_SCOPE_LEADERS | 1u << RG_SCOPE_ALL,
    .memories = 1u << RG_MEMORY_HOST,
    .offer = rg_tcp_way_offer,
    .agree = rg_tcp_way_agree,
    .open = open_tcp,
    .score = score,
    .post = post,
    .post_fused = post_fused,
    .progress = progress,
    .wait_fds = wait_fds,
    .abort = abort_tcp,
    .close = close_tcp,
    .after_fork = after_fork,
    .print = print,
    .advice = &advice,
};
