/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an element of a tensor is: a type of enum reigen_dtype, or one that a caller has added by
 * its name and size (reigen_type_add), which frameworks have more of than a runtime can know. Below
 * the API there are only the first ones: an element of an added type is some parts of one of them,
 * and planes and kernels see the parts.
 *
 * Thread rule: any thread at any time, also in a forked child; nothing blocks. What is found lives
 * as long as the process.
 */
#ifndef RG_COLL_GROUND_ELEMENT_H
#define RG_COLL_GROUND_ELEMENT_H

#include "base/error.h"
#include "coll/ground/types.h"

struct rg_element {
    uint8_t dtype;   /* enum reigen_dtype, of its parts */
    uint32_t nparts; /* how many of these an element has; 1 where it was not added */
    bool moves_only; /* added, and its parts cannot be added up */
    const char *name;
};

/* As reigen_type_add, without an initialised runtime: 0 and *ret_dtype, -EINVAL, -ENOSPC or
 * -ENOMEM. */
int rg_element_add(const char *name, size_t nbytes, int parts, int *ret_dtype,
                   struct rg_error *err);
/* NULL: there is no such type. */
const struct rg_element *rg_element_find(int dtype);

#endif
