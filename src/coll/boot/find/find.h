/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of all ways of being started, and which of them this process was started by: the one
 * that REIGEN_BOOT names, else the first that finds its variables.
 *
 * Thread rule: the thread in reigen_init; rg_boots_leave when the process ends.
 */
#ifndef RG_COLL_BOOT_FIND_FIND_H
#define RG_COLL_BOOT_FIND_FIND_H

#include "coll/boot/boot.h"

#define RG_BOOTS_MAX 8

/* What boots keep until the process ends; zeros at first. */
struct rg_boots {
    void *kept[RG_BOOTS_MAX];
};

/* Find and open. 0; -ETIMEDOUT, -EINVAL, -EPERM, -ECONNREFUSED; -EPROTO: a launcher started several
 * ranks, and none of the boots leads to the others; -EBUSY: another process has this rank's place.
 * Blocks until deadline_ns. */
int rg_boot_open(struct rg_boots *boots, const struct rg_config *config, uint64_t deadline_ns,
                 struct rg_boot **ret_boot, struct rg_error *err);
/* Say goodbye where a connection was kept. What is kept stays: the process ends. */
void rg_boots_leave(struct rg_boots *boots);

#endif
