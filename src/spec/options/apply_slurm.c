/* SPDX-License-Identifier: Apache-2.0 */
/* Options of --on slurm. What they mean in an allocation that there is already, the driver says. */
#include <string.h>

#include "spec/options/apply.h"
#include "spec/job/slurm.h"

static int keep_nodes(char **text, const char *what, const char *value, struct rg_error *err)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    int r = rg_slurm_nodes(what, value, &names, err);

    return r < 0 ? r : rg_parse_text(what, value, text, err);
}

int rg_apply_slurm_nodes(struct rg_request *request, const char *what, const char *value,
                         struct rg_error *err)
{
    int64_t n;
    int r = rg_parse_int(what, value, 1, RG_JOB_HOSTS_MAX, &n, err);

    if (r == 0)
        request->job.slurm.nodes = (int) n;
    return r;
}

int rg_apply_slurm_nodelist(struct rg_request *request, const char *what, const char *value,
                            struct rg_error *err)
{
    return keep_nodes(&request->job.slurm.nodelist, what, value, err);
}

int rg_apply_slurm_exclude(struct rg_request *request, const char *what, const char *value,
                           struct rg_error *err)
{
    return keep_nodes(&request->job.slurm.exclude, what, value, err);
}

int rg_apply_slurm_partition(struct rg_request *request, const char *what, const char *value,
                             struct rg_error *err)
{
    return rg_parse_text(what, value, &request->job.slurm.partition, err);
}

int rg_apply_slurm_gres(struct rg_request *request, const char *what, const char *value,
                        struct rg_error *err)
{
    return rg_parse_text(what, value, &request->job.slurm.gres, err);
}

int rg_apply_slurm_time(struct rg_request *request, const char *what, const char *value,
                        struct rg_error *err)
{
    return rg_parse_text(what, value, &request->job.slurm.time, err);
}

int rg_apply_slurm_account(struct rg_request *request, const char *what, const char *value,
                           struct rg_error *err)
{
    return rg_parse_text(what, value, &request->job.slurm.account, err);
}

int rg_apply_slurm_option(struct rg_request *request, const char *what, const char *value,
                          struct rg_error *err)
{
    if (*value != '-')
        return rg_error_set(err, EINVAL, "%s %s: it must begin with a dash, such as "
                            "--slurm-option=--constraint=ib", what, value);
    return rg_strv_add(&request->job.slurm.options, value) < 0
               ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}

int rg_apply_slurm_submit(struct rg_request *request, const char *what, const char *value,
                          struct rg_error *err)
{
    (void) what, (void) err;
    request->job.slurm.submit = strcmp(value, "true") == 0;
    return 0;
}
