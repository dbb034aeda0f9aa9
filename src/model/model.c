/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas; model.h has them in words. */
#include "model/model.h"

/* What is longer counts as this long: at the slowest rate that a file may give, no sum of a hundred
 * thousand members' times overflows then. */
#define NBYTES_MAX ((uint64_t) 1 << 36)

const struct rg_model rg_model_assumed = {
    .net = { .alpha_ns = 15000, .beta_ps = 800, .message_ns = 15000, .copy_ps = 400 },
    .node = { .alpha_ns = 1000, .beta_ps = 150, .message_ns = 500, .copy_ps = 150 },
    .gamma_ps = 100,
    .crowding_pct = 100,
};

/* A group, seen by the formulas. */
struct view {
    const struct rg_model *model;
    const struct rg_model_path *path; /* of the slowest pair */
    uint64_t n, per_host;
    uint64_t nbytes, block, chunk;
    bool reduces;
};

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* nbytes at ps per byte, without overflow for all that can be given. */
static uint64_t bytes_ns(uint64_t nbytes, uint64_t ps)
{
    return nbytes / 1000 * ps + nbytes % 1000 * ps / 1000;
}

static uint64_t crowded(const struct rg_model *model, uint64_t ns)
{
    return ns / 100 * model->crowding_pct + ns % 100 * model->crowding_pct / 100;
}

static uint64_t reduce_ns(const struct view *v, uint64_t nbytes)
{
    return crowded(v->model, bytes_ns(nbytes, v->model->gamma_ps));
}

/* A message in a stream of them, between members `distance` apart: so many ranks of a host, at most
 * all, share its line. */
static uint64_t stream_ns(const struct view *v, uint64_t nbytes, uint64_t distance, bool reduces)
{
    uint64_t sharing = at_most(distance, v->per_host);
    uint64_t line = bytes_ns(nbytes, v->path->beta_ps) * sharing;
    uint64_t cpu = v->path->message_ns + bytes_ns(nbytes, v->path->copy_ps);

    cpu = crowded(v->model, cpu) + (reduces ? reduce_ns(v, nbytes) : 0);
    return nbytes == 0 ? 0 : at_least(line, cpu);
}

static uint64_t chunks_of(uint64_t nbytes, uint64_t chunk)
{
    return (nbytes + chunk - 1) / chunk;
}

/* All chunks of a block, one after another; the last one is shorter. */
static uint64_t block_ns(const struct view *v, uint64_t distance, bool reduces)
{
    uint64_t full = v->block / v->chunk, rest = v->block % v->chunk;

    return full * stream_ns(v, v->chunk, distance, reduces) +
           stream_ns(v, rest, distance, reduces);
}

/* From a chunk's first byte at the sender till the receiver can pass it on. */
static uint64_t hop_ns(const struct view *v, uint64_t nbytes, uint64_t distance, bool reduces)
{
    return v->path->alpha_ns + stream_ns(v, nbytes, distance, reduces) +
           (reduces ? reduce_ns(v, nbytes) : 0);
}

/* When the last chunk has left the sender: its way, and what is done with it. */
static uint64_t last_ns(const struct view *v, uint64_t nbytes, bool reduces)
{
    return v->path->alpha_ns + (reduces ? reduce_ns(v, nbytes) : 0);
}

static uint64_t log2_up(uint64_t n)
{
    uint64_t k = 0;

    while (UINT64_C(1) << k < n)
        k++;
    return k;
}

/* ------------------------------------------------------------ one phase */

/* n - 1 steps of a ring. If the phase goes on in another one, a step ends when its first chunk can
 * be passed on, else when the last one is there. */
static uint64_t ring_ns(const struct view *v, bool reduces, bool goes_on)
{
    uint64_t chunk = at_most(v->block, v->chunk), block = block_ns(v, 1, reduces);
    uint64_t step = at_least(block, hop_ns(v, chunk, 1, reduces));

    return (v->n - 2) * step + (goes_on ? step : block + last_ns(v, chunk, reduces));
}

/* The levels of recursive halving, or of doubling the other way round. Level i exchanges
 * min(2^i, n - 2^i) blocks with who is 2^i places away; of each the first chunk is wanted in the
 * next level. Where n is no power of two nobody waits for the farthest level: no block takes more
 * hops than log2 n, rounded down. */
