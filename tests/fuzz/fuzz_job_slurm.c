/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's lists of nodes, layouts, ports, and whole environments (one NAME=VALUE a line). */
#include "fuzz.h"
#include "job/hostlist.h"
#include "job/slurm.h"

#define NNODES 5

static void must_be_names(const struct rg_strv *names)
{
    must(names->count <= RG_SLURM_NODES_MAX);
    for (size_t i = 0; i < names->count; i++) {
        must(names->v[i][0] && names->v[i][0] != '-');
        must(strlen(names->v[i]) <= RG_HOST_NAME_MAX && !strpbrk(names->v[i], " ,[]/;'\"\n"));
    }
}

static void try_nodes(const char *text)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;

    if (rg_slurm_nodes("NODES", text, &names, &err) == 0)
        must(names.count > 0);
    else
        must(err.text[0]);
    must_be_names(&names);
}

static void try_counts(const char *text)
{
    int counts[NNODES] = { 0 };

    if (rg_slurm_counts("COUNTS", text, NNODES, counts, NULL) < 0)
        must(counts[0] == 0);
    else
        for (int i = 0; i < NNODES; i++)
            must(counts[i] >= 1 && counts[i] <= RG_JOB_RANKS_MAX);
}

static void try_ports(const char *text)
{
    struct rg_ports ports = { 0, 0 };

    if (rg_slurm_conf_ports(text, &ports) == 0)
        must(ports.first >= 1 && ports.first <= ports.last && ports.last <= 65535);
}

static void try_environment(char *text)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;
    char *line;

    while ((line = strsep(&text, "\n")))
        if (strchr(line, '='))
            must(rg_strv_add(&env, line) == 0);
    for (enum rg_slurm_scope scope = RG_SLURM_JOB; scope <= RG_SLURM_STEP; scope++) {
        RG_AUTO_SLURM_ALLOCATION struct rg_slurm_allocation a = { 0 };
        struct rg_error err = RG_ERROR_INIT;
        if (rg_slurm_allocation_read(&env, scope, &a, &err) < 0) {
            must(err.text[0] && !a.nnodes && !a.job_id);
            continue;
        }
        must(a.nnodes > 0 && a.nnodes <= RG_SLURM_NODES_MAX && a.job_id[0]);
        must(scope == RG_SLURM_JOB || a.step_id);
        for (size_t i = 0; i < a.gpus.count; i++)
            must(a.gpus.v[i][0] && a.gpus.v[i][0] != '-' && !strpbrk(a.gpus.v[i], " ,\"'=\n"));
        for (size_t i = 0; i < a.nnodes; i++) {
            int n = rg_slurm_slots(&a, scope, i);
            must(n >= 1 && n <= RG_JOB_SLOTS_MAX && a.nodes[i].name[0]);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    char buf[4096];

    try_nodes(text_of(data, nbytes, buf, sizeof buf));
    try_counts(buf);
    try_ports(buf);
    int gpus = rg_slurm_gres_gpus(buf);
    must(gpus >= 0 && gpus <= RG_JOB_SLOTS_MAX);
    try_environment(buf);
    return 0;
}
