/* SPDX-License-Identifier: Apache-2.0 */
/* What the shm plane copies and reduces where, by operation. */
#include "coll/planes/shm.h"

#include <string.h>

#include "coll/planes/common.h"
#include "coll/reduce/reduce.h"

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ------------------------------------------------------------ allreduce and reduce: pieces */

/* The longest run of elements [lo, hi) that lies in one piece. */
struct span {
    const char *in;
    char *out;
    size_t count;
};

static struct span span_at(const struct rg_shm *shm, size_t lo, size_t hi)
{
    size_t first = 0, last = shm->npieces - 1;

    while (first < last) {
        size_t middle = (first + last + 1) / 2;

        if (shm->pieces[middle].start <= lo)
            first = middle;
        else
            last = middle - 1;
    }

    const struct rg_shm_piece *p = &shm->pieces[first];
    size_t skip = (lo - p->start) * shm->element;

    return (struct span){ p->in ? p->in + skip : NULL, p->out ? p->out + skip : NULL,
                          min_size(hi, p->start + p->count) - lo };
}

static void gather(const struct rg_shm *shm, char *dst, size_t lo, size_t hi)
{
    while (lo < hi) {
        struct span span = span_at(shm, lo, hi);

        rg_put_operand(dst, span.in, span.count * shm->element);
        dst += span.count * shm->element;
        lo += span.count;
    }
}

static void scatter(const struct rg_shm *shm, const char *src, size_t lo, size_t hi)
{
    while (lo < hi) {
        struct span span = span_at(shm, lo, hi);

        if (span.out)
            memcpy(span.out, src, span.count * shm->element);
        src += span.count * shm->element;
        lo += span.count;
    }
}

/* Reduce a span, element lo on, in the order of members: the others' from their slots, which hold
 * the chunk's elements from `start` on, this member's from its own buffer, where they lie in the
 * cache. Into the output (if any) and, where slot is given, there too for the others: block by
 * block, so that the second store finds the first one's data in the first-level cache. */
static void reduce_span(struct rg_shm *shm, uint64_t chunk, size_t start, size_t lo,
                        struct span span, char *slot)
{
    const void *srcs[RG_REDUCE_SOURCES_MAX];
    size_t block = slot ? RG_SHM_BLOCK_NBYTES / shm->element : span.count;

    for (size_t i = 0, n; i < span.count; i += n) {
        size_t offset = (lo + i - start) * shm->element, done = i * shm->element;
        char *to = span.out ? span.out + done : slot ? slot + offset : NULL;

        n = min_size(block, span.count - i);
        for (int k = 0; k < shm->n; k++)
            srcs[k] = k != shm->me ? rg_shm_slot(shm, k, chunk) + offset
                      : span.in    ? span.in + done
                                   : NULL;
        if (to)
            rg_reduce(shm->coll.dtype, shm->coll.op, to, srcs, shm->n, n, &shm->coll.scale);
        if (slot && span.out)
            memcpy(slot + offset, to, n * shm->element);
    }
}

/* Elements [lo, hi) of a chunk that begins with element start. */
static void reduce_range(struct rg_shm *shm, uint64_t chunk, size_t start, size_t lo, size_t hi,
                         char *slot)
{
    while (lo < hi) {
        struct span span = span_at(shm, lo, hi);

        if (shm->coll.kind == RG_COLL_REDUCE && shm->coll.root != shm->me)
            span.out = NULL;
        reduce_span(shm, chunk, start, lo, span, slot);
        lo += span.count;
    }
}

struct range {
    size_t lo, hi;
};

static struct range chunk_range(const struct rg_shm *shm, uint64_t chunk)
{
    size_t lo = chunk * shm->chunk;

    return (struct range){ lo, min_size(lo + shm->chunk, shm->coll.count) };
}

/* The part of a chunk that a member reduces: whole cache lines. */
static struct range part_range(const struct rg_shm *shm, uint64_t chunk, int member)
{
    struct range all = chunk_range(shm, chunk);
    size_t unit = 64 / shm->element, n = (size_t) shm->n;
    size_t part = ((all.hi - all.lo + n - 1) / n + unit - 1) / unit * unit;

