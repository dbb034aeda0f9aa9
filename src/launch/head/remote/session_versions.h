/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the job's agents may go, and which engines their hosts have if it has failed.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_REMOTE_SESSION_VERSIONS_H
#define RG_LAUNCH_HEAD_REMOTE_SESSION_VERSIONS_H

#include "launch/head/core/session_core.h"

int session_versions_create(struct rg_session *session); /* 0 or -ENOMEM */
void session_versions_destroy(struct rg_session *session);

/* All ranks have ended: agents that stay without ranks (SETUP's resident) may go; when the engine
 * has failed, once all have said which one they have, or ASK_MS later. */
void session_release(struct rg_session *session);

#endif
