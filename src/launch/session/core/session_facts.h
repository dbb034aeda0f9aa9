/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of each rank. In an elastic job a rank is a place, and what is known is of the
 * process that was started there last.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_CORE_SESSION_FACTS_H
#define RG_LAUNCH_SESSION_CORE_SESSION_FACTS_H

#include "launch/session/core/session_core.h"

extern const struct session_part session_ranks_part; /* also the facts */

/* It is known how it started. */
bool session_has_started(const struct rg_session *session, int rank);
/* From now on it is. */
void session_count_started(struct rg_session *session, int rank);
/* A fresh process will be started in this place, whose last one has ended or never was. */
void session_renew_rank(struct rg_session *session, int rank);
/* The last note of its runtime about a coming failure; copied. */
void session_note_rank(struct rg_session *session, int rank, const char *text);
/* Where its program says that it is; copied. Whether that is the first word of it. */
bool session_note_place(struct rg_session *session, int rank, const char *text);
/* Call f for those of this host's ranks whose start is known of. */
void session_each_started(struct session_host *host,
                          void (*f)(struct session_host *host, int rank));
/* The ends of its ranks' streams that have not come. */
void session_end_streams(struct session_host *host);
/* Of all ranks, of this host's, it is known how they started. */
bool session_all_started(const struct rg_session *session);
bool session_all_started_on(const struct session_host *host);
/* What failed in the last epoch, and in that place, is the job's failure: nobody made up for it. */
void session_accuse(struct rg_session *session, int place);
/* All ranks have ended: of an elastic job, those that were started. */
bool session_none_runs(const struct rg_session *session);

#endif
