/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that a platform runs when it can: its driver is asked what has become of them. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "cmd/jobs/jobs.h"
#include "cmd/common/exit.h"

const struct rg_driver_ops *rg_jobs_find_submitted(const char *id, struct rg_submitted_job *ret_job)
{
    for (size_t i = 0; rg_drivers[i]; i++) {
        if (rg_drivers[i]->platform.queues &&
            rg_submitted_read(&rg_drivers[i]->platform, id, ret_job) == 0)
            return rg_drivers[i];
    }
    return NULL;
}

int rg_jobs_fail_submitted(const char *command, const struct rg_submitted_job *job,
                           struct rg_error *err)
{
    if (!err->exit_code)
        err->exit_code = RG_EXIT_UNAVAILABLE;
    rg_error_prepend(err, "job %s", job->id);
    return rg_fail(err, command);
}

int rg_jobs_list_submitted(struct rg_submitted_list *list)
{
    int r = 0;

    for (size_t i = 0; r == 0 && rg_drivers[i]; i++) {
        const struct rg_platform *platform = &rg_drivers[i]->platform;
        struct rg_error err = RG_ERROR_INIT;
        size_t first = list->count;
        r = platform->queues ? rg_submitted_list(platform, list) : 0;
        for (size_t k = first; k < list->count; k++) {
            if (rg_submitted_is_over(&list->jobs[k]))
                list->jobs[k].state = RG_SUBMITTED_ENDED;
        }
        if (r == 0 && list->count > first &&
            rg_drivers[i]->status(&list->jobs[first], list->count - first, &err) < 0)
            fprintf(stderr, "reigen: %s does not answer (%s): of jobs that were submitted it is "
                            "unknown whether they run\n", platform->title, err.text);
    }
    return r;
}

static void describe(const struct rg_submitted_job *job, struct rg_buf *text)
{
    const char *word = job->word ? job->word : "", *reason = job->reason ? job->reason : "";
    bool there = job->state == RG_SUBMITTED_WAITS || job->state == RG_SUBMITTED_RUNS;
    bool plain = !*word || strcmp(word, "COMPLETED") == 0 || strcmp(word, "FAILED") == 0;

    if (there && !(job->nodes && *job->nodes))
        rg_buf_printf(text, "job %s: %s%s%s\n", job->id, word, *reason ? ": " : "", reason);
    else if (there)
        rg_buf_printf(text, "job %s: %s on %s for %s\n", job->id, word, job->nodes, job->elapsed);
    else if (job->exit_code >= 0)
        rg_buf_printf(text, "job %s: ended with exit code %d%s%s%s%s\n", job->id, job->exit_code,
                      plain ? "" : ", for ", plain ? "" : job->platform->title,
                      plain ? "" : ": ", plain ? "" : word);
    else
        rg_buf_printf(text, "job %s: ended by %s before it could say how%s%s\n", job->id,
                      job->platform->title, *word ? ": " : "", word);
    rg_buf_printf(text, "  %s\n  output: %s\n", job->command, job->log);
}

int rg_jobs_print_submitted(const struct rg_driver_ops *driver, struct rg_submitted_job *job,
                            bool json)
{
    rg_cleanup(rg_jobs_table_fini) struct rg_jobs_table table = { NULL, 0, NULL };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;

    if (json && rg_submitted_is_over(job))
        job->state = RG_SUBMITTED_ENDED;
    int r = driver->status(job, 1, &err);
    if (json && rg_jobs_add_submitted(&table, job) < 0)
        return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, "status");
    if (json)
        return rg_jobs_print_json(json_incref(json_array_get(table.json, 0)));
    if (r < 0 && job->exit_code < 0)
        return rg_jobs_fail_submitted("status", job, &err);
    describe(job, &text);
    return rg_print(rg_buf_text(&text));
}
