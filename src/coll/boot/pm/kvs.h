/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fences over a launcher's key-value store (PMIx, PMI): every rank puts its blob, all synchronise,
 * every rank gets all blobs. A store keeps each key for good and limits the length of a value, so
 * keys count up and a long blob has several parts.
 *
 *      key    reigen.<fence>.<rank>.<part>
 *      value  part 0: u32 length of the whole blob, then its first bytes; others: more bytes
 *
 * What is in the store can be read by the processes of the job and by the launcher: it is trusted
 * as the launcher is, who could change the ranks' programs as well.
 *
 * Thread rule: the thread in reigen_init. Functions block until their deadline.
 */
#ifndef RG_COLL_BOOT_PM_KVS_H
#define RG_COLL_BOOT_PM_KVS_H

#include "base/buf.h"
#include "coll/boot/boot.h"

#define RG_KVS_KEY_MAX 64 /* bytes of a key, NUL included: the least that any store allows */

/* All return 0 or -errno with the cause; after a failure the store is not used again. */
struct rg_kvs_ops {
    /* nbytes <= value_max. Seen by others after the next sync. */
    int (*put)(void *state, const char *key, const void *data, size_t nbytes,
               uint64_t deadline_ns, struct rg_error *err);
    /* Returns when all ranks have called it. */
    int (*sync)(void *state, uint64_t deadline_ns, struct rg_error *err);
    /* Append what that rank put under key, before the last sync. */
    int (*get)(void *state, int rank, const char *key, uint64_t deadline_ns,
               struct rg_buf *ret_bytes, struct rg_error *err);
};

struct rg_kvs {
    const struct rg_kvs_ops *ops;
    void *state;
    int rank, size;
    size_t value_max;    /* bytes of one value; more than 4 */
    uint32_t fences;     /* since the process began: keys are never used twice */
    bool broken;         /* a fence has failed, and what the others have seen of it is unknown */
};

/* The part of open that all stores have in common, after kvs is set up: what follows of being
 * alone, else a random key that rank 0 makes, by a fence of its own. identity's rank and size are
 * there. 0 or -errno. */
int rg_kvs_meet(struct rg_kvs *kvs, struct rg_boot_identity *identity, uint64_t deadline_ns,
                struct rg_error *err);
/* As rg_boot_ops.fence; kvs is a struct rg_kvs. */
int rg_kvs_fence(void *kvs, const void *blob, size_t nbytes, uint64_t deadline_ns,
                 struct rg_blob *ret_blobs, struct rg_error *err);

#endif
