/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the session's own files have for each other: hosts' agents, and ranks.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_SESSION_INTERNAL_H
#define RG_LAUNCH_SESSION_SESSION_INTERNAL_H

#include "launch/session/core/session_core.h"

/* --- one host's agent, its link, its messages, its loss: session_agent.c ---------------------- */

extern const struct rg_driver_events session_driver_events;
void session_host_fini(struct session_host *host);
/* The job ends: agents of an elastic one would stay, though none of their ranks is left. */
void session_let_go(struct rg_session *session);
/* The heartbeat of all hosts, and the time from one to the next. */
void session_tick(void *arg);
uint64_t session_tick_ms(const struct rg_job *job);

/* --- the ranks' starts and ends, as their agents tell of them: session_rank.c ----------------- */

void session_on_started(struct session_host *host, const struct rg_msg_started *msg);
void session_on_not_started(struct session_host *host, const struct rg_msg_not_started *msg);
void session_on_exited(struct session_host *host, const struct rg_msg_exited *msg);
void session_on_note(struct session_host *host, const struct rg_msg_note *msg);
/* All ranks of a lost host that have not ended are lost. */
void session_lose_ranks(struct session_host *host);

#endif
