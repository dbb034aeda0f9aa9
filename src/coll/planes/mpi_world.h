/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the ranks of a team can reach each other by the user's MPI: each offers (plane.h) whether
 * it may and can, and where it is in MPI_COMM_WORLD; all draw the same conclusion. They use it if
 * every rank can, and all are different ranks of one world: N processes that an mpirun of another
 * kind has started are N worlds of one rank each, and are found out here.
 *
 * Thread rule: those of the vtable's functions; rg_mpi_world_spoil from any thread.
 */
#ifndef RG_COLL_PLANES_MPI_WORLD_H
#define RG_COLL_PLANES_MPI_WORLD_H

#include "coll/mpi/mpi_shim.h"
#include "coll/planes/plane.h"

/* Of the vtable. */
int rg_mpi_world_asked(struct rg_error *err);
/* Initialises MPI, where it is there but not initialised, if its launcher has started this process
 * or the user insists. Blocks until all ranks of MPI have come, and with them rank 0, who may be
 * the one that serves fences. */
void rg_mpi_world_prepare(bool insisted);
int rg_mpi_world_offer(const struct rg_config *config, int rank, int size, bool allowed,
                       struct rg_buf *offer, struct rg_error *err);
int rg_mpi_world_agree(const struct rg_plane_options *options, struct rg_error *err);
/* "mpi: openmpi, MPI_THREAD_MULTIPLE" where this process has an MPI that is initialised. */
void rg_mpi_world_describe(struct rg_buf *text);
unsigned rg_mpi_world_mpi(bool opened);

/* A communicator of the group's members, called by all of them and blocking until they have come;
 * tag: of groups that are made at once. 0, -EBADMSG, -ENOMEM, -EIO. */
int rg_mpi_world_comm(const struct rg_plane_options *options, int tag,
                      const struct rg_mpi_shim_ops **ret_ops, struct rg_mpi_comm *ret_comm,
                      struct rg_error *err);

/* An operation was given up, and MPI may still be at it: teams that are made later in this process
 * keep out of MPI. */
void rg_mpi_world_spoil(void);

#endif
