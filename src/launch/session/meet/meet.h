/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the ranks of all hosts meet, by way of their agents. An elastic job's epochs have each a
 * fence of their own.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_MEET_MEET_H
#define RG_LAUNCH_SESSION_MEET_MEET_H

#include "launch/session/core/session_core.h"

extern const struct session_part session_fences_part;

void session_on_fence(struct session_host *host, const struct rg_msg_fence *msg);
/* The host's link takes more of the answer again. */
void session_fence_go_on(void *host);
/* A rank has ended, or left this epoch, and how: whoever waits for it is told so. */
void session_leave_fence(struct rg_session *session, int place, const char *how);
/* A place's number in this epoch, or -1; and the epoch, 0 in a job that is not elastic. */
int session_rank_of(const struct rg_session *session, int place);
/* The place of this number in it, or -1. */
int session_place_of(const struct rg_session *session, uint32_t rank);
uint32_t session_epoch(const struct rg_session *session);
/* All ranks have met, at least once, in this epoch. */
bool session_have_met(const struct rg_session *session);

/* Who waits in a fence; NULL: nobody has begun one in this epoch. Borrowed for the call. */
struct rg_fence;
const struct rg_fence *session_fence(const struct rg_session *session);

/* A new epoch of this many ranks: rank_of has each place's number in it, or -1, and is borrowed
 * until the next one. Who waits in a fence of the last one is told that it is over. 0, -ENOMEM. */
int session_open_fence(struct rg_session *session, uint32_t epoch, int nranks,
                       const int *rank_of);

#endif