static uint64_t levels_ns(const struct view *v, bool reduces, bool goes_on)
{
    uint64_t total = 0, chunk = at_most(v->block, v->chunk);

    for (uint64_t reach = 1; reach < v->n; reach *= 2) {
        uint64_t nblocks = at_most(reach, v->n - reach);
        uint64_t line = nblocks * block_ns(v, reach, reduces);

        if (reach > 1 && 2 * reach > v->n)
            total += line;
        else if (reach > 1 || goes_on)
            total += at_least(line, hop_ns(v, chunk, reach, reduces));
        else
            total += line + last_ns(v, chunk, reduces);
    }
    return total;
}

/* ------------------------------------------------------------ algorithms */

static uint64_t doubling_ns(const struct view *v)
{
    uint64_t total = 0, reach = 1;

    for (; reach * 2 <= v->n; reach *= 2)
        total += v->path->alpha_ns + stream_ns(v, v->nbytes, reach, false) +
                 reduce_ns(v, v->nbytes);
    /* Who is beyond the power of two brings its data before, and gets the result after. If those
     * are few, the others need not wait for both. */
    if (reach < v->n)
        total += (2 * (v->n - reach) > reach ? 2 : 1) * v->path->alpha_ns +
                 2 * stream_ns(v, v->nbytes, 1, false) + reduce_ns(v, v->nbytes);
    return total;
}

static uint64_t two_phases_ns(const struct view *v, enum rg_model_kind kind,
                              uint64_t (*phase)(const struct view *v, bool reduces,
                                                bool goes_on))
{
    uint64_t total = 0;

    if (kind != RG_MODEL_ALLGATHER)
        total += phase(v, true, kind == RG_MODEL_ALLREDUCE);
    if (kind != RG_MODEL_REDUCESCATTER)
        total += phase(v, false, false);
    return total;
}

/* The farthest member is log2 n hops away, rounded down; the root has one message more to do with
 * where n is no power of two. */
static uint64_t tree_ns(const struct view *v)
{
    uint64_t nmessages = log2_up(v->n), nhops = nmessages - (UINT64_C(1) << nmessages > v->n);
    uint64_t each = stream_ns(v, v->nbytes, v->per_host, false) +
                    (v->reduces ? reduce_ns(v, v->nbytes) : 0);

    return nhops * v->path->alpha_ns + nmessages * each;
}

static uint64_t chain_ns(const struct view *v)
{
    uint64_t chunk = at_most(v->nbytes, v->chunk), nchunks = chunks_of(v->nbytes, v->chunk);
    uint64_t each = stream_ns(v, chunk, 1, v->reduces);

    return (at_least(nchunks, 1) + v->n - 2) * each + (v->n - 1) * last_ns(v, chunk, v->reduces);
}

/* The root's blocks leave one after another, its own goes last; each goes round by doubling. */
static uint64_t scatter_ns(const struct view *v)
{
    return v->path->alpha_ns + (v->n - 1) * block_ns(v, 1, false) +
           (v->n > 2 ? levels_ns(v, false, false) : block_ns(v, 1, false));
}

/* Of n - 1 blocks those for the same host do not share its line. */
static uint64_t pairwise_ns(const struct view *v)
{
    struct view mine = *v;

    mine.block = mine.chunk = at_least(v->nbytes / v->n / v->n, 1);
    return v->path->alpha_ns + (v->n - v->per_host) * block_ns(&mine, v->per_host, false) +
           (v->per_host - 1) * block_ns(&mine, 1, false);
}

bool rg_algorithm_does(enum rg_algorithm algorithm, enum rg_model_kind kind)
{
    switch (algorithm) {
    case RG_ALGORITHM_DOUBLING:
        return kind == RG_MODEL_ALLREDUCE;
    case RG_ALGORITHM_HALVING:
    case RG_ALGORITHM_RING:
        return kind == RG_MODEL_ALLREDUCE || kind == RG_MODEL_ALLGATHER ||
               kind == RG_MODEL_REDUCESCATTER;
    case RG_ALGORITHM_TREE:
    case RG_ALGORITHM_CHAIN:
        return kind == RG_MODEL_BROADCAST || kind == RG_MODEL_REDUCE;
    case RG_ALGORITHM_SCATTER:
        return kind == RG_MODEL_BROADCAST;
    case RG_ALGORITHM_PAIRWISE:
        return kind == RG_MODEL_ALLTOALL;
    default:
        return false;
    }
}

