/* SPDX-License-Identifier: Apache-2.0 */
/* Adasum is made of the planes' other operations, so that each plane has it. */
#include "coll/exec/adasum.h"

#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "coll/planes/common.h"
#include "coll/reduce/reduce.h"
#include "coll/team/team.h"

#define BLOCK_COUNT 1024 /* elements of each vector at a time: they stay in the first-level cache */
#define PART_MULTIPLE 16 /* elements: parts begin where cache lines do */

enum phase { IDLE, EXCHANGE, DOTS, COLLECT };

/* One tensor's elements in this member's part. */
struct piece {
    int tensor;
    size_t start, count; /* in the part */
};

struct rg_adasum {
    struct rg_exec *exec;
    const struct rg_team *team;
    enum phase phase;
    bool whole;              /* every member has all */
    int dtype, acc_dtype;    /* of the vectors; in which they are computed */
    struct rg_scale scale;
    int ntensors;
    struct rg_coll *colls;   /* the tensors, owned */
    size_t count;            /* elements of all tensors */
    size_t *counts;          /* elements in each member's part; owned, as is all below ... */
    size_t *mine;            /* ... but this, behind it; by member: elements of my part */
    size_t part;             /* elements of my part */
    struct piece *pieces;
    int npieces;
    struct rg_store vectors; /* my part of each member's vector */
    struct rg_store wide;    /* the same in acc_dtype, where that is another type ... */
    char *acc;               /* ... which is there, or in vectors */
    struct rg_store pack;    /* tensors end to end, or a result nobody wants */
    double *dots;            /* [pair][tensor][3] of a level */
    int level;               /* whose dot products are under way */
};

/* ---- the tree */

/* Pair number i of a level: members *ret_a and *ret_b, into *ret_a. False beyond the last. The
 * level before the powers of two is level 0, also where it has no pair. */
static bool pair_of(int n, int level, int i, int *ret_a, int *ret_b)
{
    int p = 1 << rg_floor_log2(n), distance = level ? 1 << (level - 1) : p;

    *ret_a = level ? 2 * distance * i : i;
    *ret_b = *ret_a + distance;
    return *ret_b < (level ? p : n);
}

static int npairs_of(int n, int level)
{
    int p = 1 << rg_floor_log2(n);

    return level ? p >> level : n - p;
}

static int first_level(int n)
{
    return npairs_of(n, 0) ? 0 : 1;
}

static bool is_level(int n, int level)
{
    return level <= rg_floor_log2(n);
}

/* ---- life */

bool rg_adasum_takes(int dtype)
{
    return dtype == REIGEN_FLOAT16 || dtype == REIGEN_BFLOAT16 || dtype == REIGEN_FLOAT32 ||
           dtype == REIGEN_FLOAT64;
}

static void clear(struct rg_adasum *adasum)
{
    free(adasum->colls);
    free(adasum->pieces);
    free(adasum->dots);
    adasum->colls = NULL;
    adasum->pieces = NULL;
    adasum->dots = NULL;
    adasum->phase = IDLE;
}

int rg_adasum_create(struct rg_exec *exec, const struct rg_team *team,
                     struct rg_adasum **ret_adasum)
{
    struct rg_adasum *adasum = calloc(1, sizeof(*adasum));

    if (!adasum)
        return -ENOMEM;
    adasum->exec = exec;
    adasum->team = team;
    adasum->counts = calloc((size_t) team->size, 2 * sizeof(size_t));
    if (!adasum->counts) {
        free(adasum);
        return -ENOMEM;
    }
    adasum->mine = adasum->counts + team->size;
    *ret_adasum = adasum;
    return 0;
}

void rg_adasum_destroy(struct rg_adasum *adasum)
{
    if (!adasum)
        return;
    clear(adasum);
    free(adasum->vectors.at);
    free(adasum->wide.at);
    free(adasum->pack.at);
    free(adasum->counts);
    free(adasum);
}

/* ---- what is whose */

static size_t nbytes_of(const struct rg_adasum *adasum, size_t count)
{
    return count * rg_dtype_nbytes(adasum->dtype);
}

/* Parts of equal size, but for the last ones. Returns where mine begins. */
static size_t cut(struct rg_adasum *adasum)
{
    size_t n = (size_t) adasum->team->size, me = (size_t) adasum->team->rank;
    size_t share = (adasum->count + n - 1) / n, start = 0, my_start = 0;
    size_t each = (share + PART_MULTIPLE - 1) / PART_MULTIPLE * PART_MULTIPLE;

    for (size_t r = 0; r < n; r++) {
        size_t left = adasum->count - start;

        adasum->counts[r] = adasum->whole || left < each ? left : each;
        my_start = r == me && !adasum->whole ? start : my_start;
        start += adasum->whole ? 0 : adasum->counts[r];
    }
    adasum->part = adasum->counts[me];
    for (size_t r = 0; r < n; r++)
        adasum->mine[r] = adasum->part;
    return my_start;
}

