/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a job whose --config brought roles (job/role.h): the file says what runs and
 * how often, the options say where.
 *
 * Thread rule: any thread, one request at a time. Nothing blocks.
 */
#ifndef RG_JOB_REQUEST_ROLES_H
#define RG_JOB_REQUEST_ROLES_H

#include "base/error.h"
#include "job/options/options.h"

/* When all options were read; nwords: those of a command behind them. The number of ranks is the
 * roles', one on each host where hosts suffice, and what a task is to have becomes options of the
 * platform where it has them. 0; -EINVAL, where a command, -np or --engine was given, too, err
 * says so; -ENOMEM. */
int rg_roles_settle(struct rg_request *request, int nwords, struct rg_error *err);

#endif
