/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reigen logs -f of a job whose head is elsewhere: it is followed as reigen run follows it, and its
 * output goes to a descriptor.
 *
 * Thread rule: main thread. Blocks until the job's end.
 */
#ifndef RG_LAUNCH_HOST_SHOWLOG_H
#define RG_LAUNCH_HOST_SHOWLOG_H

#include "launch/host/driver.h"

struct rg_show_log {
    int (*follow)(const struct rg_follow_options *options, void **ret_state,
                  struct rg_error *err); /* a driver's, as is the next one */
    void (*unfollow)(void *state);
    int nhosts; /* that follow is to know; 0: none */
    int fd;     /* where the output goes */
    /* For what the output does not have; arg is NULL. */
    void (*on_say)(void *arg, const char *text);
};

/* 0, once the job has ended; or -errno with err: it cannot be followed, or the output was lost
 * (exit code 74). */
int rg_show_log(const struct rg_show_log *show, const struct rg_submitted_job *job,
                struct rg_error *err);

#endif
