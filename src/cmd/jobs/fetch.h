/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a job whose head runs elsewhere, where a platform has put it: a program beside it
 * (launch/host/driver.h) gives what there is by now (head/ask.h), and it comes into a folder here.
 *
 * Thread rule: main thread. It blocks while the platform's programs answer.
 */
#ifndef RG_CMD_JOBS_FETCH_H
#define RG_CMD_JOBS_FETCH_H

#include "base/error.h"
#include "launch/jobs/submitted.h"
#include "platform/drivers.h"

/* Fetch it into the folder JOB.record of the current directory, which is made, or has what was
 * fetched before: *ret_dir, the caller's. 0; -errno with err and its exit code: 69 where nobody is
 * led to the head, also because the job has ended or does not run yet; 2 where the folder holds
 * something else, such as another job's record; 74 and 77 as for a record. */
int rg_jobs_fetch_record(const struct rg_driver_ops *driver, struct rg_submitted_job *job,
                         char **ret_dir, struct rg_error *err);

#endif
