/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks give each other when they meet: a piece of bytes of each. Those of all ranks lie in
 * one allocation, blobs[0].data, which is the owner's to free.
 *
 * Thread rule: pure functions; nothing blocks.
 */
#ifndef RG_COLL_GROUND_BLOB_H
#define RG_COLL_GROUND_BLOB_H

#include <stddef.h>
#include <stdint.h>

struct rg_blob {
    uint8_t *data;
    size_t nbytes;
};

/* Bring n blobs, which lie anywhere, together into one allocation, in this order. 0; -ENOMEM: they
 * are as they were. */
int rg_blobs_gather(struct rg_blob *blobs, int n);
/* Cut bytes (n times u32 length, bytes; each at most max) into n blobs in one allocation. 0,
 * -EBADMSG or -ENOMEM. */
int rg_blobs_split(const uint8_t *bytes, size_t nbytes, int n, size_t max,
                   struct rg_blob *ret_blobs);

#endif
