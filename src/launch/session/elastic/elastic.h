/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An elastic job: what happens to its hosts and ranks goes to the membership (launch/membership),
 * which decides, and what it decides is done. In a job that is not elastic none of this is called.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_ELASTIC_H
#define RG_LAUNCH_SESSION_ELASTIC_ELASTIC_H

#include "launch/session/core/session_core.h"

extern const struct session_part session_elastic_part;

/* The driver has started: find out which hosts there are. 0, or -errno with err. */
int session_elastic_begin(struct rg_session *session, struct rg_error *err);
/* Its agent has all that it needs to start ranks. */
void session_elastic_ready(struct session_host *host);
/* Its agent is gone, was never there, or has said BYE, and all of its ranks have ended. */
void session_elastic_lost(struct session_host *host);
/* Its agent was told to stop: it will be gone soon. */
void session_elastic_drain(struct session_host *host);
/* A place's process has ended, and how; the facts say it. */
void session_elastic_rank_ended(struct rg_session *session, int place);
void session_elastic_on_meet(struct session_host *host, const struct rg_msg_meet *msg);
/* Its program can go on with other ranks. */
void session_elastic_on_word(struct session_host *host, int place);

#endif