    return (struct range){ min_size(all.lo + part * (size_t) member, all.hi),
                           min_size(all.lo + part * (size_t) (member + 1), all.hi) };
}

static void oneshot_in(struct rg_shm *shm, uint64_t chunk)
{
    struct range all = chunk_range(shm, chunk);

    if (shm->coll.kind == RG_COLL_ALLREDUCE || shm->coll.root != shm->me)
        gather(shm, rg_shm_slot(shm, shm->me, chunk), all.lo, all.hi);
}

static void oneshot_out(struct rg_shm *shm, uint64_t chunk)
{
    struct range all = chunk_range(shm, chunk);

    if (shm->coll.kind == RG_COLL_ALLREDUCE || shm->coll.root == shm->me)
        reduce_range(shm, chunk, all.lo, all.lo, all.hi, NULL);
}

static const struct rg_shm_steps oneshot = { oneshot_in, NULL, oneshot_out };

static void twoshot_in(struct rg_shm *shm, uint64_t chunk)
{
    struct range all = chunk_range(shm, chunk), mine = part_range(shm, chunk, shm->me);
    char *slot = rg_shm_slot(shm, shm->me, chunk);

    gather(shm, slot, all.lo, mine.lo);
    gather(shm, slot + (mine.hi - all.lo) * shm->element, mine.hi, all.hi);
}

static void twoshot_reduce(struct rg_shm *shm, uint64_t chunk)
{
    struct range all = chunk_range(shm, chunk), mine = part_range(shm, chunk, shm->me);

    reduce_range(shm, chunk, all.lo, mine.lo, mine.hi, rg_shm_slot(shm, shm->me, chunk));
}

static void twoshot_out(struct rg_shm *shm, uint64_t chunk)
{
    struct range all = chunk_range(shm, chunk);

    if (shm->coll.kind == RG_COLL_REDUCE && shm->coll.root != shm->me)
        return;
    for (int i = 0; i < shm->n; i++) {
        struct range part = part_range(shm, chunk, i);

        if (i != shm->me) /* this member's own was put in place when it was reduced */
            scatter(shm, rg_shm_slot(shm, i, chunk) + (part.lo - all.lo) * shm->element,
                    part.lo, part.hi);
    }
}

static const struct rg_shm_steps twoshot = { twoshot_in, twoshot_reduce, twoshot_out };

/* ------------------------------------------------------------ broadcast */

static void broadcast_in(struct rg_shm *shm, uint64_t chunk)
{
    struct range all = chunk_range(shm, chunk);

    gather(shm, rg_shm_slot(shm, shm->me, chunk), all.lo, all.hi);
}

static void broadcast_out(struct rg_shm *shm, uint64_t chunk)
{
    struct range all = chunk_range(shm, chunk);

    if (shm->me != shm->coll.root || shm->coll.out != shm->coll.in)
        scatter(shm, rg_shm_slot(shm, shm->coll.root, chunk), all.lo, all.hi);
}

static const struct rg_shm_steps broadcast = { broadcast_in, NULL, broadcast_out };

/* ------------------------------------------------------------ kinds with counts
 * A chunk takes up to shm->chunk elements of every member's (or pair's) data. */

/* What chunk covers of `count` elements: where it begins there, and how many. */
static struct range counts_range(const struct rg_shm *shm, uint64_t chunk, size_t count)
{
    size_t lo = min_size(chunk * shm->chunk, count);

    return (struct range){ lo, min_size(lo + shm->chunk, count) };
}

static size_t range_nbytes(const struct rg_shm *shm, struct range range)
{
    return (range.hi - range.lo) * shm->element;
}

/* `member`'s share of a slot that is divided among all. */
static char *share(const struct rg_shm *shm, int owner, uint64_t chunk, int member)
{
    return rg_shm_slot(shm, owner, chunk) + (size_t) member * shm->chunk * shm->element;
}

