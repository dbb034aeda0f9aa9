/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step from STARTING to RUNNING, or what is said when hosts cannot be started.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_START_SESSION_STARTING_H
#define RG_LAUNCH_HEAD_START_SESSION_STARTING_H

#include "launch/head/core/session_core.h"

int session_starting_create(struct rg_session *session); /* 0 or -ENOMEM */
void session_starting_destroy(struct rg_session *session);

/* A host could not be started: how, and which exit code says so if it is the first. */
void session_host_unstarted(struct session_host *host, int exit_code, const char *how);
/* One host has failed, so the job has; but who repairs it wants to know of all that fail: end the
 * job when no other one can still turn out so soon. The doctor waits for all that can be known. */
void session_settle_start(struct rg_session *session);
/* Make all hosts that could not be started the job's cause, if there are any, one line each, and
 * say what is known of the others. */
void session_blame_unstarted(struct rg_session *session);
/* All agents are ready and fit: the ranks are told to start. */
void session_start_ranks(struct rg_session *session);

#endif
