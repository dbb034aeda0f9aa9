/* SPDX-License-Identifier: Apache-2.0 */
/* The shm plane: its life, and the pipeline that shm.h describes. */
#include "coll/planes/shm.h"

#include <stdlib.h>

#include "coll/reduce/reduce.h"
#include "coll/team/team.h"

#define SCORE 100

static size_t counters_nbytes(int n)
{
    return ((size_t) n * sizeof(struct rg_shm_counters) + 4095) / 4096 * 4096;
}

static size_t shm_region_nbytes(int nmembers)
{
    if (nmembers < 2)
        return 0;
    return counters_nbytes(nmembers) +
           (size_t) nmembers * RG_SHM_NSLOTS * RG_SHM_SLOT_NBYTES;
}

static void shm_free(struct rg_shm *shm)
{
    if (shm->pieces != &shm->one)
        free(shm->pieces);
    free(shm->in_starts);
    free(shm);
}

static int shm_open(const struct rg_plane_options *options, void **ret_state, struct rg_error *err)
{
    const struct rg_group *group = &options->group;
    size_t n = (size_t) group->nmembers;
    struct rg_shm *shm;

    if (group->nmembers > RG_REDUCE_SOURCES_MAX)
        return rg_error_set(err, EINVAL, "%d ranks on one host; the shm plane takes up to %d",
                            group->nmembers, RG_REDUCE_SOURCES_MAX);
    shm = calloc(1, sizeof(*shm));
    if (!shm)
        return rg_error_set(err, ENOMEM, "out of memory");
    shm->pieces = &shm->one;
    shm->in_starts = calloc(2 * (n + 1), sizeof(size_t));
    if (!shm->in_starts) {
        shm_free(shm);
        return rg_error_set(err, ENOMEM, "out of memory");
    }
    shm->out_starts = shm->in_starts + n + 1;
    shm->bells = &options->team->bells;
    shm->n = group->nmembers;
    shm->me = group->me;
    if (options->region) {
        shm->counters = options->region;
        shm->slots = (char *) options->region + counters_nbytes(shm->n);
    }
    *ret_state = shm;
    return 0;
}

static int shm_score(const void *state, const struct rg_plane_task *task)
{
    (void) state, (void) task;
    return SCORE;
}

static void begin(struct rg_shm *shm)
{
    shm->element = rg_dtype_nbytes(shm->coll.dtype);
    shm->active = true;
    shm->in_next = shm->reduce_next = shm->out_next = 0;
    if (shm->n == 1) {
        rg_shm_alone(shm);
        shm->nchunks = 0;
        return;
    }
    rg_shm_plan(shm);
    if (shm->source == RG_SHM_FROM_ROOT && shm->me != shm->coll.root)
        shm->in_next = UINT64_MAX;
    if (!shm->steps->reduce)
        shm->reduce_next = UINT64_MAX;
}

static int shm_post_fused(void *state, const struct rg_coll *colls, int n)
{
    struct rg_shm *shm = state;
    struct rg_shm_piece *pieces = &shm->one;
    size_t start = 0;

    if (shm->dead)
        return -ECONNRESET;
    if (n > 1) {
        pieces = calloc((size_t) n, sizeof(*pieces));
        if (!pieces)
            return -ENOMEM;
    }
    if (shm->pieces != &shm->one)
        free(shm->pieces);
    shm->pieces = pieces;
    shm->npieces = 0;
    for (int i = 0; i < n; i++) {
        if (colls[i].count > 0 || n == 1)
            pieces[shm->npieces++] = (struct rg_shm_piece){ colls[i].in, colls[i].out, start,
                                                            colls[i].count };
        start += colls[i].count;
    }
    shm->coll = colls[0];
    shm->coll.count = start;
    begin(shm);
    return 0;
}

static int shm_post(void *state, const struct rg_coll *coll)
{
    return shm_post_fused(state, coll, 1);
}

