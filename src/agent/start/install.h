/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen-agent install NAME`: the agent, just written to a host's cache directory under some other
 * name, puts itself in its place there. Our bootstrap script (platform/ssh/command.c)
 * runs it, so that what has to be checked is checked in one place, and few programs have to be
 * there.
 *
 *     CACHE/.new-xyz         this program, as it was written
 *     CACHE/NAME/            made, for this user only
 *               reigen-agent this program, which others see whole or not at all; one that is
 *                            there already stays
 *               rsh, ssh     links to it
 *
 * `reigen-agent same NAME` only says whether it is that program.
 *
 * NAME is "agent-" and 16 hexadecimal digits, the beginning of the program's SHA-256 digest:
 * a program that was damaged on its way does not fit, and is refused.
 *
 * Thread rule: main thread. Blocks on the file system.
 */
#ifndef RG_AGENT_START_INSTALL_H
#define RG_AGENT_START_INSTALL_H

#include "base/error.h"

/* 0; -EPERM (the directory belongs to or can be written by others), -EBADMSG (damaged), or another
 * -errno; err says why in few words. */
int rg_agent_install(const char *name, struct rg_error *err);

/* Is the running program the one of this name? 0; -EBADMSG, or another -errno. */
int rg_agent_same(const char *name, struct rg_error *err);

#endif
