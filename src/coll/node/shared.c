/* SPDX-License-Identifier: Apache-2.0 */
/* Only here is it known where each part of the node's shared memory lies. */
#include "coll/node/shared.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"

#define BIRTH_TIMEOUT_NS (10 * RG_NS_PER_S)

static size_t pages(size_t nbytes)
{
    return (nbytes + 4095) & ~(size_t) 4095;
}

/* Offsets of the parts, in order; the last is the whole. */
enum {
    SHARED, ROWS, NUMBERS, PLACES, BELLS, LOG, READY, ABORTS, WHERES, ERRORS, ENTRIES, BLOCKS,
    ARENAS, END, NPARTS
};

static void layout(int n, size_t offsets[NPARTS])
{
    size_t r = (size_t) n;
    size_t nbytes[NPARTS] = {
        [SHARED] = sizeof(struct rg_shared),
        [ROWS] = r * sizeof(struct rg_row),
        [NUMBERS] = r * sizeof(struct rg_numbers_row),
        [PLACES] = r * RG_ENTRIES_MAX * sizeof(struct rg_epochs),
        [BELLS] = r * sizeof(struct rg_bell),
        [LOG] = rg_runlog_nbytes(),
        [READY] = rg_runlog_nbytes(),
        [ABORTS] = r * RG_ERROR_TEXT_MAX,
        [WHERES] = r * sizeof(struct rg_where),
        [ERRORS] = (size_t) RG_ENTRIES_MAX * 2 * RG_ERROR_TEXT_MAX,
        [ENTRIES] = (size_t) RG_ENTRIES_MAX * sizeof(struct rg_entry),
        [BLOCKS] = RG_BLOCKS_NBYTES,
        [ARENAS] = n <= RG_INLINE_RANKS_MAX ? r * RG_INLINE_NBYTES : 0,
    };
    size_t at = 0;

    for (int i = 0; i < NPARTS; i++) {
        offsets[i] = at;
        at += pages(nbytes[i]);
    }
}

size_t rg_view_nbytes(int node_size)
{
    size_t offsets[NPARTS];

    layout(node_size, offsets);
    return offsets[END];
}

static void bear(struct rg_shared *shared)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    shared->slots.capacity = RG_INLINE_NBYTES;
    shared->slots.used = 64; /* offset 0 means none */
    shared->blocks.capacity = RG_BLOCKS_NBYTES;
    shared->blocks.used = 64;
    atomic_store(&shared->join_last, -1);
}

static int birth(struct rg_shared *shared)
{
    uint32_t unborn = 0;
    uint64_t deadline = rg_now_ns() + BIRTH_TIMEOUT_NS;

    if (atomic_compare_exchange_strong(&shared->born, &unborn, 1)) {
        bear(shared);
        atomic_store(&shared->born, 2);
    }
    while (atomic_load(&shared->born) != 2) {
        if (rg_now_ns() > deadline)
            return -ETIMEDOUT;
        sched_yield();
    }
    return 0;
}

int rg_view_open(struct rg_view *ret_view, void *memory, const struct rg_team *team)
{
    size_t at[NPARTS];
    char *base = memory;
    int r;

    layout(team->node_size, at);
    r = birth((struct rg_shared *) base);
    if (r < 0)
        return r;
    *ret_view = (struct rg_view){
        .shared = (struct rg_shared *) base,
        .rows = (struct rg_row *) (base + at[ROWS]),
        .numbers = (struct rg_numbers_row *) (base + at[NUMBERS]),
        .places = (struct rg_epochs *) (base + at[PLACES]),
        .comm_bells = (struct rg_bell *) (base + at[BELLS]),
        .abort_texts = (char(*)[RG_ERROR_TEXT_MAX]) (base + at[ABORTS]),
        .wheres = (struct rg_where *) (base + at[WHERES]),
        .errors = (char(*)[2][RG_ERROR_TEXT_MAX]) (base + at[ERRORS]),
        .entries = (struct rg_entry *) (base + at[ENTRIES]),
        .blocks = base + at[BLOCKS],
        .arenas = base + at[ARENAS],
        .me = team->node_rank,
        .n = team->node_size,
        .nnodes = team->nnodes,
        .ranks = team->node_ranks,
        .team = team,
    };
    rg_runlog_open(&ret_view->log, base + at[LOG]);
    rg_runlog_open(&ret_view->ready, base + at[READY]);
    return 0;
}

