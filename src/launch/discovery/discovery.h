/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of an elastic job, as a command lists them again and again: one run at a time, each in
 * a session of its own, and ended with all its processes when it takes too long. Whatever goes
 * wrong with it, the hosts stay as they were.
 *
 * Thread rule: the loop's thread. Nothing blocks.
 */
#ifndef RG_LAUNCH_DISCOVERY_DISCOVERY_H
#define RG_LAUNCH_DISCOVERY_DISCOVERY_H

#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"
#include "job/job.h"

struct rg_discovery;

struct rg_discovery_options {
    struct rg_loop *loop;
    const char *command;  /* for /bin/sh -c; borrowed */
    int nslots;           /* of a host for which it prints none */
    uint64_t period_ms;   /* between the end of one run and the start of the next */
    uint64_t limit_ms;    /* of a run */
    /* It lists other hosts, or others in another order, than before; the first list is always told.
     * Of hosts only these are set; borrowed. */
    void (*on_hosts)(void *arg, const struct rg_job *hosts);
    /* A run has failed, and how, with the last line that it has written to standard error; once,
     * until one has not, or another way. What a run that succeeds writes there is not shown. */
    void (*on_failed)(void *arg, const char *text);
    void *arg;
};

/* Begin. 0 or -ENOMEM. */
int rg_discovery_start(const struct rg_discovery_options *options,
                       struct rg_discovery **ret_discovery);
/* What runs is killed. NULL is fine. */
void rg_discovery_stop(struct rg_discovery *discovery);

#endif
