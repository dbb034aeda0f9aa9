/* SPDX-License-Identifier: Apache-2.0 */
/* A task of an OpenPAI job: nothing can be mounted, so all that it is told stands in variables. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/openpai/inside/tasks.h"

#define PLAN "REIGEN_PLAN"

static int read_plan(struct rg_planned *planned, struct rg_error *err)
{
    const char *text = getenv(PLAN);
    size_t room = text ? strlen(text) : 0, nbytes = 0;
    rg_autofree uint8_t *bytes = malloc(room + 1);

    if (!bytes)
        return rg_error_memory(err);
    if (!room || sodium_base642bin(bytes, room, text, room, " \n", &nbytes, NULL,
                                   sodium_base64_VARIANT_ORIGINAL) < 0)
        return rg_error_set(err, EBADMSG, PLAN ": no plan, which is written in base64");
    rg_tasks_forget(PLAN);
    int r = rg_planned_decode(bytes, nbytes, planned, err);
    if (r == 0)
        planned->job.notice_ms = rg_tasks_notice_ms();
    return r < 0 ? rg_error_prepend(err, PLAN) : 0;
}

static bool here(void)
{
    return rg_tasks_here();
}

static int find(struct rg_pod *pod, struct rg_error *err)
{
    RG_AUTO_TASKS struct rg_tasks tasks = RG_TASKS_INIT;
    static char head[RG_TASKS_NAME_MAX + sizeof("the task ")];

    *pod = (struct rg_pod){
        .planned = getenv(PLAN) != NULL,
        .ends_alike = true,
        .itself = "this task",
        .head = head,
        .doubt = "has its task started, and can this one reach its address?",
        .key = rg_tasks_take_key,
        .plan = read_plan,
    };
    int r = rg_tasks_read(&tasks, err);
    if (r < 0)
        return r;
    snprintf(head, sizeof(head), "the task %s", tasks.names.v[0]);
    snprintf(pod->place, sizeof(pod->place), "%s", tasks.names.v[tasks.own]);
    pod->leads = tasks.own == 0;
    if (pod->leads && !pod->planned)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "%s has the head, and there is no plan for it in " PLAN ": run "
                                 "`reigen run` there, which the other tasks wait for", head);
    if (!pod->leads)
        r = rg_tasks_head(pod->address, err);
    return r;
}

const struct rg_pod_platform rg_pod_openpai = { .here = here, .find = find };
