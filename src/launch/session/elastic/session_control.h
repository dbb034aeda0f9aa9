/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user's other commands ask of a job, and tell one that is elastic (launch/control). An
 * agent that is a head answers nobody.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_SESSION_CONTROL_H
#define RG_LAUNCH_SESSION_ELASTIC_SESSION_CONTROL_H

#include "launch/session/elastic/elastic_state.h"

#ifndef RG_AGENT
/* Answer from now on, and drain by this function; if that fails, an elastic job remarks it. */
void session_control_open(struct rg_session *session, session_drain *drain);
void session_control_close(struct rg_session *session);
/* This machine was set aside, by whom (place: or -1) and why in words. */
void session_control_set_aside(struct rg_session *session, int name, int place, const char *why);
#else
static inline void session_control_open(struct rg_session *session, session_drain *drain)
{
    (void) session;
    (void) drain;
}
static inline void session_control_close(struct rg_session *session)
{
    (void) session;
}
static inline void session_control_set_aside(struct rg_session *session, int name, int place,
                                             const char *why)
{
    (void) session;
    (void) name;
    (void) place;
    (void) why;
}
#endif

#endif
