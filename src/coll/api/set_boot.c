/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process set finds itself: its identity follows from the world's, and its fences are rounds of
 * all ranks over the world's progress engine, in which those who are not of the set take part with
 * nothing. Deaths and notes are the world's.
 */
#include "coll/api/set_boot.h"

#include <stdio.h>
#include <string.h>

#include "coll/api/rounds.h"
#include "coll/progress/progress.h"

struct set_boot {
    struct rg_progress *world;
    const int *ranks;          /* of the world, n of them */
    int n;
    struct rg_set_word *words; /* by rank of the world */
};

/* The members' blobs, in one allocation. */
static int copy_blobs(const struct set_boot *boot, struct rg_blob *ret_blobs, struct rg_error *err)
{
    for (int i = 0; i < boot->n; i++) {
        const struct rg_set_word *word = &boot->words[boot->ranks[i]];

        if (word->verb != RG_SET_FENCE)
            return rg_error_set(err, word->status < 0 ? -word->status : EPROTO, "rank %d: %s",
                                boot->ranks[i], word->status < 0 ? word->text : "is elsewhere");
        ret_blobs[i] = (struct rg_blob){ (uint8_t *) (uintptr_t) word->data, word->nbytes };
    }
    return rg_blobs_gather(ret_blobs, boot->n) < 0 ? rg_error_set(err, ENOMEM, "out of memory")
                                                       : 0;
}

static int fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                 struct rg_blob *ret_blobs, struct rg_error *err)
{
    struct set_boot *boot = state;
    struct rg_set_word mine = { .verb = RG_SET_FENCE, .data = blob, .nbytes = nbytes };
    void *memory = NULL;
    int r = rg_sets_round(boot->world, &mine, boot->words, &memory, err);

    (void) deadline_ns; /* a rank that does not come is reported as a stall, and may come yet */
    if (r == 0)
        r = copy_blobs(boot, ret_blobs, err);
    free(memory);
    return r;
}

/* Whoever waits for other members waits in vain once the world has failed or is left. */
static int poll_start(void *state, int *ret_rank, struct rg_error *err)
{
    const struct set_boot *boot = state;
    const char *text = NULL;
    int r = rg_progress_abort_cause(boot->world, &text);

    (void) ret_rank;
    if (r == 0)
        return 0;
    rg_error_set(err, -r, "%s", text);
    return -EHOSTDOWN;
}

static void close_set(void *state, bool goodbye)
{
    struct set_boot *boot = state;

    (void) goodbye;
    free(boot->words);
    free(boot);
}

static const struct rg_boot_ops set_ops = {
    .name = "set",
    .fences_alone = true,
    .fence = fence,
    .poll_start = poll_start,
    .close = close_set,
};

int rg_set_boot(struct rg_progress *world, int id, const int *ranks, int nranks, int me,
                struct rg_boot **ret_boot, struct rg_error *err)
{
    struct rg_boot_identity identity = RG_BOOT_IDENTITY_INIT;
    struct set_boot *boot = calloc(1, sizeof(*boot));
    char purpose[64];

    if (boot)
        boot->words = calloc((size_t) world->team->size, sizeof(*boot->words));
    if (!boot || !boot->words) {
        free(boot);
        return rg_error_set(err, ENOMEM, "out of memory");
    }
    boot->world = world;
    boot->ranks = ranks;
    boot->n = nranks;
    identity.rank = me;
    identity.size = nranks;
    identity.has_key = true;
    identity.world_ranks = ranks;
    snprintf(purpose, sizeof(purpose), "reigen process set %d", id);
    rg_key_derive(world->team->data_key, purpose, identity.key);
    if (rg_boot_make(&set_ops, boot, &identity, ret_boot) < 0) {
        close_set(boot, false);
        return rg_error_set(err, ENOMEM, "out of memory");
    }
    return 0;
}
