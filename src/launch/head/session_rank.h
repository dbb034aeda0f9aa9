/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks' starts and ends, as their agents tell of them.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_SESSION_RANK_H
#define RG_LAUNCH_HEAD_SESSION_RANK_H

#include "launch/head/core/session_core.h"

int session_ranks_create(struct rg_session *session); /* 0 or -ENOMEM; also the facts */
void session_ranks_destroy(struct rg_session *session);

void session_on_started(struct session_host *host, const struct rg_msg_started *msg);
void session_on_not_started(struct session_host *host, const struct rg_msg_not_started *msg);
void session_on_exited(struct session_host *host, const struct rg_msg_exited *msg);
void session_on_note(struct session_host *host, const struct rg_msg_note *msg);
/* All ranks of a lost host that have not ended are lost. */
void session_lose_ranks(struct session_host *host);
/* The ends of its ranks' streams that have not come. */
void session_end_streams(struct session_host *host);
/* Of all ranks, of this host's, it is known how they started. */
bool session_all_started(const struct rg_session *session);
bool session_all_started_on(const struct session_host *host);

#endif
