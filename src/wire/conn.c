/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing frames in parts, as sockets give and take them: once for all who poll. */
#include "wire/conn.h"

#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"

#define READ_NBYTES (32u << 10)

static int take_frame(struct rg_conn *conn, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    if (conn->frame_error == 0)
        conn->frame_error = nbytes > conn->ops->frame_max(conn->arg, type)
                                ? -EBADMSG
                                : conn->ops->on_frame(conn->arg, type, payload, nbytes);
    return conn->frame_error;
}

static void on_link_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    take_frame(arg, type, payload, nbytes);
}

int rg_conn_init(struct rg_conn *conn, int take_fd, const struct rg_conn_ops *ops, void *arg,
                 const struct rg_link_options *link_options)
{
    int r = 0;

    *conn = (struct rg_conn) { .fd = take_fd, .ops = ops, .arg = arg };
    if (link_options) {
        struct rg_link_options options = *link_options;

        options.on_frame = on_link_frame;
        options.arg = conn;
        r = rg_link_create(&options, &conn->link);
    }
    if (r < 0)
        rg_conn_fini(conn);
    return r;
}

void rg_conn_fini(struct rg_conn *conn)
{
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    rg_link_destroy(conn->link);
    conn->link = NULL;
    rg_buf_wipe(&conn->in);
    rg_buf_wipe(&conn->out);
}

int rg_conn_send_raw(struct rg_conn *conn, uint16_t type, const void *payload, size_t nbytes)
{
    if (conn->fd < 0)
        return -ENOTCONN;
    if (conn->link)
        return rg_link_send(conn->link, type, payload, nbytes);
    rg_frame_put(&conn->out, type, payload, nbytes);
    return rg_buf_status(&conn->out);
}

int rg_conn_send(struct rg_conn *conn, uint16_t type, const struct rg_field *fields,
                 const void *object)
{
    rg_autobuf struct rg_buf payload = RG_BUF_INIT;

    rg_codec_encode(fields, object, &payload);
    int r = rg_buf_status(&payload);

    if (r == 0)
        r = rg_conn_send_raw(conn, type, rg_buf_bytes(&payload), rg_buf_nbytes(&payload));
    rg_buf_wipe(&payload);
    return r;
}

static const uint8_t *queued(struct rg_conn *conn, size_t *ret_nbytes)
{
    if (conn->link)
        return rg_link_output(conn->link, ret_nbytes);
    *ret_nbytes = rg_buf_nbytes(&conn->out);
    return rg_buf_bytes(&conn->out);
}

size_t rg_conn_pending(struct rg_conn *conn)
{
    size_t nbytes;

    queued(conn, &nbytes);
    return nbytes;
}

short rg_conn_events(struct rg_conn *conn)
{
    return (short) (POLLIN | (rg_conn_pending(conn) > 0 ? POLLOUT : 0));
}

static void written(struct rg_conn *conn, size_t nbytes)
{
    if (conn->link)
        rg_link_sent(conn->link, nbytes);
    else
        rg_buf_consume(&conn->out, nbytes);
    if (!conn->link && conn->ops->secret && rg_buf_nbytes(&conn->out) == 0)
        rg_buf_wipe(&conn->out);
}

int rg_conn_flush(struct rg_conn *conn)
{
    size_t nbytes;
    const uint8_t *bytes;

    while (conn->fd >= 0 && (bytes = queued(conn, &nbytes), nbytes > 0)) {
        ssize_t n = send(conn->fd, bytes, nbytes, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n >= 0) {
            written(conn, (size_t) n);
        } else if (errno == EAGAIN || errno == ENOTCONN) {
            return 0;
        } else if (errno != EINTR) {
            int r = -errno;

            written(conn, nbytes);
            return r;
        }
    }
    return 0;
}

/* Hand over the frames that are whole. */
static int take_frames(struct rg_conn *conn)
{
    struct rg_frame frame;

    while (conn->frame_error == 0 && rg_frame_peek(&conn->in, &frame)) {
        if (frame.nbytes > conn->ops->frame_max(conn->arg, frame.type))
            conn->frame_error = -EBADMSG;
        else if (!frame.payload)
            return 0;
        else if (take_frame(conn, frame.type, frame.payload, frame.nbytes) == 0)
            rg_frame_drop(&conn->in, &frame);
    }
    if (conn->ops->secret && rg_buf_nbytes(&conn->in) == 0)
        rg_buf_wipe(&conn->in);
    return conn->frame_error;
}

/* 1: something was read and taken, and there may be more; 0: all is read. */
static int receive_once(struct rg_conn *conn, struct rg_error *err)
{
    uint8_t sealed[READ_NBYTES];
    uint8_t *to = conn->link ? sealed : rg_buf_reserve(&conn->in, READ_NBYTES);
    ssize_t n = to ? recv(conn->fd, to, READ_NBYTES, MSG_DONTWAIT) : 0;
    int r;

    if (!to)
        return -ENOMEM;
    if (n < 0)
        return errno == EINTR ? 1 : errno == EAGAIN || errno == ENOTCONN ? 0 : -errno;
    if (n == 0)
        return -EPIPE;
    if (conn->link) {
        r = rg_link_receive(conn->link, sealed, (size_t) n, err);
        r = r < 0 ? r : conn->frame_error;
    } else {
        rg_buf_commit(&conn->in, (size_t) n);
        r = take_frames(conn);
    }
    return r < 0 ? r : n == READ_NBYTES;
}

int rg_conn_receive(struct rg_conn *conn, int nreads, struct rg_error *err)
{
    int r = conn->frame_error < 0 ? conn->frame_error : 1;

    while (r > 0 && nreads-- > 0)
        r = receive_once(conn, err);
    if (r < 0 && err && err->errnum == 0)
        rg_error_set(err, -r, "%s", r == -EPIPE ? "the connection was closed" : strerror(-r));
    return r < 0 ? r : 0;
}

int rg_conn_pump(struct rg_conn *conn, struct rg_error *err)
{
    /* What the peer said before it closed is read even where nothing can be sent any more. */
    int unsent = rg_conn_flush(conn), r = rg_conn_receive(conn, INT_MAX, err);

    if (r == 0)
        r = unsent < 0 ? unsent : rg_conn_flush(conn);
    if (r < 0 && err && err->errnum == 0)
        rg_error_set(err, -r, "%s", strerror(-r));
    return r;
}

void rg_conn_drain(struct rg_conn *conn, uint64_t deadline_ns)
{
    while (conn->fd >= 0 && rg_conn_flush(conn) == 0 && rg_conn_pending(conn) > 0)
        if (rg_fd_wait(conn->fd, POLLOUT, deadline_ns) < 0)
            return;
}
