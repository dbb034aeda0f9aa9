/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote commands (reigen rsh): a client on one host of the job has a command run on another, by
 * way of their agents and the launcher.
 *
 *     client (rsh.c) --rankmsg.h--> agent (remote_client.c) --msg.h--> launcher
 *         --msg.h--> agent of the other host (remote.c) --pipes--> sh -c COMMAND
 *
 * A stream's receiver gives credit for what it has passed on, RG_MSG_REMOTE_WINDOW at first, and
 * whoever has none stops reading: memory is bounded at every station, and no byte is lost. Both
 * agents check what they are sent, so a client that breaks the rules loses its connection and
 * nothing else.
 *
 * A command leads its own session, runs in HOME with the environment of this host's ranks but for
 * what belongs to one rank, and is hung up when its client is gone: SIGHUP, and SIGKILL after
 * RG_REMOTE_HANGUP_MS. EXIT is sent when it has been reaped and its output is at its end.
 *
 * This header is internal to src/agent. Thread rule: the loop's thread; nothing blocks.
 */
#ifndef RG_AGENT_RANKS_REMOTE_H
#define RG_AGENT_RANKS_REMOTE_H

#include "agent/ranks/agent.h"

#define RG_REMOTE_HANGUP_MS 2000  /* between SIGHUP and SIGKILL */
#define RG_REMOTE_RELEASE_MS 2000 /* after RELEASE, for commands to end by themselves */
#define RG_REMOTE_TERM_MS 1000    /* then between SIGTERM and the sweep's SIGKILL */

/* The launcher's messages. 0; -EBADMSG when they break the rules; -ENOMEM. */
int rg_remote_message(struct rg_agent *agent, uint16_t type, union rg_msg *msg);
/* A child was reaped: one of the commands? */
void rg_remote_child_ended(struct rg_agent *agent, pid_t pid, int status);
/* A signal to every process in the commands' sessions. */
void rg_remotes_signal(struct rg_agent *agent, int signo);
/* Read what ranks and commands write or leave it, as rg_pump_flow. Call after credit or link
 * changed. */
void rg_agent_pump(struct rg_agent *agent);
/* RELEASE came: commands end by themselves, or by SIGTERM; rg_agent_sweep follows. After KILL it
 * does nothing. */
void rg_remotes_release(struct rg_agent *agent);
/* The agent may not sweep yet: it is resident, or commands have their time to end. */
bool rg_remotes_hold(const struct rg_agent *agent);
void rg_remotes_destroy(struct rg_agent *agent);

#endif
