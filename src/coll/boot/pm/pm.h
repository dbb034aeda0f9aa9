/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boots over what other launchers' process managers offer: an MPI that this process has
 * (mpi.c), PMIx (pmix.c), PMI-1 and PMI-2 (pmi_boot.c).
 */
#ifndef RG_COLL_BOOT_PM_PM_H
#define RG_COLL_BOOT_PM_PM_H

#include "coll/boot/boot.h"

extern const struct rg_boot_ops rg_boot_mpi;
extern const struct rg_boot_ops rg_boot_pmix;
extern const struct rg_boot_ops rg_boot_pmi;

#endif
