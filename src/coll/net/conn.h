/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of the boot: rank messages (wire/rankmsg.h) over a non-blocking socket, either
 * plain (u32 length, u16 type, payload: unix sockets, whose peer's uid has been checked) or inside
 * a Noise link (TCP).
 *
 * Thread rule: one thread at a time. Nothing blocks. on_frame may send, and must not end the
 * connection.
 */
#ifndef RG_COLL_NET_CONN_H
#define RG_COLL_NET_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "wire/codec.h"
#include "wire/link.h"

struct rg_conn {
    int fd;               /* owned; -1: closed */
    struct rg_link *link; /* NULL: plain */
    struct rg_buf in, out;
    /* 0, or -errno: the peer misbehaves and the connection is over. */
    int (*on_frame)(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes);
    void *arg;
    int frame_error; /* on_frame's first refusal */
};

/* Take fd; with link_options (whose on_frame and arg are set here) inside a link. on_frame and arg
 * are set by the caller before the first pump. 0, -ENOMEM or -ENOSYS: fd is closed. */
int rg_conn_init(struct rg_conn *conn, int take_fd, const struct rg_link_options *link_options);
/* Closes; a connection all zeros but fd -1 is fine. */
void rg_conn_fini(struct rg_conn *conn);
static inline bool rg_conn_alive(const struct rg_conn *conn)
{
    return conn->fd >= 0;
}

/* Queue a message encoded by its table (wire/codec.h). 0, -ENOMEM, -EMSGSIZE, -ENOTCONN. */
int rg_conn_send(struct rg_conn *conn, uint16_t type, const struct rg_field *fields,
                 const void *object);
int rg_conn_send_raw(struct rg_conn *conn, uint16_t type, const void *payload, size_t nbytes);
/* Write and read what can be now; calls on_frame for each whole message. 0; -EPIPE closed by the
 * peer, -EBADMSG garbage or a wrong key, or the socket's error: the owner ends it. */
int rg_conn_pump(struct rg_conn *conn, struct rg_error *err);
/* POLLIN, and POLLOUT while something waits to be written. */
short rg_conn_events(struct rg_conn *conn);
/* Pump until all is written, the peer is gone, or the deadline. Blocks. */
void rg_conn_drain(struct rg_conn *conn, uint64_t deadline_ns);

#endif
