/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user's other commands ask of a job, and tell one that is elastic (launch/control).
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_SESSION_CONTROL_H
#define RG_LAUNCH_SESSION_ELASTIC_SESSION_CONTROL_H

#include "launch/session/elastic/elastic_state.h"

/* Answer from now on, by the job's id and the platform's (options.known_as), and drain by this
 * function; if the first fails, an elastic job remarks it, and if the second does, every job. */
void session_control_open(struct rg_session *session, session_drain *drain);
void session_control_close(struct rg_session *session);
/* This machine was set aside, by whom (place: or -1) and why in words. */
void session_control_set_aside(struct rg_session *session, int name, int place, const char *why);

#endif
