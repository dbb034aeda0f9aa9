/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link driven by the event loop over a pair of descriptors (a socket twice, or two pipes).
 *
 * Thread rule: the loop's thread. Nothing blocks. on_close is called once, from the loop, when the
 * peer closed (err->errnum == 0), or on an error (err says which); the channel is then dead and the
 * owner destroys it, inside on_close or later. After rg_channel_destroy no callback comes.
 */
#ifndef RG_WIRE_LOOP_LINK_H
#define RG_WIRE_LOOP_LINK_H

#include "base/loop.h"
#include "wire/link.h"

struct rg_channel;

struct rg_channel_options {
    struct rg_loop *loop;
    int read_fd, write_fd;       /* taken; may be the same; made non-blocking */
    struct rg_link_options link; /* arg is shared by all callbacks */
    void (*on_close)(void *arg, const struct rg_error *err);
    /* the backlog fell below half after being congested; may be NULL */
    void (*on_drain)(void *arg);
};

/* On failure the descriptors are closed. 0, -ENOMEM, -EINVAL, -ENOSYS. */
int rg_channel_create(const struct rg_channel_options *options, struct rg_channel **ret_channel);
void rg_channel_destroy(struct rg_channel *channel); /* closes; NULL is fine */

/* As rg_link_send; the bytes go out at once as far as the descriptor takes them. */
int rg_channel_send(struct rg_channel *channel, uint16_t type, const void *payload, size_t nbytes);
bool rg_channel_congested(const struct rg_channel *channel);
/* As if the line were cut: nothing is read or written until it is called with false. What is sent
 * meanwhile waits, and so does the end of the channel; destroying it is fine. */
void rg_channel_cut(struct rg_channel *channel, bool cut);
bool rg_channel_open(const struct rg_channel *channel);

#endif
