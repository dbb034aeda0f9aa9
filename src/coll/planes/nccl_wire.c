/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL itself hangs, or fails on one rank alone, when ranks do not go together; so they compare
 * what they are before it is asked. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "coll/planes/nccl.h"
#include "coll/team/team.h"

static int say(struct rg_nccl_plane *plane, const struct rg_coll *first, struct rg_nccl_word *word,
               struct rg_error *err)
{
    const struct rg_cuda *cuda = rg_cuda_get(err);
    int r;

    if (!cuda)
        return -ENOTSUP;
    plane->device = first->in || first->out ? first->device
                                            : rg_gpu_default_device(plane->team->local_rank);
    word->device = plane->device;
    r = (cuda->device_uuid_of_part ? cuda->device_uuid_of_part : cuda->device_uuid)(word->uuid,
                                                                                    plane->device);
    if (r != 0)
        return rg_cuda_error(cuda, r, "the GPU does not tell its UUID", err);
    plane->nccl = rg_nccl_get(err);
    if (!plane->nccl)
        return -ENOTSUP;
    word->version = plane->nccl->version;
    r = rg_gpu_claim(plane->device, err);
    if (r < 0 || plane->me != 0)
        return r;
    r = rg_gpu_enter(plane->device, err);
    if (r < 0)
        return r;
    r = plane->nccl->unique_id(&word->id);
    rg_gpu_leave();
    return r == RG_NCCL_SUCCESS ? 0 : rg_nccl_error(plane->nccl, r, "NCCL gives no unique id", err);
}

void rg_nccl_offer(void *state, const struct rg_coll *first, void *ret_word)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_nccl_word *word = ret_word;

    memset(word, 0, sizeof(*word));
    word->status = say(state, first, word, &err);
    if (word->status < 0)
        snprintf(word->why, sizeof(word->why), "%s", err.text);
}

static int rank_of(const struct rg_nccl_plane *plane, int member)
{
    return rg_team_world_rank(plane->team, rg_group_rank(&plane->group, member));
}

int rg_nccl_judge(const struct rg_nccl_plane *plane, const struct rg_nccl_word *words,
                  struct rg_error *err)
{
    for (int m = 0; m < plane->n; m++)
        if (words[m].status < 0)
            return rg_error_set(err, ENOTSUP, "rank %d: %.*s", rank_of(plane, m),
                                (int) sizeof(words[m].why) - 1, words[m].why);
    for (int m = 1; m < plane->n; m++)
        if (words[m].version != words[0].version)
            return rg_error_set(err, ENOTSUP, "rank %d has NCCL %d.%d.%d, but rank %d has %d.%d.%d",
                                rank_of(plane, 0), words[0].version / 10000,
                                words[0].version / 100 % 100, words[0].version % 100,
                                rank_of(plane, m), words[m].version / 10000,
                                words[m].version / 100 % 100, words[m].version % 100);
    for (int m = 1; m < plane->n; m++)
        for (int k = 0; k < m; k++)
            if (memcmp(words[m].uuid, words[k].uuid, sizeof(words[m].uuid)) == 0)
                return rg_error_set(err, ENOTSUP, "ranks %d and %d are on the same GPU, which "
                                    "NCCL does not allow", rank_of(plane, k), rank_of(plane, m));
    return 0;
}
