/* SPDX-License-Identifier: Apache-2.0 */
/* People give the beginning of an id, or Slurm's number; several jobs may fit. */
#include <stdio.h>
#include <string.h>

#include "cmd/common/exit.h"
#include "cmd/jobs/jobs.h"

#define NAMED_MAX 4

static bool is_meant(const struct rg_registry_job *job, const char *id)
{
    for (size_t i = 0; i < job->restarts.count; i++) {
        if (rg_str_starts(job->restarts.v[i], id))
            return true;
    }
    return rg_str_starts(job->id, id) || (job->within && strcmp(job->within_id, id) == 0);
}

/* How many are meant; of those *ret_index is the last. One whose whole id it is wins. */
static int count_meant(const struct rg_registry *registry, const char *id, size_t *ret_index)
{
    int count = 0;

    for (size_t i = 0; i < registry->count; i++) {
        if (!is_meant(&registry->jobs[i], id))
            continue;
        *ret_index = i;
        count++;
        if (strcmp(registry->jobs[i].id, id) == 0)
            return 1;
    }
    return count;
}

static int fail_ambiguous(const char *command, const char *id, const struct rg_registry *registry,
                          int count)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    int named = 0;

    for (size_t i = 0; i < registry->count; i++) {
        if (is_meant(&registry->jobs[i], id) && named++ < NAMED_MAX)
            rg_buf_printf(&names, "%s%s", named > 1 ? ", " : "", registry->jobs[i].id);
    }
    return rg_fail_usage(command, "%s %s: %d jobs begin so: %s%s; give more of its id", command, id,
                         count, rg_buf_text(&names), count > NAMED_MAX ? ", ..." : "");
}

int rg_jobs_find(const char *command, const char *id, struct rg_registry_job *ret_job)
{
    for (int ended = 0; ended < 2 && *id; ended++) {
        rg_cleanup(rg_registry_fini) struct rg_registry registry = { 0 };
        size_t at = 0;
        int r = ended ? rg_registry_list_ended(&registry) : rg_registry_list(&registry);
        if (r < 0)
            return rg_fail(&(struct rg_error){ ENOMEM, 0, "out of memory" }, command);
        int count = count_meant(&registry, id, &at);
        if (count > 1)
            return fail_ambiguous(command, id, &registry, count);
        if (count == 0)
            continue;
        *ret_job = registry.jobs[at];
        registry.jobs[at] = (struct rg_registry_job){ 0 };
        return 0;
    }
    return rg_fail_usage(command, "%s %.80s: no such job; reigen jobs --all lists them", command,
                         id);
}
