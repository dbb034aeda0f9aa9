/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories of a user on a host that outlive a job: whether one may be trusted, our Python
 * packages in it (container/bundle.h), and the removal of trees.
 *
 * Thread rule: any thread; blocks for file system calls.
 */
#ifndef RG_AGENT_STORE_STORE_H
#define RG_AGENT_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A directory, made if it is missing, that is this user's alone and can be written: others could
 * change keys and programs in any other. */
bool rg_store_is_ours(const char *path);
/* And programs in it may run. */
bool rg_store_is_good(const char *path);
/* As rm -rf, without following links; what may not be removed stays. */
void rg_store_remove_tree(const char *path);

/* Unpack a bundle under the name fresh, which is ours alone, then give it its own, path; it is no
 * error when that one is there by then. 0 or -errno; nothing stays under the first name. */
int rg_store_keep_bundle(const uint8_t *data, size_t nbytes, const char *fresh, const char *path,
                         struct rg_error *err);
/* Remove bundles in this directory that nobody has used for long, and half-made ones. */
void rg_store_sweep_bundles(const char *base);

#endif
