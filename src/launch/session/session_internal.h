/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the session's own files have for each other: hosts' agents, ranks, and where ranks meet.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_SESSION_INTERNAL_H
#define RG_LAUNCH_SESSION_SESSION_INTERNAL_H

#include "launch/session/core/session_core.h"

/* --- one host's agent, its link, its messages, its loss: session_agent.c ---------------------- */

extern const struct rg_driver_events session_driver_events;
void session_host_fini(struct session_host *host);
/* The heartbeat of all hosts, and the time from one to the next. */
void session_tick(void *arg);
uint64_t session_tick_ms(const struct rg_job *job);

/* --- the ranks' starts and ends, as their agents tell of them: session_rank.c ----------------- */

extern const struct session_part session_ranks_part; /* also the facts */

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

/* --- where the ranks of all hosts meet, by way of their agents: the same --------------------- */

extern const struct session_part session_fences_part;

void session_on_fence(struct session_host *host, const struct rg_msg_fence *msg);
/* The host's link takes more of the answer again. */
void session_fence_go_on(void *host);

#endif
