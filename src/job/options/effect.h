/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options that were given and change nothing where this job runs: each option of the table says
 * what it needs (struct rg_option), and here is what a job has.
 *
 * Thread rule: any thread, one request at a time. Nothing blocks.
 */
#ifndef RG_JOB_OPTIONS_EFFECT_H
#define RG_JOB_OPTIONS_EFFECT_H

#include "job/options/options.h"

/* Once all else of the request is settled: a remark (request->notes) for each need that it lacks,
 * with the options of the command line and the job file that have it. What the configuration alone
 * says gives way without a word. 0 or -ENOMEM with err. */
int rg_effect_settle(struct rg_request *request, struct rg_error *err);

#endif
