/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a running job's ranks, elastic or not: taken from its hosts, kept
 * (launch/numbers), and given to who asks (session_control.h, session.h).
 *
 * Thread rule: the loop's thread. Nothing blocks.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_SESSION_NUMBERS_H
#define RG_LAUNCH_SESSION_ELASTIC_SESSION_NUMBERS_H

#include "launch/session/core/session_core.h"
#include "wire/numbers.h"

/* Keep them from now on. 0 or -ENOMEM. */
int session_numbers_open(struct rg_session *session);
void session_numbers_close(struct rg_session *session); /* also where it was not opened */

/* A rank of a host tells its own and those of all that share memory with it. They are for people:
 * what is torn, of a rank or an epoch that there is not, or has no room, is left out, and costs
 * neither the host nor the job anything. */
void session_on_numbers(struct session_host *host, const struct rg_rankmsg_numbers *msg);
/* Append the page that begins with this rank, as JSON (launch/numbers/numbers.h). The first one has
 * also which ranks each host has now, in runs of a first rank and a count:
 * "places":[["a",0,4,8,1],["b",4,4]] has ranks 0 to 3 and 8 on a. None has those of an engine.
 * And in front of that it has what first has, fields with a comma behind each. */
void session_numbers_put(const struct rg_session *session, uint32_t from,
                         const struct rg_buf *first, struct rg_buf *json);
/* The last ones of a rank, of the epoch that there is now, and their age. False: there are none. */
bool session_numbers_get(const struct rg_session *session, uint32_t rank,
                         struct rg_numbers *ret_numbers, uint64_t *ret_age_ns);
/* The rank of the i-th place of a host; -1: nobody has it now. */
int session_rank_at(const struct rg_session *session, const struct rg_plan_host *host, int i);

#endif
