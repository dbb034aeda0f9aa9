/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables of launchers. They are read strictly: a broken value is an error that names the
 * variable. And it is known what those of other launchers claim, so that a process which is one of
 * many never runs as one alone. Launchers nest (torchrun under srun, horovodrun in a Slurm step,
 * mpirun in a job of Reigen's), and their variables are inherited; which of them is the innermost
 * follows from who can start whom.
 *
 * Thread rule: as getenv: while no thread changes the environment.
 */
#ifndef RG_COLL_BOOT_LAUNCHERS_H
#define RG_COLL_BOOT_LAUNCHERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "coll/boot/boot.h"

/* The variable's text, or NULL when it is unset or empty. */
const char *rg_var(const char *name);
/* A whole number in min ... max. 1 and *ret_n; 0: unset; -EINVAL or -ERANGE naming the variable. */
int rg_var_int(const char *name, int64_t min, int64_t max, int64_t *ret_n, struct rg_error *err);
/* As rg_var_int into an int; unset leaves *ret_n alone and is 0 as well. */
int rg_var_optional(const char *name, int64_t min, int64_t max, int *ret_n, struct rg_error *err);
/* A rank and a size from two variables: 1 both are set, 0 neither; -EINVAL one alone, or rank >=
 * size. */
int rg_var_rank_size(const char *rank_name, const char *size_name, int *ret_rank, int *ret_size,
                     struct rg_error *err);
/* PREFIX_RANK and PREFIX_SIZE in the same way, and PREFIX_LOCAL_RANK, _LOCAL_SIZE, _CROSS_RANK and
 * _CROSS_SIZE, of which those that are unset stay as they are. */
int rg_var_identity(const char *prefix, struct rg_boot_identity *identity, struct rg_error *err);

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
 * -EPROTO with cause and remedy: it knows nothing of that launcher. */
int rg_claim_check_world_of_one(const char *who, struct rg_error *err);
/* torchrun started this process: what MPI's launchers left in the environment is older. */
bool rg_launched_by_torchrun(void);
/* An MPI's launcher says that this process is one of several. */
bool rg_launched_by_mpi(void);

#endif
