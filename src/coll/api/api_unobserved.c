/* SPDX-License-Identifier: Apache-2.0 */
/* In place of api_observe.c where coll/observe is left out of the build (-Dobserve=disabled). */
#include <errno.h>

#include "coll/api/api.h"

#define TEXT "this build of Reigen has no timeline, no diagnosis and no stacks"

rg_observe_fn *const rg_api_observe = NULL;

int rg_api_timeline_open(const struct rg_config *config, int rank, struct rg_error *err)
{
    (void) rank;
    return config->timeline.path[0] ? rg_error_set(err, ENOTSUP, "HOROVOD_TIMELINE: " TEXT) : 0;
}

void rg_api_timeline_close(void) {}

void rg_api_observe_after_fork(void) {}

REIGEN_API int reigen_timeline_start(const char *path, int mark_cycles)
{
    (void) path;
    (void) mark_cycles;
    return rg_api_failf(ENOTSUP, TEXT);
}

REIGEN_API int reigen_timeline_stop(void)
{
    return rg_api_failf(ENOTSUP, TEXT);
}

REIGEN_API int reigen_diagnose(int timeout_ms, char **ret_json)
{
    (void) timeout_ms;
    (void) ret_json;
    return rg_api_failf(ENOTSUP, TEXT);
}

REIGEN_API int reigen_stacks_file(int *signum)
{
    (void) signum;
    return rg_api_failf(ENOTSUP, TEXT);
}

REIGEN_API int reigen_stacks_use(int signum, const char *own, const char *others)
{
    (void) signum;
    (void) own;
    (void) others;
    return rg_api_failf(ENOTSUP, TEXT);
}
