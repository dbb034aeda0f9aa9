/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where agents call: a TCP port at which they prove themselves by the job's key and name their
 * place, before the connection becomes a link (docs/protocol.md, "Over srun"; agent/start/dial.h is
 * the other side).
 *
 * Whoever calls is foreign: it gets VISIT_MS, less while others wait, and CONNS_MAX are heard at
 * once, so that a crowd that says nothing keeps no agent out.
 *
 * Ownership: the listener owns its sockets until on_linked. Thread rule: the loop's thread; nothing
 * blocks.
 */
#ifndef RG_LAUNCH_HOST_LISTENER_H
#define RG_LAUNCH_HOST_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/str.h"

struct rg_listener;

struct rg_listener_options {
    struct rg_loop *loop;
    const uint8_t *key; /* the job's, RG_KEY_NBYTES */
    struct rg_ports ports; /* to listen on, the first that is free */
    bool only;          /* where none of them is free, no other will do: --port-range */
    /* An agent has proven itself, and this is what it calls its place. Takes the socket. */
    void (*on_linked)(void *arg, const char *place, int take_fd);
    /* Somebody has called himself so, and has another key: place is a stranger's text, to be
     * compared with, not to be shown. NULL: nobody wants to know. */
    void (*on_refused)(void *arg, const char *place);
    void *arg;
};

/* A socket that listens at one of these ports of all addresses of this host, of IPv6 and of IPv4.
 * It is close-on-exec, does not block, and is the caller's. *ret_port is which; or -errno. */
int rg_listener_socket(const struct rg_ports *ports, int *ret_port);

/* 0; -errno with exit code 69. */
int rg_listener_open(const struct rg_listener_options *options, struct rg_listener **ret_listener,
                     struct rg_error *err);
int rg_listener_port(const struct rg_listener *listener);
/* This computer's addresses with the port, those of IPv4 first, at most RG_LISTENER_ADDRESSES_MAX:
 * ",10.0.0.1:40001,[fd00::1]:40001", for `link dial`. Appended to text. */
#define RG_LISTENER_ADDRESSES_MAX 7 /* with one more they fit into RG_AGENT_BOOT_DIAL_MAX */
void rg_listener_addresses(const struct rg_listener *listener, struct rg_buf *text);
/* No event follows. NULL is fine. */
void rg_listener_close(struct rg_listener *listener);

#endif
