/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen run --detach`: the head runs in a process of its own, in a session without a terminal.
 * This process waits until all ranks have started, and hands on the signals that it is sent until
 * then: Ctrl-C, or a terminal that is closed so early, ends the job.
 *
 * Main thread, and the only one; once per process.
 */
#ifndef RG_CMD_RUN_DETACH_H
#define RG_CMD_RUN_DETACH_H

#include "head/head.h"

/* Run the job so. It returns twice: here when all ranks have started (0, and its id is printed) or
 * the job is over before that (its exit code, after the head has told why); and in the head's
 * process when the job has ended. take_planned is emptied in both. */
int rg_detach_run(struct rg_planned *take_planned, struct rg_head_as *as);

#endif
