/* SPDX-License-Identifier: Apache-2.0 */
/* How a job has ended. The head's own exit code is the job's; but a head that the platform has
 * ended, or never begun, has none, and then it counts what the server says. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/openpai/outside/internal.h"

const struct pai_task *pai_head_of(const struct pai_job *job)
{
    for (size_t i = 0; i < job->ntasks; i++) {
        if (strcmp(job->tasks[i].role, PAI_MASTER) == 0 && job->tasks[i].index == 0)
            return &job->tasks[i];
    }
    return job->ntasks ? &job->tasks[0] : NULL;
}

int pai_host_of(const struct pai_job *job, const struct pai_task *task)
{
    const struct pai_task *head = pai_head_of(job);
    int at = (int) (task - job->tasks);

    return task == head ? 0 : task < head ? at + 1 : at;
}

const char *pai_task_name(const struct pai_task *task, char text[PAI_HOST_MAX])
{
    snprintf(text, PAI_HOST_MAX, "%s-%d", task->role, task->index);
    return text;
}

/* Whether a task has an exit code that its own program can have given. */
static bool has_own_code(int version, const struct pai_task *task)
{
    const struct pai_exit *known;

    if (!task || !task->has_exit || task->exit_code < 0 || task->exit_code > 255)
        return false;
    known = pai_exit_find(version, task->exit_code);
    return !known || known->fault == PAI_FAULT_NONE || known->fault == PAI_FAULT_USER;
}

static const struct pai_task *find_task(const struct pai_job *job, const char *role, int index)
{
    for (size_t i = 0; role && *role && i < job->ntasks; i++) {
        if (strcmp(job->tasks[i].role, role) == 0 && job->tasks[i].index == index)
            return &job->tasks[i];
    }
    return NULL;
}

/* The task other than the head that has ended the job, as the server says, or the first that has
 * failed. */
static const struct pai_task *find_culprit(const struct pai_job *job)
{
    const struct pai_task *task = find_task(job, job->trigger_role, job->trigger_index);

    for (size_t i = 0; !task && i < job->ntasks; i++) {
        if (job->tasks[i].state == PAI_FAILED)
            task = &job->tasks[i];
    }
    return task;
}

/* "worker-1: it was killed, as it used more memory than it may (exit code -7200)" */
static void explain(int version, const struct pai_job *job, int exit_code, struct rg_error *err)
{
    const struct pai_task *task = find_culprit(job);
    int code = task && task->has_exit ? task->exit_code : job->exit_code;
    bool has_code = task ? task->has_exit : job->has_exit;
    const struct pai_exit *known = has_code ? pai_exit_find(version, code) : NULL;
    const char *said = task && *task->said ? task->said : job->said ? job->said : "";
    char name[PAI_HOST_MAX], number[48] = "";

    if (has_code)
        snprintf(number, sizeof(number), " (exit code %d)", code);
    rg_error_set_exit(err, ECANCELED, exit_code, "OpenPAI has ended the job%s%s: %s%s%s%s",
                      task ? " for " : "", task ? pai_task_name(task, name) : "",
                      known ? known->words : "it failed", number, *said ? ": " : "", said);
}

int pai_verdict(int version, const struct pai_job *job, struct rg_error *err)
{
    const struct pai_task *head = pai_head_of(job);

    if (job->state == PAI_SUCCEEDED)
        return RG_EXIT_OK;
    if (job->state == PAI_STOPPED) {
        rg_error_set_exit(err, ECANCELED, RG_EXIT_PREEMPTED, "job %s was stopped on OpenPAI, by "
                          "reigen stop or in another way", job->name);
        return RG_EXIT_PREEMPTED;
    }
    if (has_own_code(version, head) && head->exit_code != 0)
        return head->exit_code;
    int code = pai_job_exit(version, job);
    explain(version, job, code, err);
    return code;
}
