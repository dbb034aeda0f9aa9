/* SPDX-License-Identifier: Apache-2.0 */
/* Who is which rank, and when: the only place where an epoch begins, and where one is left. */
#ifndef RG_LAUNCH_MEMBERSHIP_EPOCH_H
#define RG_LAUNCH_MEMBERSHIP_EPOCH_H

#include "launch/membership/state.h"

/* Whatever can go on goes on. Slots have been dealt. */
void membership_advance(struct rg_membership *m);

#endif
