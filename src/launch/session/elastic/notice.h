/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host whose agent got SIGTERM, or that a user drains by force, is about to be taken away, and no
 * other one comes in its place by itself: how long its ranks have, and what becomes of a job that
 * has too few without it. Not where an agent is the head: its platforms end the whole job then, or
 * put another host there.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_NOTICE_H
#define RG_LAUNCH_SESSION_ELASTIC_NOTICE_H

#include "launch/session/core/session_core.h"

#ifndef RG_AGENT
/* When its ranks get SIGTERM, if they are still there, on the membership's clock; 0: never. */
uint64_t session_notice_until_ns(const struct rg_session *session);
/* The membership knows that a host goes, or some. If too few ranks are left without it, all are
 * told to save their work, and where no host can make up for it the job ends: `what` is the
 * beginning of the cause, and within_ms the time until SIGKILL, as session_begin_stop has it. Not
 * where ranks have ended well: the others are about to do so, and have the host's time for it. */
void session_notice_given(struct rg_session *session, const char *what, uint64_t within_ms);
#else
static inline uint64_t session_notice_until_ns(const struct rg_session *session)
{
    (void) session;
    return 0;
}

static inline void session_notice_given(struct rg_session *session, const char *what,
                                        uint64_t within_ms)
{
    (void) session, (void) what, (void) within_ms;
}
#endif

#endif
