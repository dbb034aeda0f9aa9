/* SPDX-License-Identifier: Apache-2.0 */
/* Which directory it is, and what is said of it. */
#include "head/sync.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/exitcode.h"
#include "base/say.h"
#include "launch/sync/snapshot.h"

static bool is_folder(const char *path)
{
    struct stat st;

    return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* By --sync alone that in which ranks are to run; in a container it may be one of the image's. */
static const char *choose(const struct rg_job *job)
{
    return *job->sync ? job->sync : is_folder(job->cwd) ? job->cwd : ".";
}

static int check_cwd(const struct rg_job *job, const struct rg_snapshot *snapshot,
                     struct rg_error *err)
{
    rg_autofree char *cwd = job->cwd ? realpath(job->cwd, NULL) : NULL;

    if (!cwd || *rg_snapshot_cwd(snapshot) || strcmp(cwd, rg_snapshot_dir(snapshot)) == 0)
        return 0;
    return rg_error_set(err, EINVAL, "--cwd %s is not in %s, which --sync is to send; leave one of "
                        "them out", job->cwd, rg_snapshot_dir(snapshot));
}

static void say(const struct rg_planned *planned, const struct rg_strv *remarks)
{
    for (size_t i = 0; i < remarks->count && !planned->quiet; i++)
        rg_say("%s", remarks->v[i]);
}

int rg_head_sync_prepare(const struct rg_planned *planned, bool here,
                         struct rg_snapshot **ret_snapshot, struct rg_error *err)
{
    const struct rg_job *job = &planned->job;
    rg_autostrv struct rg_strv remarks = RG_STRV_INIT;
    struct rg_snapshot *snapshot = NULL;

    if (!job->sync || here)
        return 0;
    int r = rg_snapshot_make(choose(job), is_folder(job->cwd) ? job->cwd : ".", job->sync_nbytes,
                             &remarks, &snapshot, err);
    if (r == 0 && (r = check_cwd(job, snapshot, err)) < 0)
        rg_snapshot_free(rg_steal_ptr(&snapshot));
    if (r < 0)
        err->exit_code = r == -ENOMEM ? RG_EXIT_INTERNAL : RG_EXIT_USAGE;
    else
        say(planned, &remarks);
    *ret_snapshot = snapshot;
    return r;
}

void rg_head_sync_free(struct rg_snapshot *snapshot)
{
    rg_snapshot_free(snapshot);
}
