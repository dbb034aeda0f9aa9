/* SPDX-License-Identifier: Apache-2.0 */
/* Who has come and who never will: kept apart from all messages, so that a test can play it. */
#include "launch/session/meet/fence.h"

#include <string.h>

#include "base/str.h"
#include "base/time.h"
#include "wire/rankmsg.h"

#define NAMED_MAX 8 /* missing ranks that a text names */

struct guest {
    bool waits, ended;
    uint64_t deadline_ns;
    uint8_t *blob; /* of exactly its bytes: there may be very many guests */
    size_t nbytes;
    char *how; /* it ended */
};

struct rg_fence {
    int nranks, nwaiting, nended;
    uint32_t generation;
    size_t total; /* bytes of all blobs with their lengths */
    struct guest guests[];
};

int rg_fence_create(int nranks, struct rg_fence **ret_fence)
{
    struct rg_fence *fence =
        calloc(1, sizeof(*fence) + (size_t) nranks * sizeof(fence->guests[0]));

    if (!fence)
        return -ENOMEM;
    fence->nranks = nranks;
    *ret_fence = fence;
    return 0;
}

static void leave(struct rg_fence *fence, struct guest *guest)
{
    if (!guest->waits)
        return;
    fence->total -= guest->nbytes + 4;
    fence->nwaiting--;
    free(rg_steal_ptr(&guest->blob));
    guest->waits = false;
}

static void empty(struct rg_fence *fence)
{
    for (int i = 0; i < fence->nranks; i++)
        leave(fence, &fence->guests[i]);
}

void rg_fence_destroy(struct rg_fence *fence)
{
    if (!fence)
        return;
    empty(fence);
    for (int i = 0; i < fence->nranks; i++)
        free(fence->guests[i].how);
    free(fence);
}

static int fail(struct rg_fence *fence, int r)
{
    empty(fence);
    return r;
}

static int fail_ended(struct rg_fence *fence, struct rg_error *err)
{
    const struct guest *guest = fence->guests;

    while (!guest->ended)
        guest++;
    return fail(fence, rg_error_set(err, ECONNRESET,
                                    "rank %d has ended (%s) before it came to reigen_init, where "
                                    "the others wait for it", (int) (guest - fence->guests),
                                    guest->how ? guest->how : "no cause known"));
}

int rg_fence_arrive(struct rg_fence *fence, int rank, uint32_t generation, uint64_t deadline_ns,
                    const void *blob, size_t nbytes, struct rg_error *err)
{
    if (rank < 0 || rank >= fence->nranks)
        return rg_error_set(err, EINVAL, "there is no rank %d", rank);
    struct guest *guest = &fence->guests[rank];
    leave(fence, guest);
    if (fence->nwaiting && generation != fence->generation)
        return fail(fence, rg_error_set(err, ECANCELED,
                                        "rank %d starts the runtime for the %u. time while others "
                                        "wait for the %u. time; all ranks must call reigen_init "
                                        "equally often", rank, generation, fence->generation));
    fence->generation = generation;
    guest->blob = malloc(nbytes + 1);
    if (!guest->blob)
        return fail(fence, rg_error_set(err, ENOMEM, "no memory for the ranks' meeting"));
    memcpy(guest->blob, nbytes ? blob : "", nbytes);
    guest->nbytes = nbytes;
    guest->deadline_ns = deadline_ns;
    guest->waits = true;
    fence->nwaiting++;
    fence->total += nbytes + 4;
    if (fence->nended)
        return fail_ended(fence, err);
    if (fence->nwaiting < fence->nranks)
        return 0;
    if (fence->total > RG_FENCE_NBYTES_MAX)
        return fail(fence, rg_error_set(err, EMSGSIZE, "%zu bytes of all ranks in one fence; at "
                                        "most %u fit", fence->total, RG_FENCE_NBYTES_MAX));
    return 1;
}

uint32_t rg_fence_take(struct rg_fence *fence, struct rg_buf *buf)
{
    for (int i = 0; i < fence->nranks; i++)
        rg_buf_put_span(buf, fence->guests[i].blob, fence->guests[i].nbytes);
    empty(fence);
    return fence->generation;
}

int rg_fence_rank_ended(struct rg_fence *fence, int rank, const char *how, struct rg_error *err)
{
    struct guest *guest = &fence->guests[rank];

    if (rank >= fence->nranks) /* of an epoch that could not be opened */
        return 0;
    leave(fence, guest);
    if (!guest->ended) {
        guest->ended = true;
        guest->how = strdup(how);
        fence->nended++;
    }
    return fence->nwaiting ? fail_ended(fence, err) : 0;
}

uint64_t rg_fence_deadline_ns(const struct rg_fence *fence)
{
    uint64_t first = RG_NEVER_NS;

    for (int i = 0; fence->nwaiting && i < fence->nranks; i++) {
        if (fence->guests[i].waits && fence->guests[i].deadline_ns < first)
            first = fence->guests[i].deadline_ns;
    }
    return first;
}

int rg_fence_nwaiting(const struct rg_fence *fence, uint32_t *ret_generation)
{
    *ret_generation = fence->generation;
    return fence->nwaiting;
}

bool rg_fence_waits(const struct rg_fence *fence, int rank)
{
    return fence->guests[rank].waits;
}

int rg_fence_expire(struct rg_fence *fence, struct rg_error *err)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    int nmissing = fence->nranks - fence->nwaiting, nnamed = 0;

    if (!fence->nwaiting)
        return 0;
    for (int i = 0; i < fence->nranks && nnamed < NAMED_MAX; i++) {
        if (!fence->guests[i].waits)
            rg_buf_printf(&names, "%s%d", nnamed++ ? ", " : "", i);
    }
    return fail(fence, rg_error_set(err, ETIMEDOUT, "%d of %d ranks did not come to reigen_init in "
                                    "time: rank%s %s%s", nmissing, fence->nranks,
                                    nmissing > 1 ? "s" : "", rg_buf_text(&names),
                                    nmissing > nnamed ? ", ..." : ""));
}