static void find_pieces(struct rg_adasum *adasum, size_t from)
{
    size_t at = 0, to = from + adasum->part;

    adasum->npieces = 0;
    for (int t = 0; t < adasum->ntensors; t++) {
        size_t start = at > from ? at : from, end = at + adasum->colls[t].count;

        at = end;
        end = end < to ? end : to;
        if (start < end)
            adasum->pieces[adasum->npieces++] = (struct piece){ t, start - from, end - start };
    }
}

static int prepare(struct rg_adasum *adasum, const struct rg_coll *colls, int n)
{
    size_t size = (size_t) adasum->team->size, each = rg_dtype_nbytes(colls[0].dtype);
    bool widened = colls[0].dtype == REIGEN_FLOAT16 || colls[0].dtype == REIGEN_BFLOAT16;
    bool packs = n > 1 || !colls[0].in || !colls[0].out;

    adasum->dtype = colls[0].dtype;
    adasum->acc_dtype = widened ? REIGEN_FLOAT32 : adasum->dtype;
    adasum->scale = colls[0].scale;
    adasum->ntensors = n;
    adasum->count = 0;
    for (int t = 0; t < n; t++)
        adasum->count += colls[t].count;
    adasum->whole = adasum->count * each * size <= RG_ADASUM_WHOLE_NBYTES;
    adasum->colls = malloc((size_t) n * sizeof(*colls));
    adasum->pieces = malloc((size_t) n * sizeof(*adasum->pieces));
    if (!adasum->colls || !adasum->pieces)
        return -ENOMEM;
    memcpy(adasum->colls, colls, (size_t) n * sizeof(*colls));
    find_pieces(adasum, cut(adasum));
    if (rg_store_reserve(&adasum->vectors, adasum->part * size * each + 1) < 0 ||
        (widened && rg_store_reserve(&adasum->wide, adasum->part * size * sizeof(float) + 1) < 0) ||
        (packs && rg_store_reserve(&adasum->pack, adasum->count * each + 1) < 0))
        return -ENOMEM;
    adasum->acc = widened ? adasum->wide.at : adasum->vectors.at;
    return 0;
}

/* ---- the exchanges */

static int post(struct rg_adasum *adasum, enum phase phase, struct rg_coll coll)
{
    int r;

    coll.scale = (struct rg_scale){ 1.0, 1.0, 1 };
    coll.op = REIGEN_SUM;
    coll.repeat = adasum->colls[0].repeat;
    adasum->phase = phase;
    r = rg_exec_post(adasum->exec, &coll);
    return r < 0 ? r : 1;
}

static const char *packed(struct rg_adasum *adasum)
{
    char *to = adasum->pack.at;

    if (adasum->ntensors == 1 && adasum->colls[0].in)
        return adasum->colls[0].in;
    for (int t = 0; t < adasum->ntensors; t++) {
        size_t nbytes = nbytes_of(adasum, adasum->colls[t].count);

        rg_put_operand(to, adasum->colls[t].in, nbytes);
        to += nbytes;
    }
    return adasum->pack.at;
}

static int post_exchange(struct rg_adasum *adasum)
{
    struct rg_coll coll = { .kind = RG_COLL_ALLTOALLV,
                            .dtype = (uint8_t) adasum->dtype,
                            .counts = adasum->counts,
                            .recv_counts = adasum->mine,
                            .total = adasum->count * (size_t) adasum->team->size,
                            .in = packed(adasum),
                            .out = adasum->vectors.at };

    if (adasum->whole)
        coll.kind = RG_COLL_ALLGATHERV;
    return post(adasum, EXCHANGE, coll);
}

static int post_dots(struct rg_adasum *adasum)
{
    int npairs = npairs_of(adasum->team->size, adasum->level);

    return post(adasum, DOTS,
                (struct rg_coll){ .kind = RG_COLL_ALLREDUCE,
                                  .dtype = REIGEN_FLOAT64,
                                  .count = (size_t) npairs * (size_t) adasum->ntensors * 3,
                                  .in = adasum->dots,
                                  .out = adasum->dots });
}

/* Where the tensors of the result go, end to end. */
static char *result(const struct rg_adasum *adasum)
{
    return adasum->ntensors == 1 && adasum->colls[0].out ? adasum->colls[0].out : adasum->pack.at;
}

static int post_collect(struct rg_adasum *adasum)
{
    return post(adasum, COLLECT,
                (struct rg_coll){ .kind = RG_COLL_ALLGATHERV,
                                  .dtype = (uint8_t) adasum->dtype,
                                  .counts = adasum->counts,
                                  .in = adasum->vectors.at,
                                  .out = result(adasum) });
}

static int unpack(struct rg_adasum *adasum)
{
    const char *from = result(adasum);

    for (int t = 0; t < adasum->ntensors; t++) {
        const struct rg_coll *coll = &adasum->colls[t];

        if (coll->out && coll->out != from)
            memcpy(coll->out, from, nbytes_of(adasum, coll->count));
        from += nbytes_of(adasum, coll->count);
    }
    clear(adasum);
    return 0;
}

