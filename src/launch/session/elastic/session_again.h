/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether it helps to start the ranks of an elastic job again: each failure is compared with that
 * of the attempt before.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_ELASTIC_SESSION_AGAIN_H
#define RG_LAUNCH_SESSION_ELASTIC_SESSION_AGAIN_H

#include "launch/session/elastic/elastic_state.h"

/* All ranks are about to be started again, by the failure of that place, or (-1) for another
 * reason. Keeps the failure for the next time. True: it is that of the attempt before, and the job
 * got no further; then both are kept for the verdict, and the job is to end. Where that rank was
 * cut off by another, whose end has not been told yet, that one's end decides; where that is good,
 * or our own signal was faster, this attempt says nothing, and the one before is kept. */
bool session_again_is_vain(struct rg_session *session, int place);
/* This rank has ended. If it is the one whose end was waited for: true as above. */
bool session_again_explains(struct rg_session *session, int rank);
/* The process of that place has just failed as one of the same host did in the attempt before, in a
 * way of hosts that are broken or too small, and there are enough others. */
bool session_again_blames_host(struct rg_session *session, int place);
/* A rank is lost, with its host. If the attempt is being ended already, the failure that was kept
 * of it may be that of a victim. */
void session_again_lost(struct rg_session *session);

#endif
