/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boots over what other launchers' process managers offer: an MPI that this process has
 * (mpi.c), PMIx (pmix.c), PMI-1 and PMI-2 (pmi_boot.c).
 *
 * Thread rule: the thread in reigen_init; nothing blocks here, and no rank has to take part.
 */
#ifndef RG_COLL_BOOT_PM_PM_H
#define RG_COLL_BOOT_PM_PM_H

#include "coll/boot/boot.h"

extern const struct rg_boot_ops rg_boot_mpi;
extern const struct rg_boot_ops rg_boot_pmix;
extern const struct rg_boot_ops rg_boot_pmi;

/* Where MPI has been initialised and knows of one rank only, while the job has several: a warning,
 * on rank 0. Reigen works, what the program does with MPI would not. */
void rg_mpi_beside_check(struct rg_boot_identity *identity);

#endif
