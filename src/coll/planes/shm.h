/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the shm plane: what its files share. shm.c runs the pipeline, shm_steps.c moves the bytes.
 *
 * The region holds one line of counters per member, then per member a ring of RG_SHM_NSLOTS slots
 * of RG_SHM_SLOT_NBYTES. An operation is a series of chunks. Chunks are numbered from the birth of
 * the region on, equally on all members; chunk g of a member lives in its slot g mod RG_SHM_NSLOTS.
 * For each chunk a member does up to three steps:
 *
 *      in      copy its data into its slot           when all have consumed chunk g - RG_SHM_NSLOTS
 *      reduce  its part, from all slots, into its    when all have produced chunk g
 *              own slot (two-shot operations only)
 *      out     copy or reduce from the slots to      when those it reads from have produced, or
 *              its output                            (two-shot) all have reduced
 *
 * After each step it stores the chunk's number plus one in its counter of that step (release order)
 * and rings. Only the owner writes a counter; so there is no lock and no atomic read-modify-write.
 * The steps of successive chunks overlap: chunk g + 1 is copied in while chunk g waits for the
 * others.
 *
 * Thread rule: a plane's.
 */
#ifndef RG_COLL_PLANES_SHM_H
#define RG_COLL_PLANES_SHM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/planes/plane.h"
#include "coll/team/bell.h"

/* Sizes by measurement, see docs/planes.md. */
enum {
    RG_SHM_SLOT_NBYTES = 256 * 1024,
    RG_SHM_NSLOTS = 4,
    RG_SHM_LINE = 128,               /* two cache lines: the prefetcher fetches pairs */
    RG_SHM_ONESHOT_NBYTES = 32 * 1024, /* up to here every member reduces everything itself */
    RG_SHM_BLOCK_NBYTES = 8 * 1024,    /* reduced at a time: stays in the first-level cache */
    RG_SHM_CHUNK_MIN = 64 * 1024,    /* smaller operations are not cut */
};

extern const struct rg_plane_ops rg_plane_shm;

struct rg_shm_counters {
    _Alignas(RG_SHM_LINE) _Atomic uint64_t produced;
    _Atomic uint64_t reduced;
    _Atomic uint64_t consumed;
};

/* One tensor of an allreduce; several lie end to end when they are fused. */
struct rg_shm_piece {
    const char *in; /* NULL: zeros */
    char *out;      /* NULL: dropped */
    size_t start;   /* elements before it */
    size_t count;
};

struct rg_shm;

struct rg_shm_steps {
    void (*in)(struct rg_shm *shm, uint64_t chunk);
    void (*reduce)(struct rg_shm *shm, uint64_t chunk); /* NULL: no such step */
    void (*out)(struct rg_shm *shm, uint64_t chunk);
};

/* Whom the step out waits for; where that is the root, only it has a step in. */
enum rg_shm_source { RG_SHM_FROM_ALL, RG_SHM_FROM_ROOT, RG_SHM_FROM_ME };

struct rg_shm {
    const struct rg_bells *bells;
    struct rg_shm_counters *counters; /* in the region, by member */
    char *slots;                      /* in the region */
    int n, me;
    bool dead;

    bool active;
    struct rg_coll coll;
    const struct rg_shm_steps *steps;
    enum rg_shm_source source;
    size_t element;                   /* bytes */
    struct rg_shm_piece one, *pieces; /* allreduce and reduce; pieces is &one or owned */
    size_t npieces;
    size_t *in_starts, *out_starts;   /* by member, elements: prefix sums of counts; the first is
                                       * owned, the other lies behind it */
    size_t chunk;                     /* elements per chunk, of a slot or of a share of one */

    uint64_t first;                   /* number of this operation's first chunk */
    uint64_t nchunks;
    uint64_t in_next, reduce_next, out_next; /* of this operation, from 0 */
};

/* The slot of a member for a chunk of the operation in progress. */
static inline char *rg_shm_slot(const struct rg_shm *shm, int member, uint64_t chunk)
{
    uint64_t slot = (uint64_t) member * RG_SHM_NSLOTS + (shm->first + chunk) % RG_SHM_NSLOTS;

    return shm->slots + slot * RG_SHM_SLOT_NBYTES;
}

/* Choose steps, source, chunk and number of chunks for shm->coll, whose pieces are set where it has
 * any. */
void rg_shm_plan(struct rg_shm *shm);
/* The whole operation where this member is the only one. */
void rg_shm_alone(struct rg_shm *shm);

#endif
