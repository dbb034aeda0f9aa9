/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher is told of this host's network: addresses, and which network name space they
 * are of. Thread rule: any thread; blocks for microseconds.
 */
#ifndef RG_AGENT_LOOK_ADDRESSES_H
#define RG_AGENT_LOOK_ADDRESSES_H

#include <stdint.h>

#include "base/str.h"

#define RG_ADDRESSES_MAX 64

/* Add "ADDRESS/PREFIX INTERFACE" for each address of an interface that is up, at most
 * RG_ADDRESSES_MAX, loopback last; none when the kernel does not tell. */
void rg_addresses_list(struct rg_strv *list);

/* A number that two processes of one kernel share when they share their network; 0: not known. */
uint64_t rg_addresses_netns(void);

#endif
