/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is waited for in a running job, and why (launch/diagnosis), of the numbers that its ranks
 * have told (session_numbers.h).
 *
 * Thread rule: the loop's thread. Nothing blocks.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_SESSION_LATENESS_H
#define RG_LAUNCH_SESSION_ELASTIC_SESSION_LATENESS_H

#include "launch/diagnosis/diagnosis.h"
#include "launch/session/core/session_core.h"

/* New numbers may have come: count this second for who is waited for in it. */
void session_lateness_count(struct rg_session *session, uint64_t now_ns);
/* Who is waited for now, and why; ranks are numbers, hosts the plan's. False: no memory. */
bool session_diagnose(const struct rg_session *session, uint64_t now_ns,
                      struct rg_lateness *ret_diagnosis);
/* And for most of the time so far. False: nobody was. */
bool session_slowed(const struct rg_session *session, struct rg_lateness *ret_diagnosis);
/* Append, with a comma behind it, where a cause is known:
 * "diagnosis":{"cause":"slow-input","rank":1,"host":"a","to":null,"share":0.4,...}, */
void session_lateness_put(const struct rg_session *session, struct rg_buf *json);

#endif
