/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boot of a process set, for rg_team_create.
 *
 * Thread rule: as rounds.h, whose rounds are its fences.
 */
#ifndef RG_COLL_API_SET_BOOT_H
#define RG_COLL_API_SET_BOOT_H

#include "coll/boot/boot.h"

struct rg_progress;

/* Of the set with this id; ranks: of the world, nranks of them, borrowed for as long as the team
 * lives; me: this rank's place among them. Freed by rg_boot_close. 0 or -ENOMEM. */
int rg_set_boot(struct rg_progress *world, int id, const int *ranks, int nranks, int me,
                struct rg_boot **ret_boot, struct rg_error *err);

#endif
