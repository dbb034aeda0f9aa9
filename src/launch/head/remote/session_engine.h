/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the remote commands that are an engine's daemons end as they should.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_HEAD_REMOTE_SESSION_ENGINE_H
#define RG_LAUNCH_HEAD_REMOTE_SESSION_ENGINE_H

#include "launch/head/core/session_core.h"

/* A remote command's exit code when there was no command: unknown host, lost host. */
#define RG_ENGINE_LOST 255

int session_engine_create(struct rg_session *session); /* 0 or -ENOMEM */
void session_engine_destroy(struct rg_session *session);

/* The name of the engine's daemon that this command starts, constant; NULL: it starts none. */
const char *session_engine_daemon(const char *command);
/* The command starts that daemon: where the engine is, if it can be told from that. */
void session_engine_started(struct rg_session *session, const char *command, const char *daemon);
/* Where it is; "": not known. Borrowed. */
const char *session_engine_program(const struct rg_session *session);
/* A daemon ended, though its engine has not hung it up: wait status. What it was killed by or that
 * it is not there becomes the job's cause; of whatever else goes wrong, the engine has the word.
 * One that does not end within 3 s is ended. A script hears of exit codes itself. */
void session_engine_daemon_ended(struct session_host *host, const char *daemon, int status);
/* The engine's process on client asked for a host that the job does not have. */
void session_engine_refused(struct session_host *client, const char *name, const char *command);
/* Agents that stay without ranks (SETUP's resident) may go; whether they were told so. */
void session_engine_release(struct rg_session *session);
bool session_engine_is_released(const struct rg_session *session);

#endif
