/* SPDX-License-Identifier: Apache-2.0 */
/* All variables of other launchers that say how many ranks there are, in one table. */
#include "coll/boot/launchers.h"

#include "base/str.h"
#include "coll/boot/vars.h"
#include "reigen/reigen.h"

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

bool rg_claim_find(struct rg_claim *ret_claim)
{
    for (size_t i = 0; i < rg_array_len(launchers); i++) {
        struct rg_claim claim = launchers[i].claim;
        int64_t size = 0;

        if (!rg_var(launchers[i].with) ||
            rg_var_int(claim.variable, 2, REIGEN_SIZE_MAX, &size, NULL) != 1)
            continue;
        claim.size = (int) size;
        *ret_claim = claim;
        return true;
    }
    return false;
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

bool rg_launched_by_mpi(void)
{
    for (size_t i = 0; i < rg_array_len(launchers); i++) {
        int64_t size = 0;

        if (launchers[i].mpi && rg_var(launchers[i].with) &&
            rg_var_int(launchers[i].claim.variable, 2, REIGEN_SIZE_MAX, &size, NULL) == 1)
            return true;
    }
    return false;
}
