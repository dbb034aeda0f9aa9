/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank is which task follows from the order of the roles, so that nobody keeps a list. */
#include "job/role.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "job/job.h"

struct rg_role *rg_job_add_role(struct rg_job *job, const char *name)
{
    if (job->nroles == RG_JOB_ROLES_MAX)
        return NULL;
    struct rg_role *roles = reallocarray(job->roles, job->nroles + 1, sizeof *roles);

    if (!roles)
        return NULL;
    job->roles = roles;
    roles[job->nroles] = (struct rg_role){ .name = strdup(name), .ntasks = 1 };
    return roles[job->nroles].name ? &roles[job->nroles++] : NULL;
}

int rg_role_add_port(struct rg_role *role, const char *label, int begin, int count)
{
    struct rg_role_port *ports = reallocarray(role->ports, role->nports + 1, sizeof *ports);

    if (!ports)
        return -ENOMEM;
    role->ports = ports;
    ports[role->nports] = (struct rg_role_port){ strdup(label), begin, count };
    return ports[role->nports].label ? (role->nports++, 0) : -ENOMEM;
}

void rg_role_fini(struct rg_role *role)
{
    for (size_t i = 0; i < role->nports; i++)
        free(role->ports[i].label);
    free(role->ports);
    free(role->name);
    rg_strv_fini(&role->env);
    *role = (struct rg_role){ .name = NULL };
}

int rg_job_ntasks(const struct rg_job *job)
{
    int n = 0;

    for (size_t i = 0; i < job->nroles; i++)
        n += job->roles[i].ntasks;
    return n;
}

const struct rg_role *rg_job_role_of(const struct rg_job *job, int rank, int *ret_index)
{
    for (size_t i = 0; i < job->nroles; i++) {
        if (rank < job->roles[i].ntasks) {
            *ret_index = rank;
            return &job->roles[i];
        }
        rank -= job->roles[i].ntasks;
    }
    return NULL;
}

int rg_role_count_ports(const struct rg_role *role)
{
    int n = 0;

    for (size_t i = 0; i < role->nports; i++)
        n += role->ports[i].count;
    return n;
}

int rg_role_count_free_ports(const struct rg_role *role)
{
    int n = 0;

    for (size_t i = 0; i < role->nports; i++)
        n += role->ports[i].begin ? 0 : role->ports[i].count;
    return n;
}
