/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a launcher's variables, strictly: a broken value is an error that names the variable.
 *
 * Thread rule: as getenv: while no thread changes the environment.
 */
#ifndef RG_COLL_BOOT_VARS_H
#define RG_COLL_BOOT_VARS_H

#include <stdint.h>

#include "base/error.h"

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

#endif
