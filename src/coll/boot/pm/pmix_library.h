/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding libpmix: the one that the process has already (an MPI brought it), else the launcher's
 * own, else the system's. There must be one only, as a second copy would be another client.
 *
 * Thread rule: the thread in reigen_init. May read files.
 */
#ifndef RG_COLL_BOOT_PM_PMIX_LIBRARY_H
#define RG_COLL_BOOT_PM_PMIX_LIBRARY_H

#include "base/error.h"
#include "coll/boot/pm/pmix_abi.h"

#define RG_PMIX_SONAME "libpmix.so.2"
#define RG_PMIX_VERSION_MIN 3

/* The library, the same one at every call; it stays until the process ends. 0; -ENOENT: there is
 * none, with where it was looked for and what to do; -ENOTSUP: it is too old or lacks a
 * function. */
int rg_pmix_library_load(const struct rg_pmix_library **ret_library, struct rg_error *err);

#endif
