/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What several planes do in the same way: small facts about operations, operands that are not
 * there, memory that is kept, and how long a plane that has lost another member waits before it
 * says so.
 *
 * Thread rule: functions of their arguments alone. A store and a loss are a plane's, and changed
 * under its thread rule.
 */
#ifndef RG_COLL_PLANES_COMMON_H
#define RG_COLL_PLANES_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/time.h"
#include "coll/ground/types.h"

/* Whether its result is computed, by op and scale. */
static inline bool rg_coll_reduces(enum rg_coll_kind kind)
{
    return kind == RG_COLL_ALLREDUCE || kind == RG_COLL_REDUCE || kind == RG_COLL_REDUCESCATTERV;
}

/* Whether its sizes are given by counts, and not by count. */
static inline bool rg_coll_has_counts(enum rg_coll_kind kind)
{
    return kind == RG_COLL_ALLGATHERV || kind == RG_COLL_ALLTOALLV ||
           kind == RG_COLL_REDUCESCATTERV;
}

/* ret_starts[i] = what counts before i sum up to; ret_starts[n], which is returned: all. */
static inline size_t rg_prefix_sums(const size_t *counts, int n, size_t *ret_starts)
{
    ret_starts[0] = 0;
    for (int i = 0; i < n; i++)
        ret_starts[i + 1] = ret_starts[i] + counts[i];
    return ret_starts[n];
}

/* The greatest of n counts; 0 of none. */
static inline size_t rg_largest(const size_t *counts, int n)
{
    size_t most = 0;

    for (int i = 0; i < n; i++)
        most = counts[i] > most ? counts[i] : most;
    return most;
}

/* What an operand supplies: nbytes of src, or zeros where it is NULL. dst may be src. */
static inline void rg_put_operand(char *dst, const char *src, size_t nbytes)
{
    if (nbytes == 0 || dst == src)
        return;
    if (src)
        memcpy(dst, src, nbytes);
    else
        memset(dst, 0, nbytes);
}

/* The greatest e with 1 << e <= n; n is positive. */
static inline int rg_floor_log2(int n)
{
    return 31 - __builtin_clz((unsigned) n);
}

/* Memory that is kept for the next operation, as fresh memory costs more than what is done with
 * it. Zeroed: an empty store, whose `at` is NULL. Owned: whoever has the store frees `at`. */
struct rg_store {
    char *at;      /* as malloc aligns; not initialised */
    size_t nbytes; /* that there are */
};

/* Have at least nbytes; what was in it is lost where it grows. 0; -ENOMEM, and it is empty. */
static inline int rg_store_reserve(struct rg_store *store, size_t nbytes)
{
    if (nbytes <= store->nbytes)
        return 0;
    free(store->at);
    store->at = malloc(nbytes);
    store->nbytes = store->at ? nbytes : 0;
    return store->at ? 0 : -ENOMEM;
}

/* When a rank dies, its neighbours give up too, and must not be taken for the dead. So a loss is
 * not told at once: for RG_LAST_WORDS_MS the operation just stands still, and whoever knows better
 * (heartbeats, pidfds, the agent) has the word. */
#define RG_LAST_WORDS_MS 2000

struct rg_loss {
    uint64_t at_ns; /* 0: nothing was lost */
    struct rg_error cause;
};

/* The result of progress while something is lost: 0, then -ECONNRESET with the cause. */
static inline int rg_loss_tell(const struct rg_loss *loss, struct rg_error *err)
{
    if (rg_now_ns() < loss->at_ns + RG_LAST_WORDS_MS * RG_NS_PER_MS)
        return 0;
    if (err)
        *err = loss->cause;
    return -ECONNRESET;
}

#endif
