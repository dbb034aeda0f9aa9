/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks run when a directory goes with them: at the place in it where the user is. */
#include "head/sync.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "launch/sync/sync.h"

/* dir: real. Without --cwd the user may be elsewhere, and then DIR itself is meant. */
static int settle_cwd(struct rg_job *job, const char *dir, struct rg_error *err)
{
    char cwd[PATH_MAX];

    if (!realpath(job->cwd ? job->cwd : ".", cwd))
        return rg_error_set_exit(err, errno, RG_EXIT_USAGE, "--cwd %s: %s",
                                 job->cwd ? job->cwd : ".", strerror(errno));
    if (rg_sync_is_in(cwd, dir))
        return 0;
    if (job->cwd)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "--cwd %s is not in %s, which --sync "
                                 "sends; leave --cwd out, or name a directory in it", job->cwd,
                                 dir);
    job->cwd = strdup(dir);
    return job->cwd ? 0 : rg_error_memory(err);
}

/* What is there already of what this job writes, or an earlier one wrote. */
static int list_own(const struct rg_job *job, struct rg_strv *own)
{
    const char *const paths[] = { job->output_dir, job->metrics, job->record };
    char path[PATH_MAX];
    int r = 0;

    for (size_t i = 0; r == 0 && i < 3; i++) {
        if (paths[i] && realpath(paths[i], path))
            r = rg_strv_add(own, path);
    }
    return r;
}

int rg_head_sync_prepare(struct rg_job *job, bool here,
                         void (*say)(void *arg, const char *text), void *arg,
                         struct rg_sync **ret_sync, struct rg_error *err)
{
    rg_autostrv struct rg_strv own = RG_STRV_INIT;
    char dir[PATH_MAX];
    int r;

    if (!job->sync)
        return 0;
    if (!realpath(job->sync, dir))
        return rg_error_set_exit(err, errno, RG_EXIT_USAGE, "--sync %s: %s", job->sync,
                                 strerror(errno));
    r = settle_cwd(job, dir, err);
    if (r < 0 || here)
        return r;
    if (list_own(job, &own) < 0)
        return rg_error_memory(err);
    return rg_sync_create(dir, job->cwd ? job->cwd : ".", &own, say, arg, ret_sync, err);
}

void rg_head_sync_free(struct rg_sync *sync)
{
    rg_sync_destroy(sync);
}
