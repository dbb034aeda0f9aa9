/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be carried to the hosts and given to a program there: a job that is too large for that
 * is refused before anything is started, as the user's to change. Any thread; nothing blocks.
 */
#ifndef RG_LAUNCH_PLAN_SIZES_H
#define RG_LAUNCH_PLAN_SIZES_H

#include "base/error.h"
#include "launch/plan/plan.h"
#include "job/job.h"

/* Bytes of one argument or variable that Linux gives to a program (MAX_ARG_STRLEN, without the
 * NUL), and of all together (three quarters of 8 MiB, whatever the stack's limit is). */
#define RG_SIZES_WORD_MAX (131072u - 1)
#define RG_SIZES_ALL_MAX (6u << 20)

/* The command, the engine's options, and the variables of --env and --share-env: how many, how
 * long, and how much in all. 0; -E2BIG with err (exit code 2), which names what it is, the limit,
 * and what was given. Variables that are not there are not this function's to refuse. */
int rg_sizes_check(const struct rg_job *job, struct rg_error *err);

/* The same of what grows with ranks and hosts: the variables that each rank is given, and a
 * script's list of hosts. As above, or -ENOMEM. */
int rg_sizes_check_plan(const struct rg_plan *plan, const struct rg_job *job,
                         struct rg_error *err);

#endif
