/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process sets that their members make alone. torch.distributed's groups are made so: who is not
 * in a group may never hear of it, and it may have members in any order.
 *
 * The members hand over, in one fence, the list of ranks and the last number that each has used;
 * the highest of these, and one, is the set's. The first member adds a nonce, from which and from
 * the world's key the set's key follows. The rest is what all sets do, over the same meeting.
 */
#include <string.h>

#include "base/time.h"
#include "coll/api/api.h"
#include "coll/boot/meet/meet.h"

#define MAGIC 0x5445534du /* "MSET" */

struct word {
    uint32_t magic;
    int32_t last;
    uint8_t nonce[RG_KEY_NBYTES]; /* the first member's counts */
    int32_t ranks[]; /* as many as meet */
};

static size_t word_nbytes(int n)
{
    return sizeof(struct word) + (size_t) n * sizeof(int32_t);
}

static int check_list(const struct reigen_meeting *meeting, const int *ranks,
                      const struct rg_team *team, struct rg_error *err)
{
    for (int i = 0; i < meeting->size; i++) {
        if (ranks[i] < 0 || ranks[i] >= team->size)
            return rg_error_set(err, EINVAL, "a process set with rank %d (ranks are 0 to %d)",
                                ranks[i], team->size - 1);
        for (int k = 0; k < i; k++)
            if (ranks[k] == ranks[i])
                return rg_error_set(err, EINVAL, "a process set with rank %d twice", ranks[i]);
    }
    if (ranks[meeting->rank] != team->rank)
        return rg_error_set(err, EINVAL, "rank %d meets as member %d of a process set, which is "
                            "rank %d", team->rank, meeting->rank, ranks[meeting->rank]);
    return 0;
}

/* A rank whose own list is wrong says so to the others by an empty word. 0 and the set's number and
 * nonce. */
static int compare_words(const struct reigen_meeting *meeting, const struct rg_blob *blobs,
                         const struct word *mine, const int *ranks, struct word *ret_agreed,
                         struct rg_error *err)
{
    size_t nbytes = word_nbytes(meeting->size);

    ret_agreed->last = 0;
    for (int i = 0; i < meeting->size; i++) {
        struct word word;

        if (blobs[i].nbytes < sizeof(word))
            return rg_error_set(err, EINVAL, "a process set: rank %d cannot meet", ranks[i]);
        memcpy(&word, blobs[i].data, sizeof(word));
        if (word.magic != MAGIC || blobs[i].nbytes != nbytes ||
            memcmp(blobs[i].data + sizeof(word), mine->ranks, nbytes - sizeof(word)) != 0)
            return rg_error_set(err, EINVAL, "a process set: ranks %d and %d have different lists "
                                "of its members", ranks[meeting->rank], ranks[i]);
        if (i == 0)
            memcpy(ret_agreed->nonce, word.nonce, sizeof(word.nonce));
        if (word.last > ret_agreed->last)
            ret_agreed->last = word.last;
    }
    return 0;
}

static int agree(const struct rg_sets *sets, const struct reigen_meeting *meeting,
                 const int *ranks, int r, uint64_t deadline_ns, struct word *ret_agreed,
                 struct rg_error *err)
{
    rg_autofree struct word *mine = calloc(1, word_nbytes(meeting->size));
    rg_autofree struct rg_blob *blobs = calloc((size_t) meeting->size, sizeof(*blobs));
    int s;

    if (!mine || !blobs)
        return r < 0 ? r : rg_error_set(err, ENOMEM, "out of memory");
    mine->magic = MAGIC;
    mine->last = sets->last_met;
    for (int i = 0; i < meeting->size; i++)
        mine->ranks[i] = ranks[i];
    if (r == 0 && rg_meet_nonce(mine->nonce) < 0)
        r = rg_error_set(err, EIO, "no randomness for a key");
    s = rg_meet_fence(meeting, mine, r < 0 ? 0 : word_nbytes(meeting->size), deadline_ns, blobs,
                      r < 0 ? NULL : err);
    if (s == 0 && r == 0)
        r = compare_words(meeting, blobs, mine, ranks, ret_agreed, err);
    if (s == 0)
        free(blobs[0].data);
    return r < 0 ? r : s;
}

/* Whoever waits for other members waits in vain once the world has failed or is left. */
static int broken(void *arg, struct rg_error *err)
{
    const char *text = NULL;
    int r = rg_progress_abort_cause(arg, &text);

    return r == 0 ? 0 : rg_error_set(err, -r, "%s", text);
}

static int open_boot(struct rg_set *set, struct rg_progress *world,
                     const struct reigen_meeting *meeting, const struct word *agreed,
                     struct rg_error *err)
{
    struct rg_boot_identity identity = RG_BOOT_IDENTITY_INIT;
    int r;

    identity.rank = meeting->rank;
    identity.size = meeting->size;
    identity.has_key = true;
    identity.world_ranks = set->ranks;
    rg_meet_set_key(world->team->data_key, agreed->nonce, identity.key);
    r = rg_meet_boot(meeting, &identity, broken, world, &set->boot);
    explicit_bzero(identity.key, sizeof(identity.key));
    return r < 0 ? rg_error_set(err, -r, "%s", strerror(-r)) : 0;
}

/* With `turn` held. */
static int meet(struct rg_sets *sets, struct rg_progress *world, struct rg_boot *boot,
                const struct reigen_meeting *meeting, const int *ranks, uint64_t deadline_ns,
                int *ret_id, struct rg_error *err)
{
    struct word agreed = { .magic = MAGIC };
    struct rg_set *set;
    int r = check_list(meeting, ranks, world->team, err);

    if (r == 0 && sets->nalive >= RG_SETS_MAX)
        r = rg_error_set(err, ENOSPC, "more than %d process sets", RG_SETS_MAX);
    if (r == 0 && rg_sets_make_room(sets) < 0)
        r = rg_error_set(err, ENOMEM, "out of memory");
    r = agree(sets, meeting, ranks, r, deadline_ns, &agreed, err);
    if (r < 0)
        return r;
    sets->last_met = agreed.last + 1;
    set = rg_set_new(RG_SETS_MET + sets->last_met, ranks, meeting->size, world->team->rank);
    if (!set)
        return rg_error_set(err, ENOMEM, "out of memory");
    r = open_boot(set, world, meeting, &agreed, err);
    if (r == 0)
        r = rg_set_wire_up(set, world, boot, deadline_ns, err);
    return rg_sets_take(sets, set, r, ret_id);
}

int rg_sets_meet(struct rg_sets *sets, struct rg_progress *world, struct rg_boot *boot,
                 const struct reigen_meeting *meeting, const int *ranks, uint64_t deadline_ns,
                 int *ret_id, struct rg_error *err)
{
    int r;

    pthread_mutex_lock(&sets->turn);
    r = meet(sets, world, boot, meeting, ranks, deadline_ns, ret_id, err);
    pthread_mutex_unlock(&sets->turn);
    return r;
}

int rg_sets_forget(struct rg_sets *sets, struct rg_progress *world, int id, struct rg_error *err)
{
    uint64_t until = rg_progress_leave_until(world->config);
    struct rg_set *set;

    pthread_mutex_lock(&sets->turn);
    set = rg_sets_find(sets, id);
    if (set) {
        atomic_store(&set->progress->leaving, true);
        rg_sets_unlink(sets, set);
        rg_progress_leave(set->progress);
    }
    pthread_mutex_unlock(&sets->turn);
    if (!set)
        return rg_error_set(err, ENOENT, "process set %d does not exist", id);
    rg_set_end(set, until);
    return 0;
}
