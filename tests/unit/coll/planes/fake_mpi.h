/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An MPI among the threads of one process, behind the shim's table: enough for the mpi plane, and
 * visible to the thread sanitizer. A collective is done when all members have posted theirs, a send
 * at once, a receive when its message has come; each only says so at a later call of test, some
 * calls after it could.
 *
 * Thread rule: fake_mpi_start and fake_mpi_stop while no member is at work; the rest is the shim's.
 */
#ifndef TEST_COLL_FAKE_MPI_H
#define TEST_COLL_FAKE_MPI_H

#include "coll/mpi/mpi_shim.h"

extern const struct rg_mpi_shim_ops fake_mpi_ops;

/* A world of n members, and its communicator as member me sees it. */
void fake_mpi_start(int n);
struct rg_mpi_comm fake_mpi_comm(int me);
/* Requests that are not done, of all members; frees what is left. */
int fake_mpi_stop(void);

/* From the count-th test of a request on, all fail. 0: none does. */
void fake_mpi_fail_after(int count);
/* How many times bytes were moved by each call since fake_mpi_start. */
struct fake_mpi_calls {
    int isend, ibcast, iallgather, iallgatherv, largest_nbytes;
};
struct fake_mpi_calls fake_mpi_calls(void);

#endif
