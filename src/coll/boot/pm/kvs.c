/* SPDX-License-Identifier: Apache-2.0 */
/* Fences in terms of put, synchronise and get: once for all stores. */
#include "coll/boot/pm/kvs.h"

#include <stdio.h>
#include <string.h>

#include "coll/boot/pm/pm.h"
#include "wire/rankmsg.h"

#define HEAD_NBYTES 4

static void make_key(const struct rg_kvs *kvs, int rank, unsigned part, char key[RG_KVS_KEY_MAX])
{
    snprintf(key, RG_KVS_KEY_MAX, "reigen.%u.%d.%u", kvs->fences, rank, part);
}

static int put_blob(struct rg_kvs *kvs, const void *blob, size_t nbytes, uint64_t deadline_ns,
                    struct rg_error *err)
{
    rg_autobuf struct rg_buf bytes = RG_BUF_INIT;
    char key[RG_KVS_KEY_MAX];
    size_t at = 0;
    int r = 0;

    rg_buf_put_u32(&bytes, (uint32_t) nbytes);
    rg_buf_put(&bytes, blob, nbytes);
    if (rg_buf_status(&bytes) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    for (unsigned part = 0; at < rg_buf_nbytes(&bytes) && r == 0; part++) {
        size_t left = rg_buf_nbytes(&bytes) - at;
        size_t now = left < kvs->value_max ? left : kvs->value_max;

        make_key(kvs, kvs->rank, part, key);
        r = kvs->ops->put(kvs->state, key, rg_buf_bytes(&bytes) + at, now, deadline_ns, err);
        at += now;
    }
    return r;
}

/* Append a rank's blob to `to`, behind its length. */
static int get_blob(struct rg_kvs *kvs, int rank, uint64_t deadline_ns, struct rg_buf *to,
                    struct rg_error *err)
{
    size_t begin = rg_buf_nbytes(to), got = 0, wanted = HEAD_NBYTES;
    char key[RG_KVS_KEY_MAX];

    for (unsigned part = 0; got < wanted; part++) {
        size_t before = got;

        make_key(kvs, rank, part, key);
        int r = kvs->ops->get(kvs->state, rank, key, deadline_ns, to, err);

        if (r < 0)
            return r;
        got = rg_buf_nbytes(to) - begin;
        struct rg_reader head = rg_reader_make(rg_buf_bytes(to) + begin, got);

        wanted = HEAD_NBYTES + (size_t) rg_reader_u32(&head);
        if (head.bad || wanted > HEAD_NBYTES + RG_RANKMSG_BLOB_MAX || got > wanted || got == before)
            return rg_error_set(err, EBADMSG, "rank %d: what it put under %s cannot be read", rank,
                                key);
    }
    return 0;
}

static int begin(struct rg_kvs *kvs, struct rg_error *err)
{
    if (kvs->broken)
        return rg_error_set(err, ECONNRESET, "the launcher's key-value store has failed before in "
                            "this process");
    kvs->broken = true; /* until the end is reached */
    kvs->fences++;
    return 0;
}

static int gather(struct rg_kvs *kvs, uint64_t deadline_ns, struct rg_blob *ret_blobs,
                  struct rg_error *err)
{
    rg_autobuf struct rg_buf all = RG_BUF_INIT;
    int r = 0;

    for (int rank = 0; rank < kvs->size && r == 0; rank++)
        r = get_blob(kvs, rank, deadline_ns, &all, err);
    if (r < 0)
        return r;
    r = rg_blobs_split(rg_buf_bytes(&all), rg_buf_nbytes(&all), kvs->size, RG_RANKMSG_BLOB_MAX,
                       ret_blobs);
    return r < 0 ? rg_error_set(err, -r, "the ranks' blobs: %s", strerror(-r)) : 0;
}

int rg_kvs_fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                 struct rg_blob *ret_blobs, struct rg_error *err)
{
    struct rg_kvs *kvs = state;
    int r;

    if (nbytes > RG_RANKMSG_BLOB_MAX)
        return rg_error_set(err, EMSGSIZE, "a rank's part of a fence may have %u bytes, not %zu",
                            RG_RANKMSG_BLOB_MAX, nbytes);
    r = begin(kvs, err);
    if (r == 0)
        r = put_blob(kvs, blob, nbytes, deadline_ns, err);
    if (r == 0)
        r = kvs->ops->sync(kvs->state, deadline_ns, err);
    if (r == 0)
        r = gather(kvs, deadline_ns, ret_blobs, err);
    if (r == 0)
        kvs->broken = false;
    return r;
}

static int share_key(struct rg_kvs *kvs, uint8_t ret_key[RG_KEY_NBYTES], uint64_t deadline_ns,
                     struct rg_error *err)
{
    struct rg_buf bytes = RG_BUF_INIT;
    uint8_t key[RG_KEY_NBYTES];
    int r = begin(kvs, err);

    if (r == 0 && kvs->rank == 0) {
        if (rg_key_generate(key) < 0)
            r = rg_error_set(err, ENOSYS, "no randomness for a key");
        else
            r = put_blob(kvs, key, sizeof(key), deadline_ns, err);
        explicit_bzero(key, sizeof(key));
    }
    if (r == 0)
        r = kvs->ops->sync(kvs->state, deadline_ns, err);
    if (r == 0)
        r = get_blob(kvs, 0, deadline_ns, &bytes, err);
    if (r == 0 && rg_buf_nbytes(&bytes) != HEAD_NBYTES + RG_KEY_NBYTES)
        r = rg_error_set(err, EBADMSG, "rank 0 gave no key");
    if (r == 0)
        memcpy(ret_key, rg_buf_bytes(&bytes) + HEAD_NBYTES, RG_KEY_NBYTES);
    rg_buf_wipe(&bytes);
    kvs->broken = r < 0;
    return r;
}

int rg_kvs_meet(struct rg_kvs *kvs, struct rg_boot_identity *identity, uint64_t deadline_ns,
                struct rg_error *err)
{
    int r = identity->size > 1 ? share_key(kvs, identity->key, deadline_ns, err) : 0;

    if (r < 0)
        return r;
    rg_mpi_beside_check(identity);
    identity->has_key = identity->size > 1;
    identity->one_host = identity->size == 1;
    return 0;
}
