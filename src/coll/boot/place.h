/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's place: what a launcher's variables name. Processes inherit them, so a helper or a worker
 * that a rank starts finds the same place as its parent, where nobody waits for it. Who takes a
 * place therefore holds a descriptor with a name of its own (a memfd), and a process that descends
 * from the holder sees it in /proc. The kernel takes it away with the holder, whatever ends that
 * one, and no other user can make one up. Where /proc tells nothing, all places look free.
 *
 * The descriptor stands at one of some numbers that are agreed upon, so that a look at an ancestor
 * takes as long however many descriptors that one has. A process with more than 65,000 of them
 * may have no such number left; its descendants find its place free.
 *
 * Thread rule: the thread in reigen_init. Blocks for a look at the ancestors.
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
 * long as the place is taken, and closed in a forked child; -errno, -EMFILE also where all numbers
 * that a descendant would look at are in use. */
int rg_place_take(const char *way, const char *const *variables, int rank, int size);
/* Does a process from which this one descends hold the place that the variables name here? */
bool rg_place_is_taken(const char *way, const char *const *variables, struct rg_place *ret_holder);

#endif
