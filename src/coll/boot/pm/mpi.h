/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MPI that a program uses beside us, where ranks have not met through it.
 *
 * Thread rule: the thread in reigen_init; nothing blocks, no rank has to take part.
 */
#ifndef RG_COLL_BOOT_PM_MPI_H
#define RG_COLL_BOOT_PM_MPI_H

#include "coll/boot/boot.h"

/* Where MPI has been initialised and knows of one rank only, while the job has several: a warning,
 * on rank 0. Reigen works, what the program does with MPI would not. */
void rg_mpi_beside_check(struct rg_boot_identity *identity);

#endif
