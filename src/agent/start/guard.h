/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that outlives the agent. Over ssh nobody else is left to clear up should the agent be
 * killed, nor to say how it ended; on the launcher's own computer the launcher may be killed with
 * it. The guard is its parent, a subreaper, and does both. In a container the agent is process 1
 * and needs none. The two are in different process groups, and the agent stops, as for SIGTERM,
 * when its guard dies.
 *
 * Who kills by name means the job, not those who clear up after it: neither process is called
 * "reigen" (pkill, killall), and the guard's argument list does not say so either (pkill -f).
 *
 * Thread rule: main thread, before any other.
 */
#ifndef RG_AGENT_START_GUARD_H
#define RG_AGENT_START_GUARD_H

#include <stddef.h>
#include <sys/types.h>

#define RG_GUARD_NAME "rg-guard"

enum rg_guard {
    RG_GUARD_NONE,
    RG_GUARD_ON,     /* says how the agent ended on standard error */
    RG_GUARD_REPORT, /* says it on standard input, a socket, and holds nothing else open */
};

/* Go on as the agent in a child of this process: 0 there, or -errno when there can be none. The
 * parent never returns. It hands on SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2, and ends with the
 * child's exit code (128 + n for signal n), after it has killed what the child left behind and has
 * written how it ended by a signal: "reigen-guard: ...", a line. how: not NONE. argv: main's own,
 * which the guard overwrites. boot_secret: wiped in the parent. *ret_guard: the parent. */
int rg_guard_enter(enum rg_guard how, char **argv, void *boot_secret, size_t nbytes,
                   pid_t *ret_guard);

#endif