int rg_view_lock(struct rg_view *view)
{
    int r = pthread_mutex_lock(&view->shared->mutex);

    if (r == EOWNERDEAD) {
        /* What it was changing may be half changed: nobody gets in any more. */
        rg_view_abort(view, ECONNRESET, -1,
                      "a rank of this host died while it submitted an operation");
        pthread_mutex_unlock(&view->shared->mutex);
        return -ECONNRESET;
    }
    return r ? -ECONNRESET : 0;
}

void rg_view_unlock(struct rg_view *view)
{
    pthread_mutex_unlock(&view->shared->mutex);
}

/* Four classes for each doubling, from 128 bytes. */
static int class_of(uint64_t nbytes, uint64_t *ret_nbytes)
{
    uint64_t base = 128;

    for (int c = 0; c < RG_CLASSES; c++) {
        uint64_t size = base + base / 4 * (uint64_t) (c % 4);

        if (nbytes <= size) {
            *ret_nbytes = size;
            return c;
        }
        if (c % 4 == 3)
            base *= 2;
    }
    return -1;
}

int rg_pool_take(struct rg_pool *pool, char *base, uint64_t nbytes, uint64_t *ret_offset)
{
    uint64_t size = 0;
    int c = class_of(nbytes, &size);

    if (c < 0)
        return -ENOMEM;
    size = (size + 63) & ~(uint64_t) 63;
    if (pool->free[c]) {
        uint64_t at = pool->free[c] - 1;

        memcpy(&pool->free[c], base + at, sizeof(uint64_t));
        *ret_offset = at;
        return 0;
    }
    if (size > pool->capacity - pool->used)
        return -ENOMEM;
    *ret_offset = pool->used;
    pool->used += size;
    return 0;
}

void rg_pool_give(struct rg_pool *pool, char *base, uint64_t offset, uint64_t nbytes)
{
    uint64_t size = 0;
    int c = class_of(nbytes, &size);

    if (c < 0 || offset == 0)
        return;
    memcpy(base + offset, &pool->free[c], sizeof(uint64_t));
    pool->free[c] = offset + 1;
}

bool rg_view_abort(struct rg_view *view, int errnum, int rank, const char *text)
{
    static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER; /* of this process: its text */
    struct rg_shared *shared = view->shared;
    uint64_t none = 0, cause = (uint64_t) errnum | (uint64_t) view->me << 16 |
                               (uint64_t) (uint32_t) (1 + rank) << 32;
    bool first = false;

    pthread_mutex_lock(&mine);
    if (!atomic_load(&shared->aborted)) {
        snprintf(view->abort_texts[view->me], RG_ERROR_TEXT_MAX, "%s", text);
        /* Before the cause: whoever sees it too early looks closer once more. */
        atomic_fetch_or(&shared->attention, RG_ATTENTION_ABORTED);
        first = atomic_compare_exchange_strong(&shared->aborted, &none, cause);
    }
    pthread_mutex_unlock(&mine);
    return first;
}

int rg_view_aborted(const struct rg_view *view)
{
    return (int) (atomic_load(&view->shared->aborted) & 0xffff);
}

int rg_view_abort_rank(const struct rg_view *view)
{
    return (int) (atomic_load(&view->shared->aborted) >> 32) - 1;
}

const char *rg_view_abort_text(const struct rg_view *view)
{
    return view->abort_texts[atomic_load(&view->shared->aborted) >> 16 & 0xffff];
}
