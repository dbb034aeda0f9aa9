/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What boots do in the place of rg_boot_ops' calls for deaths and notes when they have no
 * connection that lasts: nothing. Peers are watched by the team's pidfds and by heartbeats between
 * nodes.
 *
 * Thread rule: any thread; nothing blocks.
 */
#ifndef RG_COLL_BOOT_SILENT_H
#define RG_COLL_BOOT_SILENT_H

#include "coll/boot/boot.h"

int rg_silent_poll_fd(void *state);
int rg_silent_poll(void *state, int *ret_rank, struct rg_error *err);
void rg_silent_note(void *state, int level, const char *text);
void rg_silent_after_fork(void *state);

#endif
