/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent that calls the launcher, where the launcher cannot call it: a job step's task has no
 * descriptors of its own to the launcher.
 *
 * Over a new TCP connection goes the line "reigen-dial2 PLACE", then the exchange of wire/auth.h
 * with the key of purpose "dial" and the label "dial PLACE"; the caller begins it. Then the
 * connection is the link's. So whoever calls without the job's key, or answers at a wrong address
 * (172.17.0.1 is every Docker host's), is recognized before a byte of the link is spoken.
 *
 * Thread rule: main thread. Blocks: at most RG_DIAL_CONNECT_MS for each address, and
 * RG_DIAL_ANSWER_MS for the answer; with addresses at which nothing answers, half a minute.
 */
#ifndef RG_AGENT_START_DIAL_H
#define RG_AGENT_START_DIAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "wire/auth.h"
#include "wire/link.h"

#define RG_DIAL_CONNECT_MS 3000
#define RG_DIAL_ANSWER_MS 10000
#define RG_DIAL_ROUNDS 3    /* through all addresses, a second apart */
#define RG_DIAL_MS 15000    /* after which no new round begins */

/* text, or what the variable holds that it names: "$SLURMD_NODENAME". Into buf, "" when there is no
 * such variable or no room. Returns buf. */
const char *rg_dial_expand(const char *text, char *buf, size_t nbytes);

/* addresses: ADDRESS:PORT, separated by commas, tried in this order; ADDRESS is numeric, an IPv6
 * one in brackets, or $VARIABLE. place: who is calling, also $VARIABLE. The connected, blocking
 * socket, close-on-exec; or -errno, and err tells of every address. */
int rg_agent_dial(const char *addresses, const char *place, const uint8_t key[RG_KEY_NBYTES],
                  struct rg_error *err);

/* The same, each address once, for connect_ms until there is a connection. name is text. The
 * socket; -EACCES, one that answers has another key; -ETIMEDOUT, nobody has said anything; or
 * -EHOSTUNREACH: why tells of every address. */
#define RG_DIAL_WHY_MAX 512
int rg_agent_dial_once(const char *addresses, const char *name, const uint8_t key[RG_KEY_NBYTES],
                       unsigned connect_ms, char why[RG_DIAL_WHY_MAX]);

/* Hold the abstract unix socket of this name, so that others of this host see us come and go: they
 * connect, are not answered, and lose the connection when we end. The descriptor, close-on-exec, to
 * be kept open; -EADDRINUSE, or another -errno. */
int rg_agent_announce(const char *name);

#endif
