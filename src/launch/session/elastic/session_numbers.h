/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a running job's ranks, elastic or not: taken from its hosts, kept
 * (launch/numbers), and given to who asks (session_control.h). A job that an agent is the head of
 * keeps none.
 *
 * Thread rule: the loop's thread. Nothing blocks.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_SESSION_NUMBERS_H
#define RG_LAUNCH_SESSION_ELASTIC_SESSION_NUMBERS_H

#include "launch/diagnosis/diagnosis.h"
#include "launch/session/core/session_core.h"
#include "wire/numbers.h"

#ifndef RG_AGENT
/* A rank of a host tells its own and those of all that share memory with it. They are for people:
 * what is torn, of a rank or an epoch that there is not, or has no room, is left out, and costs
 * neither the host nor the job anything. */
void session_on_numbers(struct session_host *host, const struct rg_rankmsg_numbers *msg);
/* Append the page that begins with this rank, as JSON (launch/numbers/numbers.h). The first one has
 * also which ranks each host has now, in runs of a first rank and a count:
 * "places":[["a",0,4,8,1],["b",4,4]] has ranks 0 to 3 and 8 on a. None has those of an engine.
 * Where a cause is known for which somebody is waited for (launch/diagnosis), it also has that:
 * "diagnosis":{"cause":"slow-input","rank":1,"host":"a","to":null,"share":0.4,...}. */
void session_numbers_put(const struct rg_session *session, uint32_t from, struct rg_buf *json);
/* Who is waited for now, and why; ranks are numbers, hosts the plan's. False: no memory. */
bool session_diagnose(const struct rg_session *session, uint64_t now_ns,
                      struct rg_lateness *ret_diagnosis);
/* And for most of the time so far. False: nobody was. */
bool session_slowed(const struct rg_session *session, struct rg_lateness *ret_diagnosis);
/* The last ones of a rank, of the epoch that there is now, and their age. False: there are none. */
bool session_numbers_get(const struct rg_session *session, uint32_t rank,
                         struct rg_numbers *ret_numbers, uint64_t *ret_age_ns);
#else
static inline void session_on_numbers(struct session_host *host,
                                      const struct rg_rankmsg_numbers *msg)
{
    (void) host;
    (void) msg;
}
#endif

#endif
