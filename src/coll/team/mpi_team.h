/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the ranks of a team can reach each other by the user's MPI: each says in its facts
 * (team_parts.h) whether it may and can, and where it is in MPI_COMM_WORLD; all draw the same
 * conclusion. They use it if every rank can, and all are different ranks of one world: N processes
 * that an mpirun of another kind has started are N worlds of one rank each, and are found out here.
 *
 * Thread rule: those of rg_rank_info_read and of a plane's open; rg_mpi_team_spoil from any thread.
 */
#ifndef RG_COLL_TEAM_MPI_TEAM_H
#define RG_COLL_TEAM_MPI_TEAM_H

#include <stdbool.h>

#include "base/error.h"
#include "coll/ground/config.h"
#include "coll/mpi/mpi_shim.h"
#include "coll/planes/plane.h"

#define RG_MPI_WHY_MAX 255

struct rg_buf;
struct rg_rank_info;

/* What a rank says. */
struct rg_mpi_info {
    bool wanted;                  /* REIGEN_MPI, REIGEN_PLANES or Horovod's variables say so */
    int rank, size;               /* in MPI_COMM_WORLD; rank -1: it cannot ... */
    char why[RG_MPI_WHY_MAX + 1]; /* ... and why */
};

/* Initialise MPI, where it is wanted and there but not initialised, if its launcher has started
 * this process or REIGEN_MPI asks for it. Before any fence: blocks until all ranks of MPI have
 * come, and with them rank 0, who may be the one that serves fences. */
void rg_mpi_prepare(const struct rg_config *config);

/* This process's. */
void rg_mpi_info_read(const struct rg_config *config, int size, struct rg_mpi_info *ret_facts);

/* Of all ranks, by rank. Sets team->mpi_ranks if all can, else team->mpi_remark if any wanted it. 0
 * or -ENOMEM. */
int rg_mpi_team_agree(const struct rg_rank_info *all, struct rg_team *team);

/* A communicator of the group's members, called by all of them and blocking until they have come;
 * tag: of groups that are made at once. 0; -ENOTSUP: the team does not use MPI; -EIO. */
int rg_mpi_team_comm(const struct rg_team *team, const struct rg_group *group, int tag,
                     const struct rg_mpi_shim_ops **ret_ops, struct rg_mpi_comm *ret_comm,
                     struct rg_error *err);

/* "mpi: openmpi, MPI_THREAD_MULTIPLE" and a newline, appended, where this process has an MPI that
 * is initialised. */
void rg_mpi_describe(struct rg_buf *text);

/* MPI_THREAD_SINGLE (0) to MPI_THREAD_MULTIPLE (3) of that MPI; -1: there is none. */
int rg_mpi_thread_level(void);

/* An operation was given up, and MPI may still be at it: teams that are made later in this process
 * keep out of MPI. */
void rg_mpi_team_spoil(void);

#endif
