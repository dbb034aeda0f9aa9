/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that the user asked for (job/chaos/chaos.h), in a running job. What is to happen at a time
 * is done here, by commands on the hosts. What is to happen at a step a rank does to itself: it
 * asks here before, so that each event happens once in a job, whoever is that rank by then.
 *
 * A job that an agent is the head of has none.
 *
 * Thread rule: the loop's thread. Nothing blocks.
 */
#ifndef RG_LAUNCH_SESSION_CHAOS_CHAOS_H
#define RG_LAUNCH_SESSION_CHAOS_CHAOS_H

#include "launch/session/core/session_core.h"

#ifndef RG_AGENT
extern const struct session_part session_chaos_part;

/* The first ranks of this session were told to start: times count from now, or from the job's start
 * before. */
void session_chaos_begin(struct rg_session *session);
/* The process in this place; 0: it has ended. */
void session_chaos_process(struct rg_session *session, int place, int pid);
/* A remote command is asked for on this host: true, and it is answered, if it is a rank's question
 * for an event. */
bool session_chaos_asked(struct session_host *host, const struct rg_msg_remote_open *msg);
#else
static inline void session_chaos_begin(struct rg_session *session)
{
    (void) session;
}
static inline void session_chaos_process(struct rg_session *session, int place, int pid)
{
    (void) session;
    (void) place;
    (void) pid;
}
static inline bool session_chaos_asked(struct session_host *host,
                                       const struct rg_msg_remote_open *msg)
{
    (void) host;
    (void) msg;
    return false;
}
#endif

#endif
