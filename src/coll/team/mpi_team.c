/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/team/mpi_team.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "coll/boot/launchers.h"
#include "coll/team/team_parts.h"

static atomic_bool spoiled;

void rg_mpi_team_spoil(void)
{
    atomic_store(&spoiled, true);
}

void rg_mpi_prepare(const struct rg_config *config)
{
    const struct rg_mpi_shim_ops *ops;
    int level;

    if (!(config->planes & RG_PLANE_MPI) || rg_mpi_shim_load(&ops, NULL) < 0 ||
        ops->initialized() || ops->finalized())
        return;
    /* The ranks of a torchrun inside an mpirun have inherited one place among them all. What comes
     * of it is seen in the facts. */
    if (config->mpi_asked || (rg_mpi_launched(ops) && !rg_launched_by_torchrun()))
        ops->init(&level);
}

static int find_place(struct rg_mpi_comm *ret_world, struct rg_error *err)
{
    const struct rg_mpi_shim_ops *ops;
    int r, code;

    if (atomic_load(&spoiled))
        return rg_error_set(err, EPERM, "an operation of MPI's was given up in this process");
    r = rg_mpi_shim_load(&ops, err);
    if (r == 0)
        r = rg_mpi_usable(ops, err);
    if (r < 0)
        return r;
    code = ops->world(ret_world);
    return code != 0 ? rg_mpi_error(ops, code, "MPI_COMM_WORLD", err) : 0;
}

void rg_mpi_info_read(const struct rg_config *config, int size, struct rg_mpi_info *ret_facts)
{
    struct rg_mpi_info facts = { .wanted = config->planes & RG_PLANE_MPI, .rank = -1 };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_mpi_comm world;

    if (!facts.wanted) {
        snprintf(facts.why, sizeof(facts.why), "it does not ask for MPI, by REIGEN_MPI or "
                 "REIGEN_PLANES");
    } else if (size > 1 && find_place(&world, &err) == 0) {
        facts.rank = world.rank;
        facts.size = world.size;
    } else {
        snprintf(facts.why, sizeof(facts.why), "%.*s", RG_MPI_WHY_MAX, err.text);
    }
    *ret_facts = facts;
}

static const char *const levels[] = { "SINGLE", "FUNNELED", "SERIALIZED", "MULTIPLE" };

int rg_mpi_thread_level(void)
{
    const struct rg_mpi_shim_ops *ops;
    int level = -1;

    if (rg_mpi_shim_load(&ops, NULL) < 0 || !ops->initialized() || ops->finalized() ||
        ops->level(&level) != 0 || level >= (int) rg_array_len(levels))
        return -1;
    return level;
}

void rg_mpi_describe(struct rg_buf *text)
{
    const struct rg_mpi_shim_ops *ops;
    int level = rg_mpi_thread_level();

    if (level >= 0 && rg_mpi_shim_load(&ops, NULL) == 0)
        rg_buf_printf(text, "mpi: %s, MPI_THREAD_%s\n", ops->abi, levels[level]);
}

/* *ret_ranks by rank, or NULL with the reason. */
static int map_ranks(const struct rg_rank_info *all, const struct rg_team *team, int *ranks,
                     int *holders, char why[RG_TEAM_REMARK_MAX])
{
    for (int r = 0; r < team->size; r++) {
        const struct rg_mpi_info *facts = &all[r].mpi;
        int shown = rg_team_world_rank(team, r);

        if (facts->rank < 0) {
            snprintf(why, RG_TEAM_REMARK_MAX, "rank %d: %s", shown, facts->why);
            return -ENOTSUP;
        }
        if (facts->size != all[0].mpi.size || facts->rank >= facts->size ||
            holders[facts->rank] != 0) {
            snprintf(why, RG_TEAM_REMARK_MAX, "rank %d is rank %d of %d of MPI, which does not fit "
                     "the other ranks: was it started by the mpirun of the MPI that it has "
                     "loaded?", shown, facts->rank, facts->size);
            return -ENOTSUP;
        }
        holders[facts->rank] = r + 1;
        ranks[r] = facts->rank;
    }
    return 0;
}

int rg_mpi_team_agree(const struct rg_rank_info *all, struct rg_team *team)
{
    bool wanted = false;
    int size = all[0].mpi.rank >= 0 ? all[0].mpi.size : 1;
    rg_autofree int *ranks = NULL, *holders = NULL;

    for (int r = 0; r < team->size; r++)
        wanted = wanted || all[r].mpi.wanted;
    if (!wanted || team->size == 1)
        return 0;
    ranks = calloc((size_t) team->size, sizeof(*ranks));
    holders = calloc((size_t) size, sizeof(*holders));
    if (!ranks || !holders)
        return -ENOMEM;
    if (map_ranks(all, team, ranks, holders, team->mpi_remark) == 0)
        team->mpi_ranks = rg_steal_ptr(&ranks);
    return 0;
}

int rg_mpi_team_comm(const struct rg_team *team, const struct rg_group *group, int tag,
                     const struct rg_mpi_shim_ops **ret_ops, struct rg_mpi_comm *ret_comm,
                     struct rg_error *err)
{
    const struct rg_mpi_shim_ops *ops;
    struct rg_mpi_comm world;
    rg_autofree int *ranks = NULL;
    int r, code;

    if (!team->mpi_ranks)
        return rg_error_set(err, ENOTSUP, "the mpi plane cannot be used: %s", team->mpi_remark);
    r = rg_mpi_shim_load(&ops, err);
    if (r < 0)
        return r;
    ranks = calloc((size_t) group->nmembers, sizeof(*ranks));
    if (!ranks)
        return rg_error_set(err, ENOMEM, "out of memory");
    for (int i = 0; i < group->nmembers; i++)
        ranks[i] = team->mpi_ranks[group->ranks ? group->ranks[i] : i];
    code = ops->world(&world);
    if (code == 0)
        code = ops->subset(&world, ranks, group->nmembers, tag, ret_comm);
    if (code != 0)
        return rg_mpi_error(ops, code, "MPI_Comm_create_group", err);
    *ret_ops = ops;
    return 0;
}
