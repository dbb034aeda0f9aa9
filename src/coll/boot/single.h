/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job of one rank needs of a boot, for all boots that may find themselves alone.
 *
 * Thread rule: any thread; nothing blocks.
 */
#ifndef RG_COLL_BOOT_SINGLE_H
#define RG_COLL_BOOT_SINGLE_H

#include "coll/boot/boot.h"

/* A fence among one: its own blob comes back. The caller frees ret_blobs[0].data. 0 or -ENOMEM. */
int rg_single_fence(const void *blob, size_t nbytes, struct rg_blob *ret_blobs);

#endif
