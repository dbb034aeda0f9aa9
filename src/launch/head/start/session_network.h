/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which network connects the hosts: from the last HELLO to SETUP.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_START_SESSION_NETWORK_H
#define RG_LAUNCH_HEAD_START_SESSION_NETWORK_H

#include "launch/head/core/session_core.h"

int session_network_create(struct rg_session *session); /* 0 or -ENOMEM */
void session_network_destroy(struct rg_session *session);

/* Keep what is needed of a HELLO. */
void session_keep_hello(struct session_host *host, struct rg_msg_hello *take_hello);
/* When all hosts have said HELLO: let them find out which network connects them, send SETUP, and go
 * on as session_set_up; or end the job with the reason. One host needs no round trip for it. */
void session_find_network(struct rg_session *session);
/* 0, or -EBADMSG: the agent broke the rules. */
int session_on_listening(struct session_host *host, const struct rg_msg_listening *msg);
int session_on_probed(struct session_host *host, const struct rg_msg_probed *msg);
/* Send PING, whose answers prove that a host lives. */
void session_ping(struct session_host *host);
void session_on_pong(struct session_host *host);
/* All hosts have SETUP, and the bundle where they want it: go on. Else nothing happens. */
void session_set_up(struct rg_session *session);
/* SETUP was sent to all. */
bool session_network_is_done(const struct rg_session *session);

#endif
