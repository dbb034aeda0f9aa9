/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in and out of sockets, without a copy where the socket takes them at once. */
#include "coll/far/far_links.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/time.h"
#include "coll/net/listener.h"
#include "coll/net/sock.h"

#define PURPOSE_FAR 0x72616672u /* "rfar" */
#define DIALS_MAX 3
/* The longest frame, and many small ones. What is never touched takes no memory. */
#define IN_NBYTES (RG_FAR_NBYTES_MAX + RG_FAR_HEADER_NBYTES + (256u << 10))

void rg_far_link_init(struct rg_far_link *link, int node)
{
    *link = (struct rg_far_link){ .node = node, .fd = -1, .out = RG_BUF_INIT };
}

static void end_handshake(struct rg_far_link *link)
{
    if (link->handshake)
        rg_handshake_fini(link->handshake);
    free(link->handshake);
    link->handshake = NULL;
}

static void close_fd(struct rg_far_link *link)
{
    end_handshake(link);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}

/* Nothing goes or comes any more. What the kernel had received, and was not read, is lost: whoever
 * ends in order has sent nothing that is still waited for. */
static void lose(struct rg_far_link *link, int cause)
{
    if (link->state == RG_FAR_LOST)
        return;
    close_fd(link);
    link->state = RG_FAR_LOST;
    link->cause = cause;
    link->lost_ns = rg_now_ns();
    rg_buf_clear(&link->out);
}

static int opened(struct rg_far_link *link, const struct rg_team *team)
{
    if (!link->in)
        link->in = malloc(IN_NBYTES);
    if (!link->in)
        return -ENOMEM;
    link->state = RG_FAR_OPEN;
    link->waits_for_listener = false;
    rg_sock_tune_tcp(link->fd);
    if (!team->between.keeps_congestion)
        rg_sock_leave_bbr(link->fd);
    return 0;
}

int rg_far_link_adopt(struct rg_far_link *link, const struct rg_team *team, int take_fd)
{
    close_fd(link);
    link->fd = take_fd;
    return opened(link, team);
}

/* ------------------------------------------------------------ connecting */

static int dial(struct rg_far_link *link, const struct rg_team *team)
{
    int rank = team->leaders[link->node];
    struct rg_sockaddr address;
    int r;

    if (!team->addresses || rg_sock_parse(team->addresses[rank], &address) < 0)
        return -EINVAL;
    link->handshake = calloc(1, sizeof(*link->handshake));
    r = link->handshake ? rg_sock_connect_tcp(&address, &link->fd) : -ENOMEM;
    if (r == 0)
        r = rg_handshake_dial(link->handshake, link->fd, team->data_key, PURPOSE_FAR, team->rank,
                              rank);
    if (r == 0)
        link->state = RG_FAR_DIALLING;
    link->ndials++;
    return r;
}

/* The listener drops who is silent for long: a rank that was stopped in the middle handshakes
 * again. */
static bool go_on_dialling(struct rg_far_link *link, const struct rg_team *team)
{
    int r = rg_handshake_step(link->handshake);
    bool again = (r == -EPIPE || r == -ECONNRESET) && link->ndials < DIALS_MAX;

    if (r == 0)
        return false;
    if (r < 0) {
        close_fd(link);
        link->state = RG_FAR_NONE;
        if (!again)
            lose(link, r);
        return true;
    }
    end_handshake(link);
    r = opened(link, team);
    if (r < 0)
        lose(link, r);
    return true;
}

bool rg_far_link_connect(struct rg_far_link *link, const struct rg_team *team)
{
    int rank = team->leaders[link->node], r = 0;
    bool moved = false;

    if (link->state == RG_FAR_OPEN || link->state == RG_FAR_LOST)
        return false;
    if (team->rank < rank) {
        if (link->state == RG_FAR_NONE)
            r = dial(link, team);
        if (r < 0)
            lose(link, r);
        return r < 0 || go_on_dialling(link, team);
    }
    moved = rg_listener_progress(team->listener);
    link->fd = rg_listener_claim(team->listener, PURPOSE_FAR, rank);
    link->waits_for_listener = link->fd < 0;
    if (link->fd < 0)
        return moved;
    r = opened(link, team);
    if (r < 0)
        lose(link, r);
    return true;
}

