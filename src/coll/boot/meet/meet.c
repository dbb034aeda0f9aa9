/* SPDX-License-Identifier: Apache-2.0 */
/* A program that has its own way for its processes to agree need not teach it to the runtime: one
 * function of the caller's is all that a boot needs. */
#include "coll/boot/meet/meet.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/boot/env/env.h"

#define MAGIC 0x5445454du /* "MEET" */
#define PROOF "reigen meeting proof"

struct meet {
    struct reigen_meeting meeting;
    int (*broken)(void *arg, struct rg_error *err);
    void *arg;
};

int rg_meet_check(const struct reigen_meeting *meeting, struct rg_error *err)
{
    if (!meeting || !meeting->fence)
        return rg_error_set(err, EINVAL, "a meeting without a fence");
    if (meeting->size < 1 || meeting->size > REIGEN_SIZE_MAX || meeting->rank < 0 ||
        meeting->rank >= meeting->size)
        return rg_error_set(err, EINVAL, "a meeting in which rank %d is one of %d", meeting->rank,
                            meeting->size);
    return 0;
}

static int left_ms(uint64_t deadline_ns)
{
    uint64_t now = rg_now_ns(), left = deadline_ns > now ? (deadline_ns - now) / RG_NS_PER_MS : 0;

    return left > INT_MAX ? INT_MAX : (int) left;
}

int rg_meet_fence(const struct reigen_meeting *meeting, const void *blob, size_t nbytes,
                  uint64_t deadline_ns, struct rg_blob *ret_blobs, struct rg_error *err)
{
    size_t n = (size_t) meeting->size;
    rg_autofree const void **blobs = calloc(n, sizeof(*blobs));
    rg_autofree size_t *sizes = calloc(n, sizeof(*sizes));
    int r;

    if (!blobs || !sizes)
        return rg_error_set(err, ENOMEM, "out of memory");
    r = meeting->fence(meeting->arg, blob, nbytes, left_ms(deadline_ns), blobs, sizes);
    if (r == -ETIMEDOUT)
        return rg_error_set_exit(err, ETIMEDOUT, 124, "rank %d: not all of the %d ranks have come "
                                 "to the meeting in time", meeting->rank, meeting->size);
    if (r < 0)
        return rg_error_set(err, -r, "the meeting has failed: %s", strerror(-r));
    for (size_t i = 0; i < n; i++)
        ret_blobs[i] = (struct rg_blob){ (uint8_t *) (uintptr_t) blobs[i], sizes[i] };
    return rg_blobs_gather(ret_blobs, (int) n) < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}

static int fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                 struct rg_blob *ret_blobs, struct rg_error *err)
{
    const struct meet *meet = state;

    return rg_meet_fence(&meet->meeting, blob, nbytes, deadline_ns, ret_blobs, err);
}

static int poll_start(void *state, int *ret_rank, struct rg_error *err)
{
    const struct meet *meet = state;

    (void) ret_rank;
    return meet->broken && meet->broken(meet->arg, err) < 0 ? -EHOSTDOWN : 0;
}

static void close_meet(void *state, bool goodbye)
{
    (void) goodbye;
    free(state);
}

static const struct rg_boot_ops meet_ops = {
    .name = "meeting",
    .fence = fence,
    .poll_start = poll_start,
    .close = close_meet,
};

int rg_meet_boot(const struct reigen_meeting *meeting, const struct rg_boot_identity *identity,
                 int (*broken)(void *arg, struct rg_error *err), void *arg,
                 struct rg_boot **ret_boot)
{
    struct meet *meet = calloc(1, sizeof(*meet));
    int r;

    if (!meet)
        return -ENOMEM;
    *meet = (struct meet){ .meeting = *meeting, .broken = broken, .arg = arg };
    r = rg_boot_make(&meet_ops, meet, identity, ret_boot);
    if (r < 0)
        free(meet);
    return r;
}

/* ---- keys */

int rg_meet_nonce(uint8_t ret_nonce[RG_KEY_NBYTES])
{
    return rg_key_generate(ret_nonce);
}

void rg_meet_set_key(const uint8_t job_key[RG_KEY_NBYTES], const uint8_t nonce[RG_KEY_NBYTES],
                     uint8_t ret_key[RG_KEY_NBYTES])
{
    char purpose[2 * RG_KEY_NBYTES + 32] = "reigen met set ";

    rg_key_format(nonce, purpose + strlen(purpose));
    rg_key_derive(job_key, purpose, ret_key);
}

