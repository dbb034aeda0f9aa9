/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All drivers, and which of them a job has. To those above, a driver is its vtable and its traits
 * (launch/host/driver.h, job/platform.h): nobody compares its name.
 *
 * Thread rule: main thread.
 */
#ifndef RG_PLATFORM_DRIVERS_H
#define RG_PLATFORM_DRIVERS_H

#include "launch/host/driver.h"

#define RG_DRIVERS_MAX 16

/* The table, NULL-terminated: this program's part of table.inc, or that of a test's program. */
extern const struct rg_driver_ops *const rg_drivers[];

/* Tell the layers below of them: rg_platforms_use. Once, before an option is read. */
void rg_drivers_init(void);
/* The one of this name, or NULL. */
const struct rg_driver_ops *rg_driver_find(const char *name);
/* The one for this job: what --on says; else the first that is `here`, or, when some host is not
 * this computer or there is an image, the first whose hosts call this process, else the first that
 * reaches any host. Where no host is named, the first that finds_hosts and whose hosts call this
 * process comes before one that is `here`. NULL: there is none. */
const struct rg_driver_ops *rg_driver_choose(const struct rg_job *job);

#endif
