/* SPDX-License-Identifier: Apache-2.0 */
/* What users may ask of a running job: timeline and diagnosis. */
#include "coll/api/api.h"
#include "coll/observe/diagnose.h"
#include "coll/planes/exec.h"
#include "coll/observe/timeline.h"

REIGEN_API int reigen_timeline_start(const char *path, int mark_cycles)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_error err = RG_ERROR_INIT;

    if (!rt)
        return rg_api_uninitialised();
    if (!path || !path[0])
        return rg_api_failf(EINVAL, "the timeline needs the path of a file");
    if (rg_timeline_start(path, rt->team->rank, mark_cycles != 0, rt->config.timeline_all_ranks,
                          &err) < 0)
        return rg_api_fail(&err);
    return 0;
}

REIGEN_API int reigen_timeline_stop(void)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();

    if (!rt)
        return rg_api_uninitialised();
    rg_timeline_stop();
    return 0;
}

REIGEN_API int reigen_diagnose(int timeout_ms, char **ret_json)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    int r;

    if (!rt)
        return rg_api_uninitialised();
    r = rg_diagnose(rt->progress, rg_api_deadline(timeout_ms), ret_json);
    return r < 0 ? rg_api_failf(-r, "out of memory") : 0;
}

REIGEN_API int reigen_planes(char **ret_text)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char *copy;

    if (!rt)
        return rg_api_uninitialised();
    rg_exec_scores(rt->progress->exec, &text);
    copy = rg_buf_status(&text) < 0 ? NULL : strdup(rg_buf_text(&text));
    if (!copy)
        return rg_api_failf(ENOMEM, "out of memory");
    *ret_text = copy;
    return 0;
}

REIGEN_API void reigen_free(void *memory)
{
    free(memory);
}
