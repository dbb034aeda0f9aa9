/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/net/conn.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/time.h"
#include "coll/net/sock.h"
#include "wire/rankmsg.h"

#define HEAD_NBYTES 6
#define READ_NBYTES 16384

static void on_link_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct rg_conn *conn = arg;

    if (conn->frame_error == 0)
        conn->frame_error = nbytes > RG_RANKMSG_PAYLOAD_MAX
                                ? -EBADMSG
                                : conn->on_frame(conn->arg, type, payload, nbytes);
}

int rg_conn_init(struct rg_conn *conn, int take_fd, const struct rg_link_options *link_options)
{
    int r = 0;

    *conn = (struct rg_conn) { .fd = take_fd };
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
    rg_buf_wipe(&conn->in); /* one of the messages holds a key */
    rg_buf_wipe(&conn->out);
}

int rg_conn_send_raw(struct rg_conn *conn, uint16_t type, const void *payload, size_t nbytes)
{
    if (conn->fd < 0)
        return -ENOTCONN;
    if (nbytes > RG_RANKMSG_PAYLOAD_MAX)
        return -EMSGSIZE;
    if (conn->link)
        return rg_link_send(conn->link, type, payload, nbytes);
    rg_buf_put_u32(&conn->out, (uint32_t) nbytes);
    rg_buf_put_u16(&conn->out, type);
    rg_buf_put(&conn->out, payload, nbytes);
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

static const uint8_t *waiting(struct rg_conn *conn, size_t *ret_nbytes)
{
    if (conn->link)
        return rg_link_output(conn->link, ret_nbytes);
    *ret_nbytes = rg_buf_nbytes(&conn->out);
    return rg_buf_bytes(&conn->out);
}

static int flush(struct rg_conn *conn)
{
    for (;;) {
        size_t nbytes;
        const uint8_t *bytes = waiting(conn, &nbytes);

        if (nbytes == 0 && !conn->link)
            rg_buf_wipe(&conn->out);
        if (nbytes == 0)
            return 0;
        ssize_t n = send(conn->fd, bytes, nbytes, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR || errno == ENOTCONN ? 0 : -errno;
        if (conn->link)
            rg_link_sent(conn->link, (size_t) n);
        else
            rg_buf_consume(&conn->out, (size_t) n);
    }
}

/* Cut whole messages out of the plain stream. */
static int parse_plain(struct rg_conn *conn)
{
    while (conn->frame_error == 0 && rg_buf_nbytes(&conn->in) >= HEAD_NBYTES) {
        struct rg_reader head = rg_reader_make(rg_buf_bytes(&conn->in), HEAD_NBYTES);
        uint32_t nbytes = rg_reader_u32(&head);
        uint16_t type = rg_reader_u16(&head);

        if (nbytes > RG_RANKMSG_PAYLOAD_MAX)
            return -EBADMSG;
        if (rg_buf_nbytes(&conn->in) < HEAD_NBYTES + (size_t) nbytes)
            return 0;
        conn->frame_error =
            conn->on_frame(conn->arg, type, rg_buf_bytes(&conn->in) + HEAD_NBYTES, nbytes);
        rg_buf_consume(&conn->in, HEAD_NBYTES + (size_t) nbytes);
    }
    if (rg_buf_nbytes(&conn->in) == 0)
        rg_buf_wipe(&conn->in);
    return conn->frame_error;
}

static int take(struct rg_conn *conn, const uint8_t *bytes, size_t nbytes, struct rg_error *err)
{
    int r;

    if (conn->link) {
        r = rg_link_receive(conn->link, bytes, nbytes, err);
        return r < 0 ? r : conn->frame_error;
    }
    rg_buf_put(&conn->in, bytes, nbytes);
    r = rg_buf_status(&conn->in);
    return r < 0 ? r : parse_plain(conn);
}

int rg_conn_pump(struct rg_conn *conn, struct rg_error *err)
{
    uint8_t bytes[READ_NBYTES];
    /* What the peer said before it closed is read even where nothing can be sent any more. */
    int unsent = flush(conn), r = 0;

    while (r == 0) {
        ssize_t n = recv(conn->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (n == 0)
            r = -EPIPE;
        else if (n < 0 && errno == EINTR)
            continue;
        else if (n < 0)
            r = errno == EAGAIN || errno == ENOTCONN ? 1 : -errno;
        else
            r = take(conn, bytes, (size_t) n, err);
        explicit_bzero(bytes, n > 0 ? (size_t) n : 0);
    }
    if (r > 0)
        r = unsent < 0 ? unsent : flush(conn);
    if (r < 0 && err && err->errnum == 0)
        rg_error_set(err, -r, "%s", r == -EPIPE ? "the connection was closed" : strerror(-r));
    return r;
}

short rg_conn_events(struct rg_conn *conn)
{
    size_t nbytes;

    waiting(conn, &nbytes);
    return (short) (POLLIN | (nbytes > 0 ? POLLOUT : 0));
}

void rg_conn_drain(struct rg_conn *conn, uint64_t deadline_ns)
{
    size_t nbytes;

    while (conn->fd >= 0 && flush(conn) == 0) {
        waiting(conn, &nbytes);
        if (nbytes == 0 || rg_sock_wait(conn->fd, POLLOUT, deadline_ns) < 0)
            return;
    }
}
