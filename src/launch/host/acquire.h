/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's hosts, from the request to their return, for a program that has nothing else to do until
 * they are there.
 *
 * Ownership: embedded, zeroed at first; owns what the driver has got. Thread rule: the main thread.
 */
#ifndef RG_LAUNCH_HOST_ACQUIRE_H
#define RG_LAUNCH_HOST_ACQUIRE_H

#include "launch/host/driver.h"

struct rg_hold {
    const struct rg_driver_ops *driver;
    void *held; /* for rg_driver_options */
};

/* Get what the job is to run on, and fill in its hosts: acquire, then discover. Blocks for as long
 * as a queue is; what it waits for goes to say. Runs a loop of its own. SIGINT, SIGTERM and SIGHUP
 * give back what was asked for, and then end this process. 0 or -errno. */
int rg_hold_get(struct rg_hold *hold, const struct rg_driver_ops *driver, struct rg_job *job,
                void (*say)(void *arg, const char *text), void *arg, struct rg_error *err);
/* Give it back, if it was got: after rg_session_destroy. Blocks for seconds. */
void rg_hold_release(struct rg_hold *hold);

#endif
