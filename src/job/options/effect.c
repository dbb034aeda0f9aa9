/* SPDX-License-Identifier: Apache-2.0 */
/* What options need, in one table: whether a job has it, and what to say where it has not. */
#include "job/options/effect.h"

#include <stdlib.h>

#include "base/buf.h"
#include "job/hostlist.h"
#include "job/options/apply.h"
#include "job/platform.h"

static bool has_ssh(const struct rg_request *request)
{
    const struct rg_job *job = &request->job;
    const struct rg_platform *own = rg_platform_of(job);
    bool elsewhere = job->elastic.discovery || request->discovery;

    if (rg_env_get(&job->settings, RG_JOB_EXEC))
        return false;
    for (size_t i = 0; i < job->nhosts; i++)
        elsewhere |= job->hosts[i].user || !rg_host_is_local(job->hosts[i].name);
    return own->any_host || (!job->on && elsewhere);
}

static bool is_elastic(const struct rg_request *request)
{
    const struct rg_elastic *elastic = &request->job.elastic;

    return elastic->on || elastic->min_np || elastic->max_np || elastic->spares;
}

static bool has_script(const struct rg_request *request)
{
    return request->job.elastic.discovery || request->discovery;
}

static bool has_container(const struct rg_request *request)
{
    return request->job.container.image || rg_platform_of(&request->job)->own_containers;
}

static bool has_restarts(const struct rg_request *request)
{
    return request->job.max_restarts > 0;
}

/* A job that is handed over gets an allocation of its own, wherever that is done. */
static bool is_asking(const struct rg_request *request)
{
    const char *variable = rg_platform_of(&request->job)->variable;

    return request->job.submit || !variable || !getenv(variable);
}

static const struct {
    enum rg_option_need need;
    bool (*has)(const struct rg_request *request);
    const char *why; /* behind "no effect, as" */
} needs[] = {
    { RG_NEEDS_SSH, has_ssh, "no host of this job is reached by ssh" },
    { RG_NEEDS_ELASTIC, is_elastic, "this job is not elastic; --min-np or --max-np makes it so" },
    { RG_NEEDS_SCRIPT, has_script, "no --host-discovery-script names the hosts" },
    { RG_NEEDS_CONTAINER, has_container, "there is no container; --image names one" },
    { RG_NEEDS_RESTARTS, has_restarts, "nothing is started again without --max-restarts" },
    { RG_NEEDS_ASKING, is_asking, "this runs in an allocation already, and asks for none" },
};

int rg_effect_settle(struct rg_request *request, struct rg_error *err)
{
    int r = 0;

    for (size_t n = 0; r == 0 && n < rg_array_len(needs); n++) {
        rg_autobuf struct rg_buf names = RG_BUF_INIT;

        for (size_t i = 0; i < request->given.count; i++) {
            const struct rg_option *option = rg_option_find(request->given.v[i]);
            if (option && option->needs == needs[n].need)
                rg_buf_printf(&names, "%s--%s", rg_buf_nbytes(&names) ? ", " : "", option->name);
        }
        if (rg_buf_nbytes(&names) && !needs[n].has(request))
            r = rg_request_note(request, "%s: no effect, as %s", rg_buf_text(&names),
                                needs[n].why);
    }
    return r < 0 ? rg_error_memory(err) : 0;
}