/* What a rank says of keys: that it has a file (and a proof that it is the same one), or not; rank
 * 0 without one, the key. */
static void put_word(struct rg_buf *word, bool file, const uint8_t *bytes)
{
    rg_buf_put_u32(word, MAGIC);
    rg_buf_put_u8(word, file);
    if (bytes)
        rg_buf_put(word, bytes, RG_KEY_NBYTES);
}

static int compare_words(const struct reigen_meeting *meeting, const struct rg_blob *blobs,
                         bool file, const uint8_t *proof, uint8_t key[RG_KEY_NBYTES],
                         struct rg_error *err)
{
    for (int i = 0; i < meeting->size; i++) {
        struct rg_reader reader = rg_reader_make(blobs[i].data, blobs[i].nbytes);
        uint32_t magic = rg_reader_u32(&reader), has = rg_reader_u8(&reader);
        const uint8_t *bytes = file || i == 0 ? rg_reader_bytes(&reader, RG_KEY_NBYTES) : NULL;

        if (magic == MAGIC && !!has != file)
            return rg_error_set(err, EINVAL, "rank %d has %s REIGEN_KEY_FILE, and rank %d has %s: "
                                "give it to all ranks or to none", i, has ? "a" : "no",
                                meeting->rank, file ? "one" : "none");
        if (magic != MAGIC || reader.bad)
            return rg_error_set(err, EPROTO, "rank %d is in another step of its start: have all "
                                "ranks the same version of Reigen?", i);
        if (file && memcmp(bytes, proof, RG_KEY_NBYTES) != 0)
            return rg_error_set(err, EPERM, "the REIGEN_KEY_FILE of rank %d holds another key", i);
        if (!file && i == 0)
            memcpy(key, bytes, RG_KEY_NBYTES);
    }
    return 0;
}

static int agree_on_key(const struct reigen_meeting *meeting, const struct rg_config *config,
                        uint64_t deadline_ns, uint8_t ret_key[RG_KEY_NBYTES], struct rg_error *err)
{
    rg_autobuf struct rg_buf word = RG_BUF_INIT;
    rg_autofree struct rg_blob *blobs = calloc((size_t) meeting->size, sizeof(*blobs));
    uint8_t key[RG_KEY_NBYTES], proof[RG_KEY_NBYTES];
    bool file = config->key_file[0] != '\0';
    int r = file ? rg_env_read_key(config->key_file, key, err) : rg_key_generate(key);

    if (r < 0)
        return file ? r : rg_error_set(err, -r, "no randomness for a key: %s", strerror(-r));
    rg_key_derive(key, PROOF, proof);
    put_word(&word, file, file ? proof : meeting->rank == 0 ? key : NULL);
    if (!blobs || rg_buf_status(&word) < 0)
        r = rg_error_set(err, ENOMEM, "out of memory");
    if (r == 0)
        r = rg_meet_fence(meeting, rg_buf_bytes(&word), rg_buf_nbytes(&word), deadline_ns, blobs,
                          err);
    if (r == 0) {
        r = compare_words(meeting, blobs, file, proof, key, err);
        free(blobs[0].data);
    }
    if (r == 0)
        rg_key_derive(key, "data", ret_key);
    explicit_bzero(key, sizeof(key));
    return r;
}

int rg_meet_world(const struct reigen_meeting *meeting, const struct rg_config *config,
                  uint64_t deadline_ns, struct rg_boot **ret_boot, struct rg_error *err)
{
    struct rg_boot_identity identity = RG_BOOT_IDENTITY_INIT;
    int r;

    identity.rank = meeting->rank;
    identity.size = meeting->size;
    identity.has_key = meeting->size > 1;
    identity.one_host = meeting->size == 1;
    r = meeting->size > 1 ? agree_on_key(meeting, config, deadline_ns, identity.key, err) : 0;
    if (r == 0 && rg_meet_boot(meeting, &identity, NULL, NULL, ret_boot) < 0)
        r = rg_error_set(err, ENOMEM, "out of memory");
    explicit_bzero(identity.key, sizeof(identity.key));
    return r;
}
