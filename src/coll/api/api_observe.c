/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline and the diagnosis, as users see them. */
#include "coll/api/api.h"
#include "coll/observe/observe.h"
#include "coll/observe/stacks.h"
#include "coll/observe/timeline.h"

rg_observe_fn *const rg_api_observe = rg_observe;

int rg_api_timeline_open(const struct rg_config *config, int rank, struct rg_error *err)
{
    if (!config->timeline.path[0])
        return 0;
    return rg_timeline_start(config->timeline.path, rank, config->timeline.marks_cycles,
                             config->timeline.all_ranks, err) < 0
               ? rg_error_prepend(err, "HOROVOD_TIMELINE")
               : 0;
}

void rg_api_timeline_close(void)
{
    rg_timeline_stop();
}

void rg_api_observe_after_fork(void)
{
    rg_timeline_after_fork();
    rg_stacks_after_fork();
}

REIGEN_API int reigen_timeline_start(const char *path, int mark_cycles)
{
    rg_inside struct rg_runtime *rt = rg_api_enter();
    struct rg_error err = RG_ERROR_INIT;

    if (!rt)
        return rg_api_uninitialised();
    if (!path || !path[0])
        return rg_api_failf(EINVAL, "the timeline needs the path of a file");
    if (rg_timeline_start(path, rt->team->rank, mark_cycles != 0, rt->config.timeline.all_ranks,
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
    r = rg_observe_diagnosis(rt->progress, rg_api_deadline(timeout_ms), ret_json);
    return r < 0 ? rg_api_failf(-r, "out of memory") : 0;
}

REIGEN_API int reigen_stacks_file(int *signum)
{
    int fd = rg_stacks_file(signum);

    return fd < 0 ? rg_api_failf(-fd, "no signal is free for the stacks of this program") : fd;
}

REIGEN_API int reigen_stacks_use(int signum, const char *own, const char *others)
{
    int r = rg_stacks_use(signum, own, others);

    return r < 0 ? rg_api_failf(-r, "signal %d has no function that writes stacks", signum) : 0;
}
