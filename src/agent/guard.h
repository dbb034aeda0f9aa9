/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that outlives the agent. Where the agent was started over ssh nobody is left there to
 * clear up should it be killed, nor to say how it ended; the guard is its parent, a subreaper, and
 * does both. In a container the agent is process 1, and on the launcher's own computer the launcher
 * is its parent: no guard is needed there. The two are in different process groups, and the agent
 * stops, as for SIGTERM, when its guard dies.
 *
 * Thread rule: main thread, before any other.
 */
#ifndef RG_AGENT_GUARD_H
#define RG_AGENT_GUARD_H

#include <stdbool.h>

/* Go on as the agent in a child of this process: 0 there, or -errno when there can be none. The
 * parent never returns. It hands on SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2, and ends with the
 * child's exit code (128 + n for signal n), after it has killed what the child left behind and has
 * written how it ended by a signal to standard error: "reigen-guard: ...". boot_secret: wiped in
 * the parent. */
int rg_guard_enter(void *boot_secret, unsigned long nbytes);

/* In that child: its guard has died. */
bool rg_guard_is_gone(void);

#endif
