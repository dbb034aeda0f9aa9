/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU's memory cannot be read by the planes for the host's: what is there is copied out, moved
 * and copied back, a piece at a time. */
#include "coll/exec/staged.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "coll/exec/adasum.h"
#include "coll/gpu/gpu.h"
#include "coll/ground/report.h"
#include "coll/team/team.h"

enum { NSLOTS = 3 };
#define PIECE_NBYTES ((size_t) 4 << 20)
#define END_MS 1000 /* for copies to end */

enum phase { IDLE, WIRING, DIRECT, PIECES };

/* Pinned memory for one piece: what goes in, and behind it what comes out where that is apart. */
struct slot {
    char *at;
    size_t nbytes;
    struct rg_gpu_mark *in;  /* when it is filled ... */
    struct rg_gpu_mark *out; /* ... and when it was emptied last */
};

struct rg_staged {
    struct rg_exec *exec;
    const struct rg_team *team;
    enum phase phase;
    bool told;              /* that a plane is refused */
    struct rg_adasum *adasum; /* made at its first use ... */
    bool by_adasum;         /* ... and at it, where at_exec is said below */

    struct rg_coll *colls;
    int ncolls, capacity;
    size_t esize, total, piece; /* bytes: of all, where they go in pieces; of each but the last */
    size_t npieces, filled, done; /* pieces: copied in, carried out */
    bool at_exec;           /* piece `done` is */
    size_t in_nbytes;       /* of what goes as one piece: where its result begins */
    size_t out_nbytes;
    struct slot slots[NSLOTS];
    char *outgrown;         /* memory that slots had: a chain by its first bytes */
    int device;             /* of the slots, and of the last copies */
    void *out_stream;       /* for copies out, beside those in; owned, NULL: not made ... */
    bool two_ways;          /* ... or not used, as there is but one piece */
    struct rg_gpu_mark *last;
};

int rg_staged_create(struct rg_exec *exec, const struct rg_team *team,
                     struct rg_staged **ret_staged)
{
    struct rg_staged *staged = calloc(1, sizeof(*staged));

    if (!staged)
        return -ENOMEM;
    staged->exec = exec;
    staged->team = team;
    *ret_staged = staged;
    return 0;
}

/* 1: no copy is under way, 0: some are, -errno. */
static int settled(const struct rg_staged *staged)
{
    int r = rg_gpu_mark_passed(staged->last, NULL);

    for (int i = 0; i < NSLOTS && r == 1; i++)
        r = rg_gpu_mark_passed(staged->slots[i].in, NULL);
    return r;
}

static void free_memory(struct rg_staged *staged)
{
    char *next;

    for (int i = 0; i < NSLOTS; i++)
        rg_gpu_host_free(staged->device, staged->slots[i].at);
    for (char *at = staged->outgrown; at; at = next) {
        memcpy(&next, at, sizeof(next));
        rg_gpu_host_free(staged->device, at);
    }
}

/* Memory that a copy still uses is left to it. */
void rg_staged_destroy(struct rg_staged *staged)
{
    int r = 1;

    if (!staged)
        return;
    for (int ms = 0; ms < END_MS && (r = settled(staged)) == 0; ms++)
        rg_sleep_ms(1);
    if (r == 1)
        free_memory(staged);
    for (int i = 0; i < NSLOTS; i++) {
        rg_gpu_mark_unref(staged->slots[i].in);
        rg_gpu_mark_unref(staged->slots[i].out);
    }
    rg_gpu_mark_unref(staged->last);
    rg_gpu_stream_destroy(staged->device, staged->out_stream);
    rg_adasum_destroy(staged->adasum);
    free(staged->colls);
    free(staged);
}

bool rg_staged_active(const struct rg_staged *staged)
{
    return staged && staged->phase != IDLE;
}

/* ---- what a piece is */

static bool in_pieces(const struct rg_staged *staged)
{
    return !staged->colls[0].counts;
}

/* Of a broadcast only the root has an operand. */
static const char *operand(const struct rg_staged *staged, const struct rg_coll *coll)
{
    bool none = coll->kind == RG_COLL_BROADCAST && coll->root != staged->team->rank;

    return none ? NULL : coll->in;
}

/* The root of a broadcast has its result before it begins. */
static bool is_there(const struct rg_staged *staged, const struct rg_coll *coll)
{
    return coll->kind == RG_COLL_BROADCAST && coll->root == staged->team->rank &&
           coll->in == coll->out;
}

static size_t piece_nbytes(const struct rg_staged *staged, size_t piece)
{
    size_t left = staged->total - piece * staged->piece;

    return left < staged->piece ? left : staged->piece;
}