static const char *at(const void *base, size_t element, size_t index)
{
    return base ? (const char *) base + index * element : NULL;
}

static void allgather_in(struct rg_shm *shm, uint64_t chunk)
{
    struct range r = counts_range(shm, chunk, shm->coll.counts[shm->me]);

    rg_put_operand(rg_shm_slot(shm, shm->me, chunk), at(shm->coll.in, shm->element, r.lo),
                   range_nbytes(shm, r));
}

static void allgather_out(struct rg_shm *shm, uint64_t chunk)
{
    for (int i = 0; i < shm->n && shm->coll.out; i++) {
        struct range r = counts_range(shm, chunk, shm->coll.counts[i]);
        char *to = (char *) shm->coll.out + (shm->out_starts[i] + r.lo) * shm->element;

        /* memmove: this member's input may already lie in its place in the output. */
        if (r.lo < r.hi && (i != shm->me || to != at(shm->coll.in, shm->element, r.lo)))
            memcpy(to, rg_shm_slot(shm, i, chunk), range_nbytes(shm, r));
    }
}

static const struct rg_shm_steps allgather = { allgather_in, NULL, allgather_out };

/* Copies this member's data for every other into their shares of its slot. */
static void shares_in(struct rg_shm *shm, uint64_t slot_chunk, uint64_t chunk)
{
    for (int i = 0; i < shm->n; i++) {
        struct range r = counts_range(shm, chunk, shm->coll.counts[i]);

        if (i != shm->me)
            rg_put_operand(share(shm, shm->me, slot_chunk, i),
                           at(shm->coll.in, shm->element, shm->in_starts[i] + r.lo),
                           range_nbytes(shm, r));
    }
}

static void reducescatter_in(struct rg_shm *shm, uint64_t chunk)
{
    shares_in(shm, chunk, chunk);
}

static void reducescatter_out(struct rg_shm *shm, uint64_t chunk)
{
    struct range r = counts_range(shm, chunk, shm->coll.counts[shm->me]);
    const void *srcs[RG_REDUCE_SOURCES_MAX];

    for (int i = 0; i < shm->n; i++) {
        srcs[i] = i == shm->me
                      ? at(shm->coll.in, shm->element, shm->in_starts[i] + r.lo)
                      : share(shm, i, chunk, shm->me);
    }
    if (shm->coll.out && r.lo < r.hi)
        rg_reduce(shm->coll.dtype, shm->coll.op,
                  (char *) shm->coll.out + r.lo * shm->element, srcs, shm->n, r.hi - r.lo,
                  &shm->coll.scale);
}

static const struct rg_shm_steps reducescatter = { reducescatter_in, NULL, reducescatter_out };

/* A member knows only its own row of an alltoall, hence chunk 0 carries how many chunks each needs;
 * the greatest number holds for all. */
static void alltoall_in(struct rg_shm *shm, uint64_t chunk)
{
    if (chunk == 0)
        memcpy(rg_shm_slot(shm, shm->me, 0), &shm->nchunks, sizeof(shm->nchunks));
    else
        shares_in(shm, chunk, chunk - 1);
}

static void alltoall_agree(struct rg_shm *shm)
{
    uint64_t most = shm->nchunks, other;

    for (int i = 0; i < shm->n; i++) {
        memcpy(&other, rg_shm_slot(shm, i, 0), sizeof(other));
        most = other > most ? other : most;
    }
    shm->nchunks = most;
}

static void alltoall_out(struct rg_shm *shm, uint64_t chunk)
{
    if (chunk == 0)
        alltoall_agree(shm);
    for (int i = 0; i < shm->n && shm->coll.out && chunk > 0; i++) {
        struct range r = counts_range(shm, chunk - 1, shm->coll.recv_counts[i]);
        const char *from = i == shm->me
                               ? at(shm->coll.in, shm->element, shm->in_starts[i] + r.lo)
                               : share(shm, i, chunk, shm->me);

        rg_put_operand((char *) shm->coll.out + (shm->out_starts[i] + r.lo) * shm->element, from,
                       range_nbytes(shm, r));
    }
}

