/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's place: what a launcher's variables name. Processes inherit them, so a helper or a worker
 * that a rank starts finds the same place as its parent, where nobody waits for it. Who takes a
 * place therefore holds a descriptor with a name of its own (a memfd), and a process that descends
 * from the holder sees it in /proc. The kernel takes it away with the holder, whatever ends that
 * one, and no other user can make one up. Where /proc tells nothing, all places look free.
 *
 * Thread rule: the thread in reigen_init. Blocks for a look at the descriptors of the ancestors.
 */
#ifndef RG_COLL_BOOT_PLACE_H
#define RG_COLL_BOOT_PLACE_H

#include <stdbool.h>
#include <sys/types.h>

/* Who holds a place, and what it is. */
struct rg_place {
    pid_t pid;
    int rank, size;
};

/* Take the place of that way of being started (rg_boot_ops.name), which these variables name: the
 * values of all of them, the last entry is NULL. A descriptor, close-on-exec, to be held for as
 * long as the place is taken, and closed in a forked child; -errno. */
int rg_place_take(const char *way, const char *const *variables, int rank, int size);
/* Does a process from which this one descends hold the place that the variables name here? */
bool rg_place_is_taken(const char *way, const char *const *variables, struct rg_place *ret_holder);

#endif