static struct view view_of(const struct rg_model *model, const struct rg_model_task *task,
                           size_t chunk_nbytes)
{
    struct view v = { .model = model,
                      .path = task->nhosts > 1 ? &model->net : &model->node,
                      .n = (uint64_t) task->nhosts * (uint64_t) task->ranks_per_host,
                      .per_host = (uint64_t) task->ranks_per_host,
                      .nbytes = at_most(task->nbytes, NBYTES_MAX),
                      .chunk = at_least(chunk_nbytes, 1),
                      .reduces = task->kind == RG_MODEL_REDUCE };

    v.block = (v.nbytes + v.n - 1) / v.n;
    return v;
}

uint64_t rg_model_ns(const struct rg_model *model, const struct rg_model_task *task,
                     enum rg_algorithm algorithm, size_t chunk_nbytes)
{
    const struct view v = view_of(model, task, chunk_nbytes);

    if (!rg_algorithm_does(algorithm, task->kind))
        return RG_MODEL_NEVER;
    if (v.n <= 1)
        return 0;
    switch (algorithm) {
    case RG_ALGORITHM_DOUBLING:
        return doubling_ns(&v);
    case RG_ALGORITHM_HALVING:
        return two_phases_ns(&v, task->kind, levels_ns);
    case RG_ALGORITHM_RING:
        return two_phases_ns(&v, task->kind, ring_ns);
    case RG_ALGORITHM_TREE:
        return tree_ns(&v);
    case RG_ALGORITHM_CHAIN:
        return chain_ns(&v);
    case RG_ALGORITHM_SCATTER:
        return scatter_ns(&v);
    default:
        return pairwise_ns(&v);
    }
}

/* With the best chunks for it. */
static uint64_t least_ns(const struct rg_model *model, const struct rg_model_task *task,
                         enum rg_algorithm algorithm)
{
    uint64_t least = RG_MODEL_NEVER;

    for (uint32_t chunk = RG_MODEL_CHUNK_MIN; chunk <= RG_MODEL_CHUNK_MAX; chunk *= 2)
        least = at_most(least, rg_model_ns(model, task, algorithm, chunk));
    return least;
}

/* What is nearly as quick as what takes this time. */
static uint64_t nearly(uint64_t ns)
{
    return ns + ns / 16;
}

/* All bytes go to one neighbour, in one stream, which is kinder to TCP and to the processor than
 * several that take turns. */
static bool is_steady(int algorithm)
{
    return algorithm == RG_ALGORITHM_RING || algorithm == RG_ALGORITHM_CHAIN;
}

/* Among more than two, doubling sends all bytes at each level, and halving at most twice. A line
 * that is slower than it is believed to be makes that difference larger, never smaller. */
static bool is_thrifty(const struct rg_model_task *task, int algorithm, enum rg_algorithm best)
{
    return algorithm == RG_ALGORITHM_HALVING && best == RG_ALGORITHM_DOUBLING &&
           (long) task->nhosts * task->ranks_per_host > 2;
}

struct rg_model_choice rg_model_choose(const struct rg_model *model,
                                       const struct rg_model_task *task, enum rg_algorithm wanted)
{
    struct rg_model_choice best = { RG_ALGORITHM_AUTO, RG_MODEL_CHUNK_MAX, 0 };
    bool free_choice = !rg_algorithm_does(wanted, task->kind);
    uint64_t least = RG_MODEL_NEVER;

    for (int a = RG_ALGORITHM_AUTO + 1; a < RG_NALGORITHMS; a++) {
        if (!free_choice && a != (int) wanted)
            continue;
        uint64_t ns = least_ns(model, task, (enum rg_algorithm) a);
        if (ns < least || (is_thrifty(task, a, best.algorithm) && ns <= least + least / 2) ||
            (is_steady(a) && least < RG_MODEL_NEVER &&
             rg_model_ns(model, task, (enum rg_algorithm) a, RG_MODEL_CHUNK_MAX) <=
                 nearly(least))) {
            best.algorithm = (enum rg_algorithm) a;
            least = ns;
        }
    }
    /* Each chunk costs the processor's time, which the job needs for other things. */
    best.ns = rg_model_ns(model, task, best.algorithm, best.chunk_nbytes);
    while (best.ns > nearly(least)) {
        best.chunk_nbytes /= 2;
        best.ns = rg_model_ns(model, task, best.algorithm, best.chunk_nbytes);
    }
    return best;
}

