/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts' names, as whoever starts a remote command knows them.
 * Thread rule: the loop's thread. */
#ifndef RG_LAUNCH_HEAD_REMOTE_SESSION_NAMES_H
#define RG_LAUNCH_HEAD_REMOTE_SESSION_NAMES_H

#include "launch/head/core/session_core.h"

/* The host that somebody on host `from` means by name: a name of the plan, its short or full form,
 * a host's own name, or an address of it; loopback is from. NULL when there is none. */
struct session_host *session_find_host(struct session_host *from, const char *name);

#endif
