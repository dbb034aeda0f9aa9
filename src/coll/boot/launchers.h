/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the variables of other launchers claim: so that a process which is one of many never runs
 * as one alone. Launchers nest (torchrun under srun, horovodrun in a Slurm step, mpirun in a job of
 * Reigen's), and their variables are inherited; which of them is the innermost follows from who can
 * start whom.
 *
 * Thread rule: as getenv: while no thread changes the environment.
 */
#ifndef RG_COLL_BOOT_LAUNCHERS_H
#define RG_COLL_BOOT_LAUNCHERS_H

#include <stdbool.h>

#include "base/error.h"

/* A launcher's word on how many ranks it started. */
struct rg_claim {
    const char *launcher; /* "mpirun of Open MPI" */
    const char *variable; /* "OMPI_COMM_WORLD_SIZE" */
    const char *remedy;   /* when its ranks cannot reach each other */
    int size;
};

/* The first launcher that says that there are several ranks. Broken numbers claim nothing. */
bool rg_claim_find(struct rg_claim *ret_claim);
/* 0 when nothing speaks against this process being alone; -EPROTO with cause and remedy. */
int rg_claim_check_alone(struct rg_error *err);
/* 0 when nothing speaks against who ("MPI in this process") being right, which knows of one rank;
 * -EPROTO with cause and remedy: it and the launcher are strangers to each other. */
int rg_claim_check_world_of_one(const char *who, struct rg_error *err);
/* torchrun started this process: what MPI's launchers left in the environment is older. */
bool rg_launched_by_torchrun(void);
/* An MPI's launcher says that this process is one of several. */
bool rg_launched_by_mpi(void);

#endif
