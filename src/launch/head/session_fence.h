/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of all hosts meet here, by way of their agents.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_SESSION_FENCE_H
#define RG_LAUNCH_HEAD_SESSION_FENCE_H

#include "launch/head/core/session_core.h"

int session_fences_create(struct rg_session *session); /* 0 or -ENOMEM */
void session_fences_destroy(struct rg_session *session);

void session_on_fence(struct session_host *host, const struct rg_msg_fence *msg);
/* A rank has ended, and how: whoever waits for it in a fence is told so. */
void session_fence_rank_ended(struct rg_session *session, int rank, const char *how);
/* The host's link takes more of the answer again. */
void session_fence_go_on(struct session_host *host);
/* The ranks have met: their runtimes hear of deaths. */
bool session_have_met(const struct rg_session *session);

#endif
