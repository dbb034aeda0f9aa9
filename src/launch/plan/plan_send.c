/* SPDX-License-Identifier: Apache-2.0 */
/* A plan that leaves this computer: what only this one knows is settled here. */
#include <stdlib.h>
#include <string.h>

#include "launch/plan/plan_file.h"

/* The caller's environment is not there. */
static int settle_env(struct rg_job *job)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    for (size_t i = 0; i < job->env.count; i++) {
        const char *entry = job->env.v[i], *value = strchr(entry, '=') ? "" : getenv(entry);
        if (strchr(entry, '='))
            rg_strv_add(&env, entry);
        else if (value)
            rg_strv_addf(&env, "%s=%s", entry, value);
    }
    if (rg_strv_status(&env) < 0)
        return -ENOMEM;
    rg_strv_fini(&job->env);
    job->env = env;
    env = (struct rg_strv) RG_STRV_INIT;
    return 0;
}

int rg_planned_send(const struct rg_planned *planned, struct rg_planned *ret_planned,
                    struct rg_error *err)
{
    rg_autobuf struct rg_buf copy = RG_BUF_INIT;
    RG_AUTO_PLANNED struct rg_planned theirs = { .quiet = false };
    int r = rg_planned_encode(planned, &copy, err);

    if (r == 0)
        r = rg_planned_decode(rg_buf_bytes(&copy), rg_buf_nbytes(&copy), &theirs, err);
    if (r == 0 && settle_env(&theirs.job) < 0)
        r = rg_error_memory(err);
    if (r < 0)
        return r;
    enum rg_inject inject = theirs.job.container.inject;
    rg_container_fini(&theirs.job.container);
    theirs.job.container = (struct rg_container){ .inject = inject };
    theirs.job.dry_run = theirs.job.submit = false;
    theirs.job.stdin_mode = RG_STDIN_NONE;
    *ret_planned = theirs;
    theirs = (struct rg_planned){ .quiet = false };
    return 0;
}