/* The part of tensor k that is in a piece: where it begins in the tensor and in the piece. */
static size_t cut(const struct rg_staged *staged, size_t start, const struct rg_coll *coll,
                  size_t piece, size_t *ret_from, size_t *ret_at)
{
    size_t first = piece * staged->piece, end = first + piece_nbytes(staged, piece);
    size_t stop = start + coll->count * staged->esize;
    size_t low = start > first ? start : first, high = stop < end ? stop : end;

    if (low >= high)
        return 0;
    *ret_from = low - start;
    *ret_at = low - first;
    return high - low;
}

/* ---- copies */

/* The stream that results are copied by. */
static void *out_stream(const struct rg_staged *staged)
{
    return staged->two_ways ? staged->out_stream : staged->colls[0].stream;
}

/* in: to the slot; else from it. */
static int copy_piece(struct rg_staged *staged, size_t piece, bool in, struct rg_error *err)
{
    char *slot = staged->slots[piece % NSLOTS].at;
    size_t start = 0, from, at;
    int r = 0;

    for (int k = 0; k < staged->ncolls && r == 0; k++) {
        const struct rg_coll *coll = &staged->colls[k];
        size_t nbytes = cut(staged, start, coll, piece, &from, &at);
        const char *source = operand(staged, coll);

        start += coll->count * staged->esize;
        if (nbytes > 0 && in && source)
            r = rg_gpu_copy(staged->device, coll->stream, slot + at, source + from, nbytes, err);
        if (nbytes > 0 && !in && coll->out && !is_there(staged, coll))
            r = rg_gpu_copy(staged->device, out_stream(staged), (char *) coll->out + from,
                            slot + at, nbytes, err);
    }
    return r;
}

static int copy_whole(struct rg_staged *staged, bool in, struct rg_error *err)
{
    const struct rg_coll *coll = &staged->colls[0];
    char *slot = staged->slots[0].at;

    if (in && coll->in && staged->in_nbytes)
        return rg_gpu_copy(staged->device, coll->stream, slot, coll->in, staged->in_nbytes, err);
    if (!in && coll->out && staged->out_nbytes)
        return rg_gpu_copy(staged->device, coll->stream, coll->out, slot + staged->in_nbytes,
                           staged->out_nbytes, err);
    return 0;
}

static int copy(struct rg_staged *staged, size_t piece, bool in, struct rg_error *err)
{
    return in_pieces(staged) ? copy_piece(staged, piece, in, err) : copy_whole(staged, in, err);
}

/* Where the stream is now; NULL where there is none, as of who has joined. */
static int mark(struct rg_staged *staged, void *stream, struct rg_gpu_mark **where,
                struct rg_error *err)
{
    rg_gpu_mark_unref(*where);
    *where = NULL;
    return stream ? rg_gpu_mark(staged->device, stream, where, err) : 0;
}

/* ---- a piece's way */

/* 1: there is room, 0: not before earlier copies are done, -errno. What is too small is kept to the
 * end, as the driver may wait for all streams of the device when it is freed. */
static int reserve(struct rg_staged *staged, struct slot *slot, size_t nbytes,
                   struct rg_error *err)
{
    void *at;
    int r;

    if (nbytes <= slot->nbytes)
        return 1;
    nbytes = nbytes > PIECE_NBYTES ? nbytes : PIECE_NBYTES;
    nbytes = nbytes > 2 * slot->nbytes ? nbytes : 2 * slot->nbytes;
    r = rg_gpu_mark_passed(staged->last, err);
    if (r <= 0)
        return r;
    if (slot->at) {
        memcpy(slot->at, &staged->outgrown, sizeof(staged->outgrown));
        staged->outgrown = slot->at;
    }
    slot->at = NULL;
    slot->nbytes = 0;
    r = rg_gpu_host_alloc(staged->device, nbytes, &at, err);
    if (r < 0)
        return r;
    slot->at = at;
    slot->nbytes = nbytes;
    return 1;
}

/* Whether this rank has neither operands nor places for results, as one that has joined. */
static bool absent(const struct rg_staged *staged)
{
    for (int k = 0; k < staged->ncolls; k++)
        if (staged->colls[k].in || staged->colls[k].out)
            return false;
    return true;
}

