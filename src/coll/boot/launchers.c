/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a launcher says by variables goes through here. */
#include "coll/boot/launchers.h"

#include <stdio.h>

#include "base/str.h"
#include "reigen/reigen.h"

const char *rg_var(const char *name)
{
    const char *text = getenv(name);

    return text && text[0] ? text : NULL;
}

int rg_var_int(const char *name, int64_t min, int64_t max, int64_t *ret_n, struct rg_error *err)
{
    const char *text = rg_var(name);
    int r = text ? rg_parse_int(name, text, min, max, ret_n, err) : 0;

    return r < 0 ? r : text != NULL;
}

int rg_var_optional(const char *name, int64_t min, int64_t max, int *ret_n, struct rg_error *err)
{
    int64_t n;
    int r = rg_var_int(name, min, max, &n, err);

    if (r == 1)
        *ret_n = (int) n;
    return r < 0 ? r : 0;
}

int rg_var_rank_size(const char *rank_name, const char *size_name, int *ret_rank, int *ret_size,
                     struct rg_error *err)
{
    int64_t rank = 0, size = 0;
    int has_rank = rg_var_int(rank_name, 0, REIGEN_SIZE_MAX - 1, &rank, err);
    int has_size = has_rank < 0 ? 0 : rg_var_int(size_name, 1, REIGEN_SIZE_MAX, &size, err);

    if (has_rank < 0 || has_size < 0)
        return has_rank < 0 ? has_rank : has_size;
    if (has_rank != has_size)
        return rg_error_set(err, EINVAL, "%s is set and %s is not: set both, or neither to run "
                            "alone", has_rank ? rank_name : size_name,
                            has_rank ? size_name : rank_name);
    if (!has_rank)
        return 0;
    if (rank >= size)
        return rg_error_set(err, EINVAL, "%s=%d: with %s=%d ranks are 0 to %d", rank_name,
                            (int) rank, size_name, (int) size, (int) size - 1);
    *ret_rank = (int) rank;
    *ret_size = (int) size;
    return 1;
}

int rg_var_identity(const char *prefix, struct rg_boot_identity *identity, struct rg_error *err)
{
    const struct { const char *name; int min, *to; } places[] = {
        { "LOCAL_SIZE", 1, &identity->local_size }, { "LOCAL_RANK", 0, &identity->local_rank },
        { "CROSS_SIZE", 1, &identity->cross_size }, { "CROSS_RANK", 0, &identity->cross_rank } };
    char name[64], size_name[64];

    snprintf(name, sizeof(name), "%s_RANK", prefix);
    snprintf(size_name, sizeof(size_name), "%s_SIZE", prefix);
    int set = rg_var_rank_size(name, size_name, &identity->rank, &identity->size, err);
    int r = 0;

    for (size_t i = 0; i < rg_array_len(places) && set == 1 && r == 0; i++) {
        snprintf(name, sizeof(name), "%s_%s", prefix, places[i].name);
        r = rg_var_optional(name, places[i].min, identity->size - 1 + places[i].min, places[i].to,
                            err);
    }
    return r < 0 ? r : set;
}

/* ---- what is claimed */

static const struct {
    struct rg_claim claim;
    const char *with; /* a variable that must be there as well, or NULL */
    bool mpi;
} launchers[] = {
    { { "mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE",
        "PMIX_NAMESPACE, PMIX_RANK and PMIX_SERVER_URI2, which mpirun sets beside it, must reach "
        "the ranks too", 0 }, "OMPI_COMM_WORLD_RANK", true },
    { { "mpirun of MPICH or Intel MPI, or srun", "PMI_SIZE",
        "PMI_FD, the descriptor to the process manager, must reach the ranks too", 0 }, "PMI_RANK",
      true },
    { { "mpirun_rsh of MVAPICH", "MV2_COMM_WORLD_SIZE", "use mpiexec.hydra, which speaks PMI-1",
        0 }, "MV2_COMM_WORLD_RANK", true },
    { { "srun", "SLURM_STEP_NUM_TASKS",
        "start the ranks with srun --mpi=pmix or srun --mpi=pmi2 (srun --mpi=list names what there "
        "is)", 0 }, "SLURM_STEP_ID", false },
};

static bool find(bool only_mpi, struct rg_claim *ret_claim)
{
    for (size_t i = 0; i < rg_array_len(launchers); i++) {
        struct rg_claim claim = launchers[i].claim;
        int64_t size = 0;

        if ((only_mpi && !launchers[i].mpi) || !rg_var(launchers[i].with) ||
            rg_var_int(claim.variable, 2, REIGEN_SIZE_MAX, &size, NULL) != 1)
            continue;
        claim.size = (int) size;
        *ret_claim = claim;
        return true;
    }
    return false;
}

bool rg_claim_find(struct rg_claim *ret_claim)
{
    return find(false, ret_claim);
}

bool rg_launched_by_mpi(void)
{
    struct rg_claim claim;

    return find(true, &claim);
}

int rg_claim_check_alone(struct rg_error *err)
{
    struct rg_claim claim;

    if (!rg_claim_find(&claim))
        return 0;
    return rg_error_set(err, EPROTO, "%s started %d ranks (%s=%d), and this one has no way to the "
                        "others: %s. If it is to run alone, set REIGEN_BOOT=single",
                        claim.launcher, claim.size, claim.variable, claim.size, claim.remedy);
}

int rg_claim_check_world_of_one(const char *who, struct rg_error *err)
{
    struct rg_claim claim;

    if (!rg_claim_find(&claim))
        return 0;
    return rg_error_set(err, EPROTO, "%s started %d ranks (%s=%d), and %s knows of one rank only: "
                        "it does not belong to that launcher. Start the ranks with the mpirun of "
                        "the MPI that they load. If each is to run alone, set REIGEN_BOOT=single",
                        claim.launcher, claim.size, claim.variable, claim.size, who);
}

bool rg_launched_by_torchrun(void)
{
    return rg_var("TORCHELASTIC_RUN_ID") && rg_var("RANK") && rg_var("WORLD_SIZE");
}
