/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks of roles find one another by the variables that OpenPAI gives to its own. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/plan/plan.h"

/* Labels that every task of OpenPAI's has, whether its role names them or not. */
#define HTTP "http"
#define SSH "ssh"

int rg_plan_find_task(const struct rg_plan *plan, const char *name)
{
    for (int r = 0; r < plan->nranks; r++) {
        if (plan->ranks[r].task && strcmp(plan->ranks[r].task, name) == 0)
            return r;
    }
    return -1;
}

/* --- ports ------------------------------------------------------------------------------------ */

int rg_plan_count_ports(const struct rg_plan *plan, const struct rg_job *job, int host)
{
    int index, n = 0;

    for (int r = 0; r < plan->nranks; r++) {
        const struct rg_role *role = rg_job_role_of(job, r, &index);
        n += role && plan->ranks[r].host == host ? rg_role_count_free_ports(role) : 0;
    }
    return n;
}

int rg_plan_set_ports(struct rg_plan *plan, const struct rg_job *job, int *const *found)
{
    rg_autofree int *used = calloc((size_t) plan->nhosts, sizeof *used);
    size_t count = 0;
    int index;

    for (size_t i = 0; i < job->nroles; i++)
        count += (size_t) job->roles[i].ntasks * (size_t) rg_role_count_ports(&job->roles[i]);
    int *next = calloc(count + 1, sizeof *next);
    if (!used || !next) {
        free(next);
        return -ENOMEM;
    }
    free(plan->task_ports);
    plan->task_ports = next;
    plan->ntask_ports = (int) count;
    for (int r = 0; r < plan->nranks; r++) {
        const struct rg_role *role = rg_job_role_of(job, r, &index);
        int host = plan->ranks[r].host;
        for (size_t p = 0; role && p < role->nports; p++) {
            int begin = role->ports[p].begin;
            for (int i = 0; i < role->ports[p].count; i++)
                *next++ = begin ? begin + i : found[host][used[host]++];
        }
    }
    return 0;
}

/* Where a task's ports of its role's label number `port` begin. */
static const int *ports_of(const struct rg_plan *plan, const struct rg_job *job,
                           const struct rg_role *role, int index, size_t port)
{
    const int *at = plan->task_ports;

    for (const struct rg_role *r = job->roles; r != role; r++)
        at += r->ntasks * rg_role_count_ports(r);
    at += index * rg_role_count_ports(role);
    for (size_t i = 0; i < port; i++)
        at += role->ports[i].count;
    return at;
}

/* The first port of this label; 0: there is none. */
static int first_port(const struct rg_plan *plan, const struct rg_job *job,
                      const struct rg_role *role, int index, const char *label)
{
    for (size_t i = 0; plan->task_ports && i < role->nports; i++) {
        if (strcmp(role->ports[i].label, label) == 0 && role->ports[i].count)
            return *ports_of(plan, job, role, index, i);
    }
    return 0;
}

static void put_list(const struct rg_plan *plan, const struct rg_job *job,
                     const struct rg_role *role, int index, size_t port, struct rg_buf *text)
{
    const int *at = ports_of(plan, job, role, index, port);

    for (int i = 0; i < role->ports[port].count; i++)
        rg_buf_printf(text, i ? ",%d" : "%d", at[i]);
}

/* --- variables -------------------------------------------------------------------------------- */

struct filler {
    const struct rg_plan *plan;
    const struct rg_job *job;
    struct rg_strv *env;
    int status;
};

static rg_printf(3, 4) void add(struct filler *f, const char *value, const char *fmt, ...)
{
    rg_autofree char *name = NULL;
    va_list args;

    va_start(args, fmt);
    if (vasprintf(&name, fmt, args) < 0)
        name = NULL;
    va_end(args);
    if (!name)
        f->status = -ENOMEM;
    else if (f->status == 0 && !rg_env_get(&f->job->env, name))
        f->status = rg_strv_addf(f->env, "%s=%s", name, value);
}