/* 1: something was done, 0: it has to wait, -errno. */
static int fill(struct rg_staged *staged, struct rg_error *err)
{
    struct slot *slot = &staged->slots[staged->filled % NSLOTS];
    size_t nbytes = in_pieces(staged) ? piece_nbytes(staged, staged->filled)
                                      : staged->in_nbytes + staged->out_nbytes;
    int r = absent(staged) ? 1 : reserve(staged, slot, nbytes, err);

    if (r <= 0)
        return r;
    r = staged->two_ways ? rg_gpu_mark_await(slot->out, staged->colls[0].stream, err) : 0;
    if (r == 0)
        r = copy(staged, staged->filled, true, err);
    if (r == 0)
        r = mark(staged, staged->colls[0].stream, &slot->in, err);
    staged->filled++;
    return r < 0 ? r : 1;
}

/* What a tensor that is not there supplies to a piece. */
static void put_zeros(struct rg_staged *staged, size_t piece)
{
    char *slot = staged->slots[piece % NSLOTS].at;
    size_t start = 0, from, at;

    for (int k = 0; k < staged->ncolls; k++) {
        const struct rg_coll *coll = &staged->colls[k];
        size_t nbytes = cut(staged, start, coll, piece, &from, &at);

        start += coll->count * staged->esize;
        if (nbytes > 0 && !coll->in)
            memset(slot + at, 0, nbytes);
    }
}

/* All tensors at once, as each has coefficients of its own. */
static int post_adasum(struct rg_staged *staged)
{
    size_t nbytes = (size_t) staged->ncolls * sizeof(struct rg_coll);
    struct rg_coll *colls = malloc(nbytes);
    char *at = absent(staged) ? NULL : staged->slots[staged->done % NSLOTS].at;
    int r = 0;

    if (!colls)
        return -ENOMEM;
    memcpy(colls, staged->colls, nbytes);
    if (at)
        put_zeros(staged, staged->done);
    for (int k = 0; k < staged->ncolls; k++) {
        colls[k].memory = RG_MEMORY_HOST;
        colls[k].stream = NULL;
        colls[k].in = colls[k].out = at;
        at = at ? at + colls[k].count * staged->esize : NULL;
    }
    if (!staged->adasum)
        r = rg_adasum_create(staged->exec, staged->team, &staged->adasum);
    if (r == 0)
        r = rg_adasum_post(staged->adasum, colls, staged->ncolls);
    free(colls);
    return r < 0 ? r : 0;
}

/* The host's half of a piece whose copy has arrived. */
static int post_piece(struct rg_staged *staged)
{
    struct rg_coll coll = staged->colls[0];
    size_t piece = staged->done;
    char *slot = staged->slots[piece % NSLOTS].at;
    bool none = absent(staged);

    staged->at_exec = true;
    if (staged->by_adasum)
        return post_adasum(staged);
    coll.memory = RG_MEMORY_HOST;
    coll.stream = NULL;
    if (!in_pieces(staged)) {
        coll.in = coll.in ? slot : NULL;
        coll.out = coll.out ? slot + staged->in_nbytes : NULL;
    } else {
        if (coll.kind != RG_COLL_BROADCAST && !none)
            put_zeros(staged, piece);
        coll.count = piece_nbytes(staged, piece) / staged->esize;
        coll.in = coll.out = none ? NULL : slot;
    }
    return rg_exec_post(staged->exec, &coll);
}

/* What exec has made of a piece goes back; with the last one our stream has all of them. */
static int empty(struct rg_staged *staged, struct rg_error *err)
{
    struct slot *slot = &staged->slots[staged->done % NSLOTS];
    int r = copy(staged, staged->done++, false, err);

    if (r == 0)
        r = mark(staged, out_stream(staged), &staged->last, err);
    rg_gpu_mark_unref(slot->out);
    slot->out = rg_gpu_mark_ref(staged->last);
    if (r == 0 && staged->two_ways && staged->done == staged->npieces)
        r = rg_gpu_mark_await(staged->last, staged->colls[0].stream, err);
    return r;
}

/* The next step of whatever can make one: 1: exec is at work, or a copy is; 0: all is done. */
static int go_on(struct rg_staged *staged, struct rg_error *err)
{
    int r = 1;

    if (staged->at_exec && staged->by_adasum) {
        r = rg_adasum_next(staged->adasum);
        if (r != 0)
            return r;
        r = 1;
    }
    if (staged->at_exec) {
        staged->at_exec = false;
        r = empty(staged, err);
        if (r < 0)
            return r;
        r = 1;
    }
    while (r != 0 && staged->filled < staged->npieces && staged->filled < staged->done + NSLOTS) {
        r = fill(staged, err);
        if (r < 0)
            return r;
    }
    if (staged->done == staged->npieces)
        return 0;
    if (staged->filled == staged->done)
        return 1;
    r = rg_gpu_mark_passed(staged->slots[staged->done % NSLOTS].in, err);
    if (r == 1)
        r = post_piece(staged);
    return r < 0 ? r : 1;
}

