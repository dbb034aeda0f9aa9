/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The failure of a rank, by all that the session knows: how it ended, what it wrote last, for how
 * long its attempt ran, and which steps the ranks told of.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_CORE_SESSION_FAILURE_H
#define RG_LAUNCH_SESSION_CORE_SESSION_FAILURE_H

#include "launch/session/core/session_core.h"
#include "launch/verdict/failure.h"

/* place: whose end is in the facts; rank: by what number it was known, or -1. Of steps nothing is
 * known then. */
void session_failure_take(const struct rg_session *session, int place, int rank,
                          struct rg_failure *ret_failure);
/* If ranks of this attempt were lost with their host, an error or crash of another one may be that
 * of their victim, and is RG_FAILURE_OUTSIDE. session_failure_take knows it of those that are lost
 * by then. Time: all ranks. */
void session_failure_came_from_outside(const struct rg_session *session,
                                       struct rg_failure *failure);
/* How far any rank of this attempt has told that it got. Time: all ranks. */
void session_failure_note_steps(const struct rg_session *session, struct rg_failure *failure);

#endif
