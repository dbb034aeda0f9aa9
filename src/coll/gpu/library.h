/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that Reigen does not link with: found at run time, and their functions looked up into a
 * table. Nothing of them is needed to build.
 *
 * Thread rule: any thread; the caller sees to it that a table is bound once. Opening a library may
 * block for its file.
 */
#ifndef RG_COLL_GPU_LIBRARY_H
#define RG_COLL_GPU_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* A function, and where its pointer belongs in the table. */
struct rg_library_function {
    const char *symbol;
    size_t offset;
    bool needed; /* without it the library is of no use; else its pointer stays NULL */
};

/* Where to look for a library, in this order. */
struct rg_library_place {
    const char *soname;   /* in the process, and in the end where the system has libraries */
    const char *variable; /* the environment may give a file, and then only that is tried */
    /* "torch/lib", "nvidia/nccl/lib": beside what the process has loaded from the former. NULL:
     * there is no such place. */
    const char *beside, *below;
};

/* dlopen's handle, which is kept for ever; NULL with err, which says where it was looked for. */
void *rg_library_open(const struct rg_library_place *place, struct rg_error *err);
/* Fill the table. 0, or -ENOTSUP with err: which function is not there. */
int rg_library_bind(void *handle, const char *soname, const struct rg_library_function *functions,
                    size_t n, void *table, struct rg_error *err);

#endif