static void add_number(struct filler *f, const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    add(f, text, "%s", name);
}

static const char *address_of(const struct filler *f, int rank)
{
    return rg_plan_address(f->plan, f->plan->ranks[rank].host);
}

/* What everybody knows of a task. */
static void add_place(struct filler *f, const struct rg_role *role, int rank, int index)
{
    add(f, address_of(f, rank), "PAI_HOST_IP_%s_%d", role->name, index);
    for (size_t i = 0; f->plan->task_ports && i < role->nports; i++) {
        rg_autobuf struct rg_buf list = RG_BUF_INIT;
        const char *label = role->ports[i].label;
        put_list(f->plan, f->job, role, index, i, &list);
        add(f, rg_buf_text(&list), "PAI_PORT_LIST_%s_%d_%s", role->name, index, label);
        add(f, rg_buf_text(&list), "PAI_%s_%d_%s_PORT", role->name, index, label);
    }
}

static void add_role(struct filler *f, const struct rg_role *role, int first)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;

    for (int i = 0; i < role->ntasks; i++) {
        add_place(f, role, first + i, i);
        rg_buf_printf(&list, "%s%s:%d", i ? "," : "", address_of(f, first + i),
                      first_port(f->plan, f->job, role, i, HTTP));
    }
    if (f->plan->task_ports)
        add(f, rg_buf_text(&list), "PAI_TASK_ROLE_%s_HOST_LIST", role->name);
}

static void add_own_ports(struct filler *f, const struct rg_role *role, int index)
{
    int http = first_port(f->plan, f->job, role, index, HTTP);
    rg_autobuf struct rg_buf all = RG_BUF_INIT;

    add_number(f, "PAI_CONTAINER_HOST_PORT", http);
    add_number(f, "PAI_CURRENT_CONTAINER_PORT", http);
    add_number(f, "PAI_CONTAINER_SSH_PORT", first_port(f->plan, f->job, role, index, SSH));
    for (size_t i = 0; i < role->nports; i++) {
        rg_autobuf struct rg_buf list = RG_BUF_INIT;
        put_list(f->plan, f->job, role, index, i, &list);
        rg_buf_printf(&all, "%s%s:%s", i ? ";" : "", role->ports[i].label, rg_buf_text(&list));
        add(f, rg_buf_text(&list), "PAI_CONTAINER_HOST_%s_PORT_LIST", role->ports[i].label);
    }
    add(f, rg_buf_text(&all), "PAI_CONTAINER_HOST_PORT_LIST");
}

static void add_own(struct filler *f, const struct rg_role *role, int rank, int index)
{
    add_number(f, RG_ROLE_VARIABLE, (int) (role - f->job->roles));
    add_number(f, "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", index);
    add_number(f, "PAI_TASK_INDEX", index);
    add_number(f, "PAI_TASK_ROLE_INDEX", index);
    add(f, address_of(f, rank), "PAI_CONTAINER_HOST_IP");
    add(f, address_of(f, rank), "PAI_CURRENT_CONTAINER_IP");
    add(f, f->plan->ranks[rank].task, "PAI_CONTAINER_ID");
    if (f->plan->task_ports)
        add_own_ports(f, role, index);
}

int rg_plan_task_env(const struct rg_plan *plan, const struct rg_job *job, int rank,
                     struct rg_strv *env)
{
    struct filler f = { plan, job, env, 0 };
    int index, first = 0;
    const struct rg_role *own = rg_job_role_of(job, rank, &index);

    for (size_t i = 0; i < job->nroles; i++) {
        add_role(&f, &job->roles[i], first);
        first += job->roles[i].ntasks;
    }
    add_own(&f, own, rank, index);
    for (size_t i = 0; f.status == 0 && i < own->env.count; i++)
        f.status = rg_strv_add(env, own->env.v[i]);
    return f.status;
}
