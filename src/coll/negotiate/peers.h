/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connections that one leader keeps to others (wire/conn.h, frames of order_frames.h),
 * and whether those others live. Peers are numbered as the owner likes, and come one by one.
 *
 * A peer is gone when it breaks the protocol; half a second after its socket closed without
 * GOODBYE, as others may know the cause better; when the kernel says that its process has ended,
 * where it is seen from here; else after silence_ns of silence, measured while this process itself
 * was running. Each side says HEARTBEAT when it has said nothing for a second.
 *
 * Thread rule: one thread at a time. Nothing blocks but rg_peers_destroy.
 */
#ifndef RG_COLL_NEGOTIATE_PEERS_H
#define RG_COLL_NEGOTIATE_PEERS_H

#include <sys/types.h>

#include "coll/negotiate/order_frames.h"

#define RG_PEERS_CHECK_NS UINT64_C(250000000) /* between two looks at who lives */

struct rg_peers;

struct rg_peers_ops {
    /* A frame, borrowed; HEARTBEAT does not come here. 0, or -errno: it makes no sense. */
    int (*on_frame)(void *arg, int i, const struct rg_order_frame *frame);
    /* The peer is gone, once; its connection is closed. */
    void (*on_gone)(void *arg, int i, const char *why);
};

/* Room for peers 0 to n - 1. ops stays borrowed. 0 or -errno. */
int rg_peers_create(int n, uint64_t silence_ns, const struct rg_peers_ops *ops, void *arg,
                    struct rg_peers **ret_peers);
/* Tell all that are there GOODBYE, wait until deadline_ns for what was said to reach them, and
 * close. NULL is fine. */
void rg_peers_destroy(struct rg_peers *peers, uint64_t deadline_ns);
/* In a forked child. */
void rg_peers_after_fork(struct rg_peers *peers);

/* The connection to a peer, which replaces one that there was. fd is taken; pid is of its process
 * in our pid name space, or 0. 0 or -errno. */
int rg_peers_add(struct rg_peers *peers, int i, int take_fd, pid_t pid);
/* Whether the peer is connected; whether it has said GOODBYE. */
bool rg_peers_here(const struct rg_peers *peers, int i);
bool rg_peers_left(const struct rg_peers *peers, int i);
/* Since when a peer that is connected has said nothing, not even HEARTBEAT; UINT64_MAX: there is
 * none. */
uint64_t rg_peers_heard_ns(const struct rg_peers *peers, int i);
/* The longest of the least round trips, as rg_sock_round_trip_ns. */
uint64_t rg_peers_round_trip_ns(const struct rg_peers *peers);

/* Queue a frame, for one peer or for all but one (-1: all). Who is not here misses it. 0 or
 * -ENOMEM. */
int rg_peers_say(struct rg_peers *peers, int i, const struct rg_order_frame *frame);
int rg_peers_say_all(struct rg_peers *peers, int but, const struct rg_order_frame *frame);
/* Write what is queued, as far as the sockets take it. */
void rg_peers_flush(struct rg_peers *peers);
/* Receive what has come, and see who is gone. True when there was something. */
bool rg_peers_poll(struct rg_peers *peers);
/* Readable when rg_peers_poll has something to do. */
int rg_peers_fd(const struct rg_peers *peers);

/* How many frames were said and heard, but for HEARTBEAT: for tests and figures. */
struct rg_peers_count {
    uint64_t said, heard;
};
struct rg_peers_count rg_peers_count(const struct rg_peers *peers);

#endif