/* ------------------------------------------------------------ a job's operations */

/* Inside a host, in the pipeline of the shm plane: all ranks at once reduce a part each, or copy
 * what one has. */
static uint64_t inside_ns(const struct rg_model *model, uint64_t nbytes, bool reduces)
{
    uint64_t ns = model->node.alpha_ns + bytes_ns(nbytes, model->node.beta_ps);

    return ns + (reduces ? bytes_ns(nbytes, model->gamma_ps) : 0);
}

uint64_t rg_model_job_ns(const struct rg_model *model, const struct rg_model_task *task,
                         struct rg_model_choice *ret_between)
{
    bool composed = task->kind == RG_MODEL_ALLREDUCE || task->kind == RG_MODEL_BROADCAST ||
                    task->kind == RG_MODEL_REDUCE;
    struct rg_model_task between = *task;
    struct rg_model_choice choice = { RG_ALGORITHM_AUTO, RG_MODEL_CHUNK_MAX, 0 };
    uint64_t nbytes = at_most(task->nbytes, NBYTES_MAX), total = 0;

    if (composed)
        between.ranks_per_host = 1;
    if (task->nhosts > 1)
        choice = rg_model_choose(model, &between, RG_ALGORITHM_AUTO);
    total = choice.ns;
    if (task->ranks_per_host > 1 && (composed || task->nhosts == 1)) {
        if (task->kind != RG_MODEL_BROADCAST)
            total += inside_ns(model, nbytes, task->kind != RG_MODEL_ALLGATHER &&
                                                  task->kind != RG_MODEL_ALLTOALL);
        if (task->kind == RG_MODEL_ALLREDUCE || task->kind == RG_MODEL_BROADCAST)
            total += inside_ns(model, nbytes, false);
    }
    if (ret_between)
        *ret_between = choice;
    return total;
}

/* ------------------------------------------------------------ without an agreement */

/* 64 bits hold it: levels are few, and parameters bounded. */
uint64_t rg_model_agreement_ns(const struct rg_model *model, int nhosts, int fan_out)
{
    uint64_t n = nhosts > 0 ? (uint64_t) nhosts : 1, others = n - 1;
    uint64_t width = at_most((uint64_t) fan_out, others), reached = 1, level = 1, total = 0;

    while (reached < n) {
        level *= width;
        reached += level;
        total += 2 * model->net.alpha_ns + crowded(model, (width + 1) * model->net.message_ns);
    }
    return total;
}

/* A frame that goes and comes as a whole. */
static uint64_t frame_ns(const struct view *v, uint64_t nbytes)
{
    return stream_ns(v, nbytes ? nbytes : 1, 1, false) +
           crowded(v->model, bytes_ns(nbytes, v->path->copy_ps / 2));
}

static uint64_t direct_doubling_ns(const struct view *v)
{
    uint64_t each = v->path->alpha_ns + frame_ns(v, v->nbytes), total = 0, reach = 1;

    for (; reach * 2 <= v->n; reach *= 2)
        total += each + reduce_ns(v, v->nbytes);
    return reach < v->n ? total + 2 * each + reduce_ns(v, v->nbytes) : total;
}

/* In slots that the host's first rank reduces alone. */
static uint64_t in_slots_ns(const struct rg_model *model, const struct rg_model_task *task)
{
    uint64_t nbytes = at_most(task->nbytes, NBYTES_MAX), n = (uint64_t) task->ranks_per_host;

    if (n == 1)
        return 0;
    return 2 * model->node.alpha_ns + bytes_ns(nbytes, 2 * model->node.copy_ps) +
           n * bytes_ns(nbytes, model->gamma_ps);
}