/* ------------------------------------------------------------ sending */

static void put_header(uint8_t to[RG_FAR_HEADER_NBYTES], const struct rg_far_frame *frame)
{
    const uint32_t words[3] = { htole32(frame->id), htole32(frame->seq), htole32(frame->nbytes) };

    memcpy(to, words, sizeof(words));
    to[12] = frame->level;
    to[13] = frame->round;
    to[14] = to[15] = 0;
}

static bool sends_nothing(const struct rg_far_link *link)
{
    return link->state == RG_FAR_LOST;
}

void rg_far_link_put(struct rg_far_link *link, const struct rg_far_frame *frame,
                     const void *payload, int *nunsent)
{
    uint8_t *header;

    if (sends_nothing(link))
        return;
    if (link->nframes == RG_FAR_BATCH)
        rg_far_link_flush(link);
    header = link->headers[link->nframes];
    put_header(header, frame);
    link->iov[link->niov++] = (struct iovec){ header, RG_FAR_HEADER_NBYTES };
    if (frame->nbytes)
        link->iov[link->niov++] = (struct iovec){ (void *) (uintptr_t) payload, frame->nbytes };
    link->nunsent[link->nframes++] = nunsent;
    ++*nunsent;
}

/* What is left of the frames behind the first nbytes is copied. */
static void keep(struct rg_far_link *link, size_t nbytes)
{
    for (int i = 0; i < link->niov; i++) {
        const struct iovec *iov = &link->iov[i];
        size_t skip = nbytes < iov->iov_len ? nbytes : iov->iov_len;

        rg_buf_put(&link->out, (const char *) iov->iov_base + skip, iov->iov_len - skip);
        nbytes -= skip;
    }
    for (int i = 0; i < link->nframes; i++)
        --*link->nunsent[i];
    link->nframes = link->niov = 0;
    if (rg_buf_status(&link->out) < 0)
        lose(link, rg_buf_status(&link->out));
}

/* How many bytes the socket takes. */
static size_t transmit(struct rg_far_link *link, const struct iovec *iov, int niov)
{
    struct msghdr message = { .msg_iov = (struct iovec *) (uintptr_t) iov,
                              .msg_iovlen = (size_t) niov };
    ssize_t n = sendmsg(link->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n >= 0)
        return (size_t) n;
    if (errno != EAGAIN && errno != EINTR)
        lose(link, -errno);
    return 0;
}

void rg_far_link_flush(struct rg_far_link *link)
{
    size_t queued = rg_buf_nbytes(&link->out), sent = 0;

    if (link->state == RG_FAR_OPEN && queued) {
        struct iovec iov = { (void *) (uintptr_t) rg_buf_bytes(&link->out), queued };

        rg_buf_consume(&link->out, transmit(link, &iov, 1));
        queued = rg_buf_nbytes(&link->out);
    }
    if (link->nframes == 0)
        return;
    if (link->state == RG_FAR_OPEN && queued == 0)
        sent = transmit(link, link->iov, link->niov);
    keep(link, sent);
    if (link->state == RG_FAR_LOST)
        rg_buf_clear(&link->out);
}

/* ------------------------------------------------------------ receiving */

static struct rg_far_frame get_header(const uint8_t *at)
{
    uint32_t words[3];

    memcpy(words, at, sizeof(words));
    return (struct rg_far_frame){ .id = le32toh(words[0]), .seq = le32toh(words[1]),
                                  .nbytes = le32toh(words[2]), .level = at[12],
                                  .round = at[13] };
}

