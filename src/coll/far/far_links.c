/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in and out of sockets, without a copy where the socket takes them at once. */
#include "coll/far/far_links.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/time.h"
#include "coll/net/sock.h"
#include "coll/team/team.h"

#define PURPOSE_FAR 0x72616672u /* "rfar" */
#define DIALS_MAX 3
/* The longest frame, and many small ones. What is never touched takes no memory. */
#define IN_NBYTES (RG_FAR_NBYTES_MAX + RG_FAR_HEADER_NBYTES + (256u << 10))

void rg_far_link_init(struct rg_far_link *link, int node)
{
    *link = (struct rg_far_link){ .node = node, .socket = RG_SOCKET_INIT, .out = RG_BUF_INIT };
}

/* Nothing goes or comes any more. What the kernel had received, and was not read, is lost: whoever
 * ends in order has sent nothing that is still waited for. */
static void lose(struct rg_far_link *link, int cause)
{
    if (link->lost)
        return;
    rg_links_close(&link->socket);
    link->lost = true;
    link->cause = cause;
    link->lost_ns = rg_now_ns();
    rg_buf_clear(&link->out);
}

/* ------------------------------------------------------------ connecting */

struct rg_links rg_far_links_of(const struct rg_team *team)
{
    return (struct rg_links){ .team = team, .purpose = PURPOSE_FAR, .ndials_max = DIALS_MAX,
                              .carries_data = true };
}

/* 0 or -ENOMEM. */
static int have_room(struct rg_far_link *link)
{
    if (!link->in)
        link->in = malloc(IN_NBYTES);
    return link->in ? 0 : -ENOMEM;
}

int rg_far_link_adopt(struct rg_far_link *link, const struct rg_links *links, int take_fd)
{
    rg_links_close(&link->socket);
    rg_links_adopt(links, &link->socket, take_fd);
    return have_room(link);
}

bool rg_far_link_connect(struct rg_far_link *link, struct rg_links *links)
{
    bool moved = false;
    int r;

    if (link->lost)
        return false;
    r = rg_links_connect(links, links->team->leaders[link->node], &link->socket, 0, 1, &moved);
    if (r == 1)
        r = have_room(link);
    if (r < 0)
        lose(link, r);
    return moved;
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

void rg_far_link_put(struct rg_far_link *link, const struct rg_far_frame *frame,
                     const void *payload, int *nunsent)
{
    uint8_t *header;

    if (link->lost)
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
    ssize_t n = sendmsg(link->socket.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n >= 0)
        return (size_t) n;
    if (errno != EAGAIN && errno != EINTR)
        lose(link, -errno);
    return 0;
}

void rg_far_link_flush(struct rg_far_link *link)
{
    size_t queued = rg_buf_nbytes(&link->out), sent = 0;

    if (rg_far_link_open(link) && queued) {
        struct iovec iov = { (void *) (uintptr_t) rg_buf_bytes(&link->out), queued };

        rg_buf_consume(&link->out, transmit(link, &iov, 1));
        queued = rg_buf_nbytes(&link->out);
    }
    if (link->nframes == 0)
        return;
    if (rg_far_link_open(link) && queued == 0)
        sent = transmit(link, link->iov, link->niov);
    keep(link, sent);
    if (link->lost)
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

    if (!rg_far_link_open(link))
        return 0;
    make_room(link);
    n = recv(link->socket.fd, link->in + link->in_to, IN_NBYTES - link->in_to, MSG_DONTWAIT);
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
    return !link->lost && rg_buf_nbytes(&link->out) > 0;
}

void rg_far_link_drain(struct rg_far_link *link, struct rg_links *links, uint64_t deadline_ns)
{
    rg_far_link_flush(link);
    while (has_something(link) && rg_now_ns() < deadline_ns) {
        struct pollfd pfd = { link->socket.fd, POLLOUT, 0 };

        if (!rg_far_link_open(link) && !rg_far_link_connect(link, links))
            rg_sleep_ms(1);
        else if (rg_far_link_open(link))
            poll(&pfd, 1, 1);
        rg_far_link_flush(link);
    }
    if (rg_far_link_open(link))
        rg_sock_drain(link->socket.fd, deadline_ns);
}

void rg_far_link_fini(struct rg_far_link *link)
{
    rg_links_close(&link->socket);
    rg_buf_fini(&link->out);
    free(link->in);
    link->in = NULL;
    link->lost = true;
}

int rg_far_link_tell(const struct rg_far_link *link, const struct rg_team *team,
                     struct rg_error *err)
{
    if (link->cause == -ENOMEM)
        return rg_error_set(err, ENOMEM, "out of memory");
    return rg_links_tell(team, team->leaders[link->node], link->cause, err);
}