uint64_t rg_model_direct_ns(const struct rg_model *model, const struct rg_model_task *task,
                            enum rg_model_direct way)
{
    const struct rg_model_task all = { RG_MODEL_ALLREDUCE, task->nhosts, task->ranks_per_host,
                                       task->nbytes };
    const struct rg_model_task leaders = { RG_MODEL_ALLREDUCE, task->nhosts, 1, task->nbytes };
    const struct view v = view_of(model, &leaders, RG_MODEL_CHUNK_MAX);
    uint64_t others = v.n - 1, inside = in_slots_ns(model, task);

    if (v.n <= 1)
        return 0;
    if (way >= RG_MODEL_DIRECT_ONE_SHOT && v.n > RG_MODEL_SHOTS_MAX)
        return RG_MODEL_NEVER;
    switch (way) {
    case RG_MODEL_AGREED:
        return rg_model_agreement_ns(model, task->nhosts, RG_MODEL_FAN_OUT) +
               rg_model_job_ns(model, &all, NULL);
    case RG_MODEL_DIRECT_DOUBLING:
        return inside + direct_doubling_ns(&v);
    case RG_MODEL_DIRECT_ONE_SHOT:
        return inside + v.path->alpha_ns +
               others * (frame_ns(&v, v.nbytes) + reduce_ns(&v, v.nbytes));
    case RG_MODEL_DIRECT_TWO_SHOT:
        return inside + 2 * v.path->alpha_ns +
               others * (2 * frame_ns(&v, v.block) + reduce_ns(&v, v.block));
    default:
        return RG_MODEL_NEVER;
    }
}

/* Shots are taken instead of doubling only if they save this, times the crowding: their many frames
 * each wake a rank. Two shots of larger tensors need not, unless three hosts share a core. */
#define SHOTS_SAVE_NS 150000
/* Hosts are near if an agreement's way there and back is shorter than this. */
#define NEAR_NS 100000

/* Whether it sends no more bytes than an allreduce has to, or bytes are not what it waits for. */
static bool is_frugal(const struct rg_model *model, const struct rg_model_task *task,
                      enum rg_model_direct way)
{
    bool may_double = task->nhosts == 2 || model->crowding_pct >= RG_MODEL_CROWDED_PCT;

    return way == RG_MODEL_DIRECT_TWO_SHOT || (way == RG_MODEL_DIRECT_DOUBLING && may_double);
}

/* What must be beaten, as the prediction is not better than that. Among hosts that are near, the
 * chunks of what is larger do more at a time, agreed on, than the formulas see. */
static uint64_t limit_ns(const struct rg_model *model, const struct rg_model_task *task)
{
    uint64_t agreed = rg_model_direct_ns(model, task, RG_MODEL_AGREED);

    if (task->nbytes > RG_MODEL_DIRECT_MIDDLE && 2 * model->net.alpha_ns < NEAR_NS)
        return 0;
    return agreed - agreed / 10;
}

/* What a way must save to be taken instead of doubling. */
static uint64_t handicap_ns(const struct rg_model *model, const struct rg_model_task *task,
                            enum rg_model_direct way)
{
    bool small = task->nbytes <= RG_MODEL_DIRECT_SMALL;

    if (way == RG_MODEL_DIRECT_DOUBLING ||
        (!small && model->crowding_pct < RG_MODEL_CROWDED_PCT))
        return 0;
    return crowded(model, SHOTS_SAVE_NS);
}

enum rg_model_direct rg_model_direct(const struct rg_model *model,
                                     const struct rg_model_task *task)
{
    bool small = task->nbytes <= RG_MODEL_DIRECT_SMALL;
    uint64_t limit = small ? RG_MODEL_NEVER : limit_ns(model, task), least = RG_MODEL_NEVER;
    enum rg_model_direct best = RG_MODEL_AGREED;

    if (task->nbytes > RG_MODEL_DIRECT_MAX)
        return RG_MODEL_AGREED;
    for (int w = RG_MODEL_DIRECT_DOUBLING; w < RG_MODEL_NDIRECT; w++) {
        enum rg_model_direct way = (enum rg_model_direct) w;
        uint64_t ns = rg_model_direct_ns(model, task, way);
        uint64_t cost = ns < RG_MODEL_NEVER ? ns + handicap_ns(model, task, way) : ns;

        if (ns < limit && cost < least && (small || is_frugal(model, task, way))) {
            best = way;
            least = cost;
        }
    }
    return best;
}