/* Whether counter `which` of every member has reached this operation's chunk number `chunk`. */
#define ALL_REACHED(shm, which, least)                                                     \
    ({                                                                                     \
        int _i = 0;                                                                        \
                                                                                           \
        while (_i < (shm)->n && atomic_load_explicit(&(shm)->counters[_i].which,           \
                                                     memory_order_acquire) >= (least))     \
            _i++;                                                                          \
        _i == (shm)->n;                                                                    \
    })

static bool in_ready(const struct rg_shm *shm)
{
    uint64_t g = shm->first + shm->in_next;

    if (shm->in_next >= shm->nchunks)
        return false;
    /* How long an alltoall is becomes known when chunk 0 has gone out. */
    if (shm->coll.kind == RG_COLL_ALLTOALLV && shm->in_next > 0 && shm->out_next == 0)
        return false;
    return g < RG_SHM_NSLOTS || ALL_REACHED(shm, consumed, g + 1 - RG_SHM_NSLOTS);
}

static bool reduce_ready(const struct rg_shm *shm)
{
    return shm->reduce_next < shm->nchunks &&
           ALL_REACHED(shm, produced, shm->first + shm->reduce_next + 1);
}

static bool out_ready(const struct rg_shm *shm)
{
    uint64_t least = shm->first + shm->out_next + 1;
    int from = shm->source == RG_SHM_FROM_ROOT ? shm->coll.root : shm->me;
    const struct rg_shm_counters *counters = &shm->counters[from];

    if (shm->out_next >= shm->nchunks)
        return false;
    if (shm->source == RG_SHM_FROM_ALL)
        return shm->steps->reduce ? ALL_REACHED(shm, reduced, least)
                                  : ALL_REACHED(shm, produced, least);
    return atomic_load_explicit(shm->steps->reduce ? &counters->reduced : &counters->produced,
                                memory_order_acquire) >= least;
}

static void publish(struct rg_shm *shm, _Atomic uint64_t *counter, uint64_t next)
{
    atomic_store_explicit(counter, shm->first + next, memory_order_release);
    rg_bell_ring_all(shm->bells, true);
}

/* One step of each kind at most, so that the caller's lock is not held for long. */
static bool step(struct rg_shm *shm)
{
    struct rg_shm_counters *mine = &shm->counters[shm->me];
    bool moved = false;

    if (in_ready(shm)) {
        shm->steps->in(shm, shm->in_next);
        publish(shm, &mine->produced, ++shm->in_next);
        moved = true;
    }
    if (reduce_ready(shm)) {
        shm->steps->reduce(shm, shm->reduce_next);
        publish(shm, &mine->reduced, ++shm->reduce_next);
        moved = true;
    }
    if (out_ready(shm)) {
        shm->steps->out(shm, shm->out_next);
        publish(shm, &mine->consumed, ++shm->out_next);
        moved = true;
    }
    return moved;
}

static int shm_progress(void *state, bool *ret_moved, struct rg_error *err)
{
    struct rg_shm *shm = state;

    if (shm->dead)
        return rg_error_set(err, ECONNRESET, "the operation was given up: another rank is gone");
    *ret_moved = shm->active && shm->nchunks > 0 && step(shm);
    if (shm->active && shm->out_next < shm->nchunks)
        return 0;
    shm->first += shm->active ? shm->nchunks : 0;
    shm->active = false;
    return 1;
}

static void shm_abort(void *state)
{
    struct rg_shm *shm = state;

    shm->dead = true;
}

static void shm_close(void *state, int timeout_ms)
{
    (void) timeout_ms;
    shm_free(state);
}

const struct rg_plane_ops rg_plane_shm = {
    .name = "shm",
    .scopes = 1u << RG_SCOPE_NODE,
    .memories = 1u << RG_MEMORY_HOST,
    .region_nbytes = shm_region_nbytes,
    .open = shm_open,
    .score = shm_score,
    .post = shm_post,
    .post_fused = shm_post_fused,
    .progress = shm_progress,
    .abort = shm_abort,
    .close = shm_close,
};
