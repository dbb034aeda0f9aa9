/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's rounds: what has been decided is carried out in the order of the log, queued and
 * polled operations are looked at, and after a failure everything ends.
 *
 * Thread rule: under `drive`. Nothing blocks, but for 0.3 s once a job has failed.
 */
#ifndef RG_COLL_PROGRESS_DRIVE_H
#define RG_COLL_PROGRESS_DRIVE_H

#include "coll/progress/state.h"

/* One round of everything: order, log, exec, polled. True when something moved. */
bool rg_progress_drive(struct rg_progress *progress);
/* Something is there that only a driver can bring on. */
bool rg_progress_has_work(struct rg_progress *progress);

#endif