/* ---- which way */

static size_t sum_of(const size_t *counts, int n)
{
    size_t all = 0;

    for (int i = 0; i < n; i++)
        all += counts[i];
    return all;
}

static void begin_pieces(struct rg_staged *staged)
{
    const struct rg_coll *coll = &staged->colls[0];
    int n = staged->team->size, me = staged->team->rank;

    staged->phase = PIECES;
    staged->filled = staged->done = 0;
    staged->at_exec = false;
    staged->esize = rg_dtype_nbytes(coll->dtype);
    staged->total = 0;
    staged->by_adasum = staged->two_ways = false;
    if (coll->stream)
        staged->device = coll->device;
    if (!in_pieces(staged)) {
        size_t all = sum_of(coll->counts, n), mine = coll->counts[me];
        bool gathers = coll->kind == RG_COLL_ALLGATHERV;

        staged->npieces = 1;
        staged->in_nbytes = (gathers ? mine : all) * staged->esize;
        staged->out_nbytes = staged->esize * (coll->kind == RG_COLL_ALLTOALLV
                                                  ? sum_of(coll->recv_counts, n)
                                                  : gathers ? all : mine);
        return;
    }
    for (int k = 0; k < staged->ncolls; k++)
        staged->total += staged->colls[k].count * staged->esize;
    staged->by_adasum = coll->op == REIGEN_ADASUM && coll->kind == RG_COLL_ALLREDUCE;
    staged->piece = staged->by_adasum ? staged->total : PIECE_NBYTES;
    staged->npieces = staged->total ? (staged->total + staged->piece - 1) / staged->piece : 0;
    if (staged->npieces < 2 || !coll->stream)
        return;
    /* Without another stream both ways go by ours. */
    if (!staged->out_stream)
        rg_gpu_stream_create(staged->device, &staged->out_stream, NULL);
    staged->two_ways = staged->out_stream != NULL;
}

/* Once, by one rank: people should know why a fast way is not taken. */
static void tell(struct rg_staged *staged)
{
    const char *why = rg_exec_refusal(staged->exec);

    if (staged->told || !why[0] || staged->team->rank != 0)
        return;
    staged->told = true;
    rg_report(RG_LOG_WARN, "%s; tensors on GPUs go through the host's memory, which is slower",
              why);
}

/* The planes are as wired up as they will be. */
static int choose(struct rg_staged *staged, struct rg_error *err)
{
    int r;

    /* Without a stream there is nothing to copy by; exec then says what no plane can do. */
    if ((!staged->colls[0].stream && !absent(staged)) ||
        rg_exec_takes(staged->exec, staged->colls, staged->ncolls)) {
        staged->phase = DIRECT;
        r = rg_exec_post_fused(staged->exec, staged->colls, staged->ncolls);
        return r < 0 ? r : 1;
    }
    tell(staged);
    begin_pieces(staged);
    r = go_on(staged, err);
    if (r == 0)
        staged->phase = IDLE;
    return r;
}

int rg_staged_post(struct rg_staged *staged, const struct rg_coll *colls, int n,
                   struct rg_error *err)
{
    int r;

    if (n > staged->capacity) {
        struct rg_coll *room = realloc(staged->colls, (size_t) n * sizeof(*room));

        if (!room)
            return -ENOMEM;
        staged->colls = room;
        staged->capacity = n;
    }
    memcpy(staged->colls, colls, (size_t) n * sizeof(*colls));
    staged->ncolls = n;
    r = rg_exec_wire(staged->exec, staged->colls, n);
    if (r == 0)
        return choose(staged, err);
    staged->phase = WIRING;
    return r;
}

int rg_staged_next(struct rg_staged *staged, struct rg_error *err)
{
    int r = 0;

    if (staged->phase == WIRING)
        return choose(staged, err);
    if (staged->phase == PIECES)
        r = go_on(staged, err);
    if (r == 0)
        staged->phase = IDLE;
    return r;
}

bool rg_staged_waits(struct rg_staged *staged)
{
    if (!staged || staged->phase != PIECES || staged->at_exec)
        return false;
    if (staged->filled > staged->done)
        return rg_gpu_mark_passed(staged->slots[staged->done % NSLOTS].in, NULL) == 0;
    return rg_gpu_mark_passed(staged->last, NULL) == 0;
}
