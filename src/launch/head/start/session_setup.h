/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host's agent and ranks are to be: SETUP and RANK messages.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_START_SESSION_SETUP_H
#define RG_LAUNCH_HEAD_START_SESSION_SETUP_H

#include "launch/head/core/session_core.h"

/* 0; or -errno with err: -EINVAL when --env or --share-env name a variable that is not there. */
int session_setup_create(struct rg_session *session, struct rg_error *err);
void session_setup_destroy(struct rg_session *session);

/* SETUP and RANKs for a host that has said HELLO. The network that all hosts reach each other by,
 * and this host's interface in it, are "" when they are not known. */
void session_send_setup(struct session_host *host, const char *network, const char *interface);
/* Rows and columns of rank 0's terminal. */
void session_resize(struct rg_session *session, int rows, int columns);

#endif