/* From the first byte of the next frame to its last; of its header where that is not here. */
static size_t next_nbytes(const struct rg_far_link *link)
{
    struct rg_far_frame frame;

    if (link->in_to - link->in_from < RG_FAR_HEADER_NBYTES)
        return RG_FAR_HEADER_NBYTES;
    frame = get_header(link->in + link->in_from);
    return RG_FAR_HEADER_NBYTES + frame.nbytes;
}

/* What has come of a frame moves to the beginning only when the rest would find no room. */
static void make_room(struct rg_far_link *link)
{
    size_t have = link->in_to - link->in_from;

    if (have > 0 && link->in_from + next_nbytes(link) <= IN_NBYTES)
        return;
    memmove(link->in, link->in + link->in_from, have);
    link->in_from = 0;
    link->in_to = have;
}

size_t rg_far_link_receive(struct rg_far_link *link)
{
    ssize_t n;

    if (link->state != RG_FAR_OPEN)
        return 0;
    make_room(link);
    n = recv(link->fd, link->in + link->in_to, IN_NBYTES - link->in_to, MSG_DONTWAIT);
    if (n == 0)
        lose(link, -EPIPE);
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        lose(link, -errno);
    if (n <= 0)
        return 0;
    link->in_to += (size_t) n;
    return (size_t) n;
}

int rg_far_link_next(struct rg_far_link *link, struct rg_far_frame *ret_frame,
                     const uint8_t **ret_payload)
{
    const uint8_t *at = link->in + link->in_from;
    size_t have = link->in_to - link->in_from;

    if (have < RG_FAR_HEADER_NBYTES)
        return 0;
    *ret_frame = get_header(at);
    if (ret_frame->nbytes > RG_FAR_NBYTES_MAX || ret_frame->id >= RG_FAR_IDS_MAX || at[14] ||
        at[15])
        return -EPROTO;
    if (have < RG_FAR_HEADER_NBYTES + ret_frame->nbytes)
        return 0;
    *ret_payload = at + RG_FAR_HEADER_NBYTES;
    link->in_from += RG_FAR_HEADER_NBYTES + ret_frame->nbytes;
    return 1;
}

/* ------------------------------------------------------------ the end */

static bool has_something(const struct rg_far_link *link)
{
    return link->state != RG_FAR_LOST && rg_buf_nbytes(&link->out) > 0;
}

void rg_far_link_drain(struct rg_far_link *link, const struct rg_team *team, uint64_t deadline_ns)
{
    rg_far_link_flush(link);
    while (has_something(link) && rg_now_ns() < deadline_ns) {
        struct pollfd pfd = { link->fd, POLLOUT, 0 };

        if (link->state != RG_FAR_OPEN && !rg_far_link_connect(link, team))
            rg_sleep_ms(1);
        else if (link->state == RG_FAR_OPEN)
            poll(&pfd, 1, 1);
        rg_far_link_flush(link);
    }
    if (link->state == RG_FAR_OPEN)
        rg_sock_drain(link->fd, deadline_ns);
}

void rg_far_link_fini(struct rg_far_link *link)
{
    close_fd(link);
    rg_buf_fini(&link->out);
    free(link->in);
    link->in = NULL;
    link->state = RG_FAR_LOST;
}

int rg_far_link_tell(const struct rg_far_link *link, const struct rg_team *team,
                     struct rg_error *err)
{
    int rank = team->leaders[link->node];
    int shown = rg_team_world_rank(team, rank);
    const char *host = team->peers[rank].host;

    if (link->cause == -EACCES)
        return rg_error_set(err, EACCES, "rank %d on %s has another key", shown, host);
    if (link->cause == -ENOMEM)
        return rg_error_set(err, ENOMEM, "out of memory");
    return rg_error_set(err, ECONNRESET, "the connection to rank %d on %s is lost: %s", shown, host,
                        link->cause == -EPIPE ? "it was closed" : strerror(-link->cause));
}
