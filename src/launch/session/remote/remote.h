/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote commands (reigen rsh): a client on one host, the command on another. And what depends on
 * them: engines, whose daemons they are.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_LAUNCH_SESSION_REMOTE_REMOTE_H
#define RG_LAUNCH_SESSION_REMOTE_REMOTE_H

#include "launch/session/core/session_core.h"

/* --- commands: session_remote.c --------------------------------------------------------------- */

extern const struct session_part session_remotes_part;

/* A REMOTE_* message of an agent. 0, or -EBADMSG: it broke the rules. */
int session_on_remote(struct session_host *host, uint16_t type, const union rg_msg *msg);
/* It said BYE or is lost: its commands end for their clients, its clients' commands are hung up. */
void session_remote_host_gone(struct session_host *host);
/* Some output of a command of the session's own, borrowed for the call; nbytes 0: the command has
 * ended, or is lost with its host. */
typedef void session_remote_hears(struct session_host *host, const uint8_t *text, size_t nbytes);
/* Have a command of the session's own run on a host. 0; -EHOSTUNREACH: it is not there, and nothing
 * will come. */
int session_remote_ask(struct session_host *target, const char *command,
                       session_remote_hears *hears);
/* The host that somebody on host `from` means by name: a task's, a name of the plan, its short or
 * full form, a host's own name, or an address of it; loopback is from. NULL when there is none. */
struct session_host *session_find_host(struct session_host *from, const char *name);

/* --- an engine and its daemons: session_engine.c ---------------------------------------------- */

/* A remote command's exit code when there was no command: unknown host, lost host. */
#define RG_ENGINE_LOST 255

extern const struct session_part session_engine_part;

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
/* Agents that stay without ranks (SETUP's resident) may go. Once, however often it is called. */
void session_engine_release(struct rg_session *session);

/* --- which engine each host has: session_versions.c ------------------------------------------- */

extern const struct session_part session_versions_part;

/* All ranks have ended: session_engine_release; when the engine has failed, once all hosts have
 * said which one they have, or ASK_MS later. */
void session_release(struct rg_session *session);

#endif