/* ---- computing */

static char *vector(const struct rg_adasum *adasum, int member, size_t at)
{
    return adasum->acc +
           ((size_t) member * adasum->part + at) * rg_dtype_nbytes(adasum->acc_dtype);
}

static double *dots_of(const struct rg_adasum *adasum, double *dots, int pair, int tensor)
{
    return dots + ((size_t) pair * (size_t) adasum->ntensors + (size_t) tensor) * 3;
}

static double coefficient(double dot, double norm)
{
    /* Squares that small have lost their digits; NaN is not less and goes on. */
    return norm < DBL_MIN ? 1.0 : 1.0 - dot / (2.0 * norm);
}

/* The dot products of a block for the level that is next. */
static void add_dots(const struct rg_adasum *adasum, int level, const struct piece *piece,
                     size_t at, size_t count, double *dots)
{
    int a, b;

    for (int i = 0; pair_of(adasum->team->size, level, i, &a, &b); i++)
        rg_dots(adasum->acc_dtype, vector(adasum, a, at), vector(adasum, b, at), count,
                dots_of(adasum, dots, i, piece->tensor));
}

static void blend(const struct rg_adasum *adasum, int level, const struct piece *piece, size_t at,
                  size_t count)
{
    int a, b;

    for (int i = 0; pair_of(adasum->team->size, level, i, &a, &b); i++) {
        const double *dots = dots_of(adasum, adasum->dots, i, piece->tensor);

        rg_blend(adasum->acc_dtype, vector(adasum, a, at), vector(adasum, a, at),
                 vector(adasum, b, at), count, coefficient(dots[0], dots[1]),
                 coefficient(dots[0], dots[2]));
    }
}

static void widen(const struct rg_adasum *adasum, size_t at, size_t count)
{
    if (adasum->acc == adasum->vectors.at && adasum->scale.pre == 1.0)
        return;
    for (int r = 0; r < adasum->team->size; r++)
        rg_widen(adasum->dtype, vector(adasum, r, at),
                 adasum->vectors.at + nbytes_of(adasum, (size_t) r * adasum->part + at), count,
                 adasum->scale.pre);
}

/* Go over my part once: finish level (below the first one: bring in the vectors), and take the dot
 * products for the one after it. */
static int pass(struct rg_adasum *adasum, int level)
{
    int n = adasum->team->size;
    bool more = is_level(n, level + 1);
    size_t ndots = (size_t) npairs_of(n, level + 1) * (size_t) adasum->ntensors * 3;
    double *dots = more ? calloc(ndots, sizeof(double)) : NULL;

    if (more && !dots)
        return -ENOMEM;
    for (int i = 0; i < adasum->npieces; i++) {
        const struct piece *piece = &adasum->pieces[i];

        for (size_t done = 0; done < piece->count; done += BLOCK_COUNT) {
            size_t left = piece->count - done, count = left < BLOCK_COUNT ? left : BLOCK_COUNT;

            if (level < first_level(n))
                widen(adasum, piece->start + done, count);
            else
                blend(adasum, level, piece, piece->start + done, count);
            if (more)
                add_dots(adasum, level + 1, piece, piece->start + done, count, dots);
        }
    }
    free(adasum->dots);
    adasum->dots = dots;
    adasum->level = level + 1;
    return 0;
}

/* The result, in member 0's place, scaled and as its type. */
static void narrow(const struct rg_adasum *adasum, void *to)
{
    if (adasum->acc != adasum->vectors.at || adasum->scale.post != 1.0)
        rg_narrow(adasum->dtype, to, adasum->acc, adasum->part, adasum->scale.post);
    else if (to != (void *) adasum->acc)
        memcpy(to, adasum->acc, nbytes_of(adasum, adasum->part));
}

static int compute_whole(struct rg_adasum *adasum)
{
    int n = adasum->team->size, r = 0;

    for (int level = first_level(n) - 1; r == 0 && (level < 0 || is_level(n, level)); level++)
        r = pass(adasum, level);
    if (r < 0)
        return r;
    narrow(adasum, result(adasum));
    return unpack(adasum);
}

int rg_adasum_post(struct rg_adasum *adasum, const struct rg_coll *colls, int n)
{
    int r;

    clear(adasum);
    if (colls[0].memory != RG_MEMORY_HOST)
        return -ENOTSUP;
    r = prepare(adasum, colls, n);
    if (r == 0 && adasum->count > 0)
        return post_exchange(adasum);
    clear(adasum);
    return r;
}

int rg_adasum_next(struct rg_adasum *adasum)
{
    int n = adasum->team->size, r;

    if (adasum->phase == COLLECT)
        return unpack(adasum);
    if (adasum->whole)
        return compute_whole(adasum);
    r = pass(adasum, adasum->phase == EXCHANGE ? first_level(n) - 1 : adasum->level);
    if (r < 0)
        return r;
    if (is_level(n, adasum->level))
        return post_dots(adasum);
    narrow(adasum, adasum->vectors.at);
    return post_collect(adasum);
}
