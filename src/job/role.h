/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles: a job whose ranks are tasks of several kinds, such as a master and its workers. Each task
 * runs its role's command, and is called ROLE-INDEX: "worker-0". Ranks are the tasks, in the order
 * of the roles and then by index. The job's command tells each task's own one by RG_ROLE_VARIABLE.
 *
 * Ownership: roles belong to their job (rg_job_fini). Thread rule: as the job.
 */
#ifndef RG_JOB_ROLE_H
#define RG_JOB_ROLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct rg_job;

#define RG_JOB_ROLES_MAX 1024
#define RG_ROLE_PORTS_MAX 4096             /* of one task */
#define RG_ROLE_VARIABLE "REIGEN_ROLE"     /* which role a task has: its place among them, from 0 */

/* Ports that each task of a role gets, under one label. */
struct rg_role_port {
    char *label;
    int begin; /* the first of them; 0: whichever are free on its host */
    int count;
};

struct rg_role {
    char *name;
    int ntasks;
    int min_failed;    /* so many tasks that fail end the job, badly; 0: none do */
    int min_succeeded; /* so many that end with 0 end the job, well; 0: none do */
    struct rg_role_port *ports;
    size_t nports;
    struct rg_strv env; /* NAME=VALUE, of its tasks alone */
};

/* One more role without ports, of one task, or NULL: out of memory, or too many. */
struct rg_role *rg_job_add_role(struct rg_job *job, const char *name);
/* 0 or -ENOMEM. */
int rg_role_add_port(struct rg_role *role, const char *label, int begin, int count);
void rg_role_fini(struct rg_role *role);

/* The tasks of all roles. */
int rg_job_ntasks(const struct rg_job *job);
/* The role that a rank is a task of, and its index there; NULL: the job has no such task. */
const struct rg_role *rg_job_role_of(const struct rg_job *job, int rank, int *ret_index);
/* All ports that a task of the role gets; and those of them that are to be found for it. */
int rg_role_count_ports(const struct rg_role *role);
int rg_role_count_free_ports(const struct rg_role *role);

#endif