static const struct rg_shm_steps alltoall = { alltoall_in, NULL, alltoall_out };

/* ------------------------------------------------------------ plans */

/* Enough chunks that the steps overlap, few enough that their fixed cost does not show. */
static void plan_whole(struct rg_shm *shm)
{
    size_t nbytes = shm->coll.count * shm->element, unit = 64 / shm->element;
    size_t chunk = nbytes / 4;

    chunk = chunk < RG_SHM_CHUNK_MIN ? RG_SHM_CHUNK_MIN : min_size(chunk, RG_SHM_SLOT_NBYTES);
    shm->chunk = chunk / shm->element / unit * unit;
    shm->nchunks = (shm->coll.count + shm->chunk - 1) / shm->chunk;
}

static void plan_counts(struct rg_shm *shm, bool shares, size_t most)
{
    size_t nbytes = RG_SHM_SLOT_NBYTES / (shares ? (size_t) shm->n : 1);

    shm->chunk = nbytes / 64 * 64 / shm->element;
    shm->nchunks = (most + shm->chunk - 1) / shm->chunk;
}

void rg_shm_plan(struct rg_shm *shm)
{
    const struct rg_coll *coll = &shm->coll;
    size_t most, most_received;

    shm->source = RG_SHM_FROM_ALL;
    switch (coll->kind) {
    case RG_COLL_ALLREDUCE:
    case RG_COLL_REDUCE:
        shm->steps = coll->count * shm->element <= RG_SHM_ONESHOT_NBYTES ? &oneshot : &twoshot;
        if (coll->kind == RG_COLL_REDUCE && coll->root != shm->me)
            shm->source = RG_SHM_FROM_ME;
        plan_whole(shm);
        break;
    case RG_COLL_BROADCAST:
        shm->steps = &broadcast;
        shm->source = RG_SHM_FROM_ROOT;
        plan_whole(shm);
        break;
    case RG_COLL_ALLGATHERV:
        shm->steps = &allgather;
        rg_prefix_sums(coll->counts, shm->n, shm->out_starts);
        plan_counts(shm, false, rg_largest(coll->counts, shm->n));
        break;
    case RG_COLL_REDUCESCATTERV:
        shm->steps = &reducescatter;
        rg_prefix_sums(coll->counts, shm->n, shm->in_starts);
        plan_counts(shm, true, rg_largest(coll->counts, shm->n));
        break;
    case RG_COLL_ALLTOALLV:
        shm->steps = &alltoall;
        rg_prefix_sums(coll->counts, shm->n, shm->in_starts);
        rg_prefix_sums(coll->recv_counts, shm->n, shm->out_starts);
        most = rg_largest(coll->counts, shm->n);
        most_received = rg_largest(coll->recv_counts, shm->n);
        plan_counts(shm, true, most > most_received ? most : most_received);
        shm->nchunks++;
        break;
    }
}

void rg_shm_alone(struct rg_shm *shm)
{
    const struct rg_coll *coll = &shm->coll;
    const void *in = coll->in;

    switch (coll->kind) {
    case RG_COLL_ALLREDUCE:
    case RG_COLL_REDUCE:
        for (size_t i = 0; i < shm->npieces; i++) {
            const void *src = shm->pieces[i].in;

            if (shm->pieces[i].out)
                rg_reduce(coll->dtype, coll->op, shm->pieces[i].out, &src, 1,
                          shm->pieces[i].count, &coll->scale);
        }
        break;
    case RG_COLL_REDUCESCATTERV:
        if (coll->out)
            rg_reduce(coll->dtype, coll->op, coll->out, &in, 1, coll->counts[0], &coll->scale);
        break;
    case RG_COLL_BROADCAST:
        if (coll->out)
            rg_put_operand(coll->out, in, coll->count * shm->element);
        break;
    case RG_COLL_ALLGATHERV:
    case RG_COLL_ALLTOALLV:
        if (coll->out)
            rg_put_operand(coll->out, in, coll->counts[0] * shm->element);
        break;
    }
}
