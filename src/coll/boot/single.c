/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No launcher at all: a job of one rank.
 */
#include "coll/boot/single.h"

#include <string.h>

#include "coll/boot/silent.h"

int rg_single_fence(const void *blob, size_t nbytes, struct rg_blob *ret_blobs)
{
    uint8_t *copy = malloc(nbytes + 1);

    if (!copy)
        return -ENOMEM;
    if (nbytes > 0)
        memcpy(copy, blob, nbytes);
    *ret_blobs = (struct rg_blob) { copy, nbytes };
    return 0;
}

static int detect(const struct rg_config *config, struct rg_error *err)
{
    (void) config;
    (void) err;
    return 1;
}

static int open_single(const struct rg_config *config, uint64_t deadline_ns, void **ret_state,
                       struct rg_boot_identity *ret_identity, struct rg_error *err)
{
    (void) config;
    (void) deadline_ns;
    (void) err;
    *ret_identity = (struct rg_boot_identity) { .size = 1, .local_size = 1, .cross_size = 1,
                                                .one_host = true };
    *ret_state = NULL;
    return 0;
}

static int fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                 struct rg_blob *ret_blobs, struct rg_error *err)
{
    int r = rg_single_fence(blob, nbytes, ret_blobs);

    (void) state;
    (void) deadline_ns;
    return r < 0 ? rg_error_set(err, -r, "out of memory") : 0;
}

static void close_single(void *state, bool goodbye)
{
    (void) state;
    (void) goodbye;
}

const struct rg_boot_ops rg_boot_single = {
    .name = "single",
    .detect = detect,
    .open = open_single,
    .fence = fence,
    .poll_fd = rg_silent_poll_fd,
    .poll = rg_silent_poll,
    .note = rg_silent_note,
    .close = close_single,
    .after_fork = rg_silent_after_fork,
};
