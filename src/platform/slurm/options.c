/* SPDX-License-Identifier: Apache-2.0 */
/* Options of --on slurm, and a remark for who leaves it out. What options mean in an allocation
 * that there is already, the driver says. */

#include "platform/slurm/internal.h"
#include "job/slurm.h"
#include "job/options/options.h"

static int judge_nodes(const char *what, const char *value, struct rg_error *err)
{
    int64_t n;

    return rg_parse_int(what, value, 1, RG_JOB_HOSTS_MAX, &n, err);
}

static int judge_list(const char *what, const char *value, struct rg_error *err)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;

    return rg_slurm_nodes(what, value, &names, err);
}

static int judge_option(const char *what, const char *value, struct rg_error *err)
{
    if (*value != '-')
        return rg_error_set(err, EINVAL, "%s %s: it must begin with a dash, such as "
                            "--slurm-option=--constraint=ib", what, value);
    return 0;
}

const struct rg_option slurm_options[] = {
    {"nodes", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "N", NULL, NULL,
     "With --on slurm: use N nodes of the allocation, or ask for N where there is none.",
     .judge = judge_nodes},
    {"nodelist", "w", NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "NODES", NULL, NULL,
     "With --on slurm: use these nodes, such as node[1-3,7].", .judge = judge_list},
    {"exclude", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "NODES", NULL, NULL,
     "With --on slurm: leave these nodes out.", .judge = judge_list},
    {"partition", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "NAME", NULL, NULL,
     "With --on slurm: ask for an allocation in this partition.", .needs = RG_NEEDS_ASKING},
    {"gres", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "LIST", NULL, NULL,
     "With --on slurm: ask for these on each node, such as gpu:2.", .needs = RG_NEEDS_ASKING},
    {"time", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "LIMIT", NULL, NULL,
     "With --on slurm: ask for so much time, as Slurm writes it: minutes, or "
     "hours:minutes:seconds.",
     .needs = RG_NEEDS_ASKING},
    {"account", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "NAME", NULL, NULL,
     "With --on slurm: charge this account.", .needs = RG_NEEDS_ASKING},
    {"slurm-option", NULL, NULL, RG_GROUP_WHERE, RG_FILE_LIST, "ARG", NULL, NULL,
     "Hand ARG to salloc or sbatch, such as --constraint=ib. May be repeated.",
     .judge = judge_option, .needs = RG_NEEDS_ASKING},
    {NULL}
};

bool slurm_remark(const struct rg_job *job, char *buf, size_t nbytes)
{
    const struct rg_strv env = rg_slurm_environment();

    return rg_slurm_remark(&env, job, buf, nbytes);
}
