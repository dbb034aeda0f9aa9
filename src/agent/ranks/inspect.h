/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INSPECT: the launcher wants to know what this host is like (reigen doctor, --require). The agent
 * tells its clock at once, then runs itself as `reigen-agent doctor` with the environment that
 * ranks get, and sends what that writes. A process of its own, because looking at a host may block:
 * a python on a network file system, a hanging nvidia-smi. After the time limit it is killed, and
 * what it wrote until then is sent.
 *
 * Thread rule: the agent's thread; nothing blocks for longer than a fork.
 */
#ifndef RG_AGENT_RANKS_INSPECT_H
#define RG_AGENT_RANKS_INSPECT_H

#include "agent/ranks/agent.h"

#define RG_INSPECT_TEXT_MAX (64u << 10) /* bytes of what was found that are sent */

/* Begin; INSPECTED follows once. -EBADMSG when one is under way. */
int rg_inspect_start(struct rg_agent *agent, uint32_t limit_ms);
/* Kill it; nothing more is sent. Nothing to do when none runs. */
void rg_inspect_stop(struct rg_agent *agent);

#endif
