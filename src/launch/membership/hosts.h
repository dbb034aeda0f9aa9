/* SPDX-License-Identifier: Apache-2.0 */
/* Which machines are in the job, and on what terms: slots are dealt to hosts, and machines whose
 * ranks fail are set aside. */
#ifndef RG_LAUNCH_MEMBERSHIP_HOSTS_H
#define RG_LAUNCH_MEMBERSHIP_HOSTS_H

#include "launch/membership/state.h"

void membership_want(struct rg_membership *m, const struct rg_membership_machine *wanted,
                     size_t nwanted);
/* Deal slots to hosts, add some, and release those that are of no use. */
void membership_deal(struct rg_membership *m);
void membership_drop_host(struct rg_membership *m, struct host *host, enum stay stay);
/* A member of the epoch is gone, or will be, by the failure of that place (or NULL) of a host. */
void membership_lose(struct rg_membership *m, const struct host *host, const struct place *place);
void membership_tell(struct rg_membership *m, struct place *place);
/* That place of a host has failed, or (NULL) its agent: what that means for its machine. faulty:
 * which is set aside for it in any case. */
void membership_fail(struct rg_membership *m, struct host *host, const struct place *place,
                     enum rg_membership_why why, bool faulty);
/* Machines whose time is over are back. */
void membership_forgive(struct rg_membership *m);

#endif
