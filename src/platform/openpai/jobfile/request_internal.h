/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two files share that make a request of a job of OpenPAI's.
 *
 * Thread rule: as pai.h says.
 */
#ifndef RG_PLATFORM_OPENPAI_JOBFILE_REQUEST_INTERNAL_H
#define RG_PLATFORM_OPENPAI_JOBFILE_REQUEST_INTERNAL_H

#include "job/role.h"
#include "platform/openpai/jobfile/pai_internal.h"

struct rg_pai_run {
    struct rg_request *request;     /* that is being made */
    const struct rg_pai *from;
    const struct rg_pai_role *head; /* whose task 0 comes first */
    const char *path;
    struct rg_error *err;
};

/* Variables that the platform's server sets, as those of its version: of all tasks, and of a
 * role's. Where tasks are, and their ports, launching adds (launch/plan/plan.h). 0 or -ENOMEM. */
int rg_pai_job_env(struct rg_pai_run *run);
int rg_pai_role_env(struct rg_pai_run *run, const struct rg_pai_role *from, struct rg_role *role);

#endif
