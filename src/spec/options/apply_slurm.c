/* SPDX-License-Identifier: Apache-2.0 */
/* Options of --on slurm. What they mean in an allocation that there is already, the driver says. */
#include <string.h>

#include "spec/options/apply.h"
#include "spec/job/slurm.h"

static int keep(char **text, const char *what, const char *value, struct rg_error *err)
{
    if (!*value)
        return rg_error_set(err, EINVAL, "%s: the value is empty", what);
    char *copy = strdup(value);

    if (!copy)
        return rg_error_set(err, ENOMEM, "out of memory");
    free(*text);
    *text = copy;
    return 0;
}

static int keep_nodes(char **text, const char *what, const char *value, struct rg_error *err)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    int r = rg_slurm_nodes(what, value, &names, err);

    return r < 0 ? r : keep(text, what, value, err);
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
    return keep(&request->job.slurm.partition, what, value, err);
}

int rg_apply_slurm_gres(struct rg_request *request, const char *what, const char *value,
                        struct rg_error *err)
{
    return keep(&request->job.slurm.gres, what, value, err);
}

int rg_apply_slurm_time(struct rg_request *request, const char *what, const char *value,
                        struct rg_error *err)
{
    return keep(&request->job.slurm.time, what, value, err);
}

int rg_apply_slurm_account(struct rg_request *request, const char *what, const char *value,
                           struct rg_error *err)
{
    return keep(&request->job.slurm.account, what, value, err);
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
