/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection that carries frames (codec.h) over a non-blocking stream socket, in clear (where
 * the peer's user has been checked, or it has proved itself) or inside a Noise link (link.h). All
 * partial reads and writes are done here, and each length is held against its cap before any byte
 * of the payload is kept.
 *
 * The owner polls the descriptor and calls rg_conn_pump; or, where it writes and reads at different
 * times, rg_conn_flush and rg_conn_receive.
 *
 * Thread rule: one thread at a time. Nothing blocks but rg_conn_drain. on_frame may send, and must
 * not end the connection.
 */
#ifndef RG_WIRE_CONN_H
#define RG_WIRE_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "wire/codec.h"
#include "wire/link.h"

struct rg_conn_ops {
    /* A whole frame, borrowed. 0, or -errno: the peer misbehaves and the connection is over. */
    int (*on_frame)(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes);
    /* The longest payload that is taken of this type now; a longer one ends the connection. */
    size_t (*frame_max)(void *arg, uint16_t type);
    /* Keys may be in the frames: their bytes are overwritten as soon as they are through. */
    bool secret;
};

struct rg_conn {
    int fd;               /* owned; -1: closed */
    struct rg_link *link; /* NULL: in clear */
    const struct rg_conn_ops *ops;
    void *arg;
    struct rg_buf in, out; /* of a connection in clear */
    int frame_error;       /* the first frame that was refused */
};

/* Take fd; with link_options (whose on_frame and arg are set here) inside a link. ops stays
 * borrowed. 0, -ENOMEM or -ENOSYS: fd is closed. */
int rg_conn_init(struct rg_conn *conn, int take_fd, const struct rg_conn_ops *ops, void *arg,
                 const struct rg_link_options *link_options);
/* Closes; a connection all zeros but fd -1 is fine. */
void rg_conn_fini(struct rg_conn *conn);
static inline bool rg_conn_alive(const struct rg_conn *conn)
{
    return conn->fd >= 0;
}

/* Queue a frame; of an object, encoded by its table (codec.h). 0, -ENOMEM, -ENOTCONN. */
int rg_conn_send(struct rg_conn *conn, uint16_t type, const struct rg_field *fields,
                 const void *object);
int rg_conn_send_raw(struct rg_conn *conn, uint16_t type, const void *payload, size_t nbytes);
/* Bytes that are queued. */
size_t rg_conn_pending(struct rg_conn *conn);
/* POLLIN, and POLLOUT while something is queued. */
short rg_conn_events(struct rg_conn *conn);

/* Write what the socket takes now. 0; -errno when it takes nothing any more: what was queued is
 * dropped, and what the peer said last may still be there to be read. */
int rg_conn_flush(struct rg_conn *conn);
/* Read what is there, nreads times at most, and call on_frame for each whole frame. 0; -EPIPE: the
 * peer has closed; -EBADMSG: garbage, a frame beyond its cap or a wrong key; -ENOMEM; what on_frame
 * returned; or the socket's error. The owner then ends the connection. err may be NULL. */
int rg_conn_receive(struct rg_conn *conn, int nreads, struct rg_error *err);
/* Flush, receive all that is there, and flush the answers. As rg_conn_receive. */
int rg_conn_pump(struct rg_conn *conn, struct rg_error *err);
/* Flush until all is written, the peer is gone, or the deadline. Blocks. */
void rg_conn_drain(struct rg_conn *conn, uint64_t deadline_ns);

#endif
