/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to the job's hosts and ranks goes to the membership (launch/membership), which
 * decides, and what it decides is done. A fixed job is one whose hosts and ranks are all there at
 * the beginning, and which ends by its first failure.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_ELASTIC_H
#define RG_LAUNCH_SESSION_ELASTIC_ELASTIC_H

#include "launch/session/core/session_core.h"

extern const struct session_part session_elastic_part;

/* Find out which hosts there are. Of a fixed job before the driver starts, which tells of them; of
 * an elastic one when it has started, as it is told of each. 0, or -errno with err. */
int session_elastic_begin(struct rg_session *session, struct rg_error *err);
/* The job was stopped for a while (Ctrl-Z), and its clock with it. */
void session_elastic_go_on(struct rg_session *session);
/* Its agent has all that it needs to start ranks. */
void session_elastic_ready(struct session_host *host);
/* The agents of a fixed job have. */
void session_elastic_all_ready(struct rg_session *session);
/* Its agent is gone, was never there, or has said BYE, and all of its ranks have ended. */
void session_elastic_lost(struct session_host *host);
/* Its agent was told to stop: it will be gone soon. */
void session_elastic_drain(struct session_host *host);
/* A rank, or a place's process, has ended, and how; the facts say it. failed: so that the job fails
 * by it, if nobody makes up for it. */
void session_elastic_rank_ended(struct rg_session *session, int rank, bool failed);
void session_elastic_on_meet(struct session_host *host, const struct rg_msg_meet *msg);
/* Its program can go on with other ranks. */
void session_elastic_on_word(struct session_host *host, int place);

#endif
