/* SPDX-License-Identifier: Apache-2.0 */
/* OpenPAI's tasks as hosts, from the inside: the platform itself is asked nothing. */
#include "platform/openpai/inside/tasks_driver.h"

#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/local/door.h"
#include "platform/common/callers.h"
#include "platform/openpai/inside/tasks.h"
#include "launch/plan/plan.h"
#include "job/role.h"

/* What both drivers' tasks have in common, as `struct rg_pods_kind` has it. */
#define KIND                                                                                     \
    .pending = "its task has not called yet",                                                    \
    .stopping = "OpenPAI ends its task: the job was stopped, or a task has ended with which it " \
                "is over",                                                                       \
    .unseen = "its task is gone without a word: killed, out of memory, or its node is lost; the " \
              "job's page in OpenPAI's portal tells",                                            \
    .given_up = "its task was not waited for any more", .orders = true, .port = rg_tasks_port,   \
    .port_taken = port_taken, .is_place = is_place

static int port_taken(int port, int errnum, struct rg_error *err)
{
    return rg_error_set_exit(err, errnum, RG_EXIT_UNAVAILABLE,
                             "the other tasks cannot call this one: its port %d cannot be "
                             "listened on: %s; another program of this task may have it; "
                             RG_TASKS_PORT ", in all tasks, names another one",
                             port, strerror(errnum));
}

static bool is_place(const char *place, const struct rg_plan *plan, int host)
{
    return strcmp(place, plan->hosts[host].name) == 0;
}

static bool is_own_task(const struct rg_plan *plan, int host)
{
    RG_AUTO_TASKS struct rg_tasks tasks = RG_TASKS_INIT;

    return rg_tasks_read(&tasks, NULL) == 0 && is_place(tasks.names.v[tasks.own], plan, host);
}

/* --- a job of ours, which has a plan ---------------------------------------------------------- */

static int start_planned(const struct rg_driver_options *options, void **ret_state,
                         struct rg_error *err)
{
    static const struct rg_pods_kind kind = { KIND, .is_own = is_own_task };

    return rg_pods_start(&kind, options, ret_state, err);
}

static int discover_nothing(void *held, struct rg_job *job, struct rg_error *err)
{
    (void) held;
    (void) job;
    return rg_error_set_exit(err, ENOTSUP, RG_EXIT_USAGE,
                             "a job of OpenPAI is planned before its tasks are there");
}

const struct rg_driver_ops rg_driver_openpai_head = {
    .platform = {
        .name = "openpai",
        .title = "OpenPAI",
        .about = ", tasks of an OpenPAI cluster",
        .finds_hosts = true,
        .own_cpus = true,
        .clears_up = true,
        .own_containers = true,
        .elastic = true,
    },
    .discover = discover_nothing,
    .pod = RG_AGENT_ONLY(&rg_pod_openpai),
    .key = rg_tasks_take_key,
    .start = start_planned,
    .add = rg_pods_add,
    .stopping = rg_pods_stopping,
    .unseen = rg_pods_unseen,
    .stop = rg_pods_stop,
    .destroy = rg_pods_destroy,
};

/* --- a job of the user's own ------------------------------------------------------------------ */

static bool is_own(const struct rg_plan *plan, int host)
{
    return rg_local_is_here(plan->hosts[host].name) || is_own_task(plan, host);
}

static int start(const struct rg_driver_options *options, void **ret_state, struct rg_error *err)
{
    static const struct rg_pods_kind kind = { KIND, .is_own = is_own };

    return rg_pods_start(&kind, options, ret_state, err);
}

/* Not in a rank that has been started on the tasks; a role of a job that runs elsewhere is a rank,
 * too. */
static bool calls(void)
{
    RG_AUTO_TASKS struct rg_tasks tasks = RG_TASKS_INIT;

    return rg_tasks_here() && (!getenv("REIGEN_AGENT_SOCKET") || getenv(RG_ROLE_VARIABLE)) &&
           rg_tasks_read(&tasks, NULL) == 0 && tasks.own == 0 &&
           tasks.names.count > 1;
}

static int add_hosts(struct rg_job *job, const struct rg_tasks *tasks, struct rg_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < tasks->names.count; i++)
        r = rg_job_add_host(job, tasks->names.v[i], tasks->nslots[i], err);
    return r;
}

/* A host that the user has named is a task, or this one by another name. */
static int judge_host(struct rg_host *host, const struct rg_tasks *tasks, struct rg_error *err)
{
    size_t i = rg_local_is_here(host->name) ? tasks->own : 0;

    while (i < tasks->names.count && !rg_local_is_here(host->name) &&
           strcmp(host->name, tasks->names.v[i]) != 0)
        i++;
    if (i == tasks->names.count)
        return rg_error_set_exit(err, EHOSTUNREACH, RG_EXIT_USAGE,
                                 "host %s is no task of this job on OpenPAI: its tasks are called "
                                 "ROLE-NUMBER, as %s",
                                 host->name, tasks->names.v[0]);
    if (!host->nslots)
        host->nslots = tasks->nslots[i];
    return 0;
}

static int discover(void *held, struct rg_job *job, struct rg_error *err)
{
    RG_AUTO_TASKS struct rg_tasks tasks = RG_TASKS_INIT;
    int r;

    (void) held;
    if (!rg_tasks_here())
        return rg_error_set_exit(err, ENOENT, RG_EXIT_USAGE,
                                 "--on %s is for a task of an OpenPAI job, in which OpenPAI sets "
                                 "PAI_CURRENT_TASK_ROLE_NAME; it is not set here",
                                 rg_driver_openpai_tasks.platform.name);
    r = rg_tasks_read(&tasks, err);
    if (r == 0 && tasks.own)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--on %s: the tasks call %s; run it there",
                                 rg_driver_openpai_tasks.platform.name, tasks.names.v[0]);
    if (r == 0 && !job->nhosts)
        r = add_hosts(job, &tasks, err);
    job->notice_ms = job->notice_ms ? job->notice_ms : rg_tasks_notice_ms();
    for (size_t i = 0; r == 0 && i < job->nhosts; i++)
        r = judge_host(&job->hosts[i], &tasks, err);
    if (r == 0 && !job->on && !(job->on = strdup(rg_driver_openpai_tasks.platform.name)))
        return rg_error_memory(err);
    return r;
}

const struct rg_driver_ops rg_driver_openpai_tasks = {
    .platform = {
        .name = "openpai-tasks",
        .title = "the tasks of an OpenPAI job",
        .about = ", those of the OpenPAI job that this process is in",
        .finds_hosts = true,
        .own_cpus = true,
        .clears_up = true,
        .elastic = true,
    },
    .discover = discover,
    .calls = calls,
    .key = rg_tasks_take_key,
    .start = start,
    .add = rg_pods_add,
    .stopping = rg_pods_stopping,
    .unseen = rg_pods_unseen,
    .stop = rg_pods_stop,
    .destroy = rg_pods_destroy,
};
