/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep.h"

#define ROUND_NBYTES_MAX (8u << 20)
#define TEMPLATES 5

uint64_t unit_seed(const struct sweep *sweep, const struct unit *unit, int member, int rank)
{
    return mix(sweep->seed ^ mix(unit->id * MEMBERS_MAX + (uint64_t) member) ^
               (uint64_t) (rank + 1) << 48) | 1;
}

/* Spread over the powers of two, and often beside one. */
static size_t draw_nbytes(struct rng *rng, size_t max)
{
    int bits = 0;

    while (max >> (bits + 1))
        bits++;
    size_t power = (size_t) 1 << rng_below(rng, (uint64_t) bits + 1);

    if (rng_one_in(rng, 4))
        return power + rng_below(rng, 3) * 8 - 8 * (power > 8);
    return rng_below(rng, power + 1);
}

static int draw_kind(struct rng *rng)
{
    static const int kinds[] = { REIGEN_ALLREDUCE, REIGEN_ALLREDUCE, REIGEN_ALLREDUCE,
                                 REIGEN_ALLREDUCE, REIGEN_ALLREDUCE, REIGEN_ALLGATHER,
                                 REIGEN_BROADCAST, REIGEN_ALLTOALL,  REIGEN_REDUCESCATTER,
                                 REIGEN_BROADCAST, REIGEN_ALLGATHER, REIGEN_BARRIER };

    return kinds[rng_below(rng, COUNT_OF(kinds))];
}

static void draw_options(struct rng *rng, struct unit *unit, int size)
{
    static const int ops[] = { REIGEN_SUM, REIGEN_AVERAGE, REIGEN_SUM,
                               REIGEN_MIN, REIGEN_MAX,     REIGEN_PRODUCT };
    static const double factors[] = { 0.5, 2.0, -1.5, 1.0 / 3, 0.1 };
    bool reduces = unit->kind == REIGEN_ALLREDUCE || unit->kind == REIGEN_REDUCESCATTER;

    unit->options = (struct reigen_options) REIGEN_OPTIONS_INIT;
    unit->dtype = (int) rng_below(rng, REIGEN_NDTYPES);
    if (rng_one_in(rng, 3))
        unit->dtype = REIGEN_FLOAT32;
    unit->root = (int) rng_below(rng, (uint64_t) size);
    if (unit->kind == REIGEN_BROADCAST)
        unit->options.root = unit->root;
    if (!reduces)
        return;
    unit->options.op = ops[rng_below(rng, unit->kind == REIGEN_ALLREDUCE ? COUNT_OF(ops) : 2)];
    if (unit->dtype == REIGEN_BOOL && unit->options.op == REIGEN_AVERAGE)
        unit->options.op = REIGEN_SUM;
    if (rng_one_in(rng, 4))
        unit->options.prescale = factors[rng_below(rng, COUNT_OF(factors))];
    if (rng_one_in(rng, 4))
        unit->options.postscale = factors[rng_below(rng, COUNT_OF(factors))];
}

static void draw_alltoall(struct rng *rng, struct unit *unit, struct member *member, size_t rows,
                          int size)
{
    for (int from = 0; from < size; from++) {
        member->rows[from] = 0;
        for (int to = 0; to < size; to++) {
            size_t most = rows / (size_t) size + 1;
            size_t part = unit->equal_splits ? most : rng_below(rng, 2 * most);

            member->splits[from][to] = (int32_t) part;
            member->rows[from] += part;
        }
    }
}

static void draw_member(struct rng *rng, struct unit *unit, struct member *member, size_t max,
                        const struct sweep *sweep)
{
    static const size_t lengths[] = { 2, 3, 5, 16, 64 };
    /* What all ranks gather is what is limited. */
    size_t most = unit->kind == REIGEN_ALLGATHER ? max / (size_t) sweep->size + 1 : max;
    size_t count = draw_nbytes(rng, most) / dtype_nbytes(unit->dtype);
    bool scalar = unit->kind == REIGEN_ALLREDUCE || unit->kind == REIGEN_BROADCAST;
    size_t rows;

    memset(member, 0, sizeof(*member));
    member->ndim = scalar && rng_one_in(rng, 12) ? 0 : 1 + (int) rng_below(rng, 3);
    member->row = member->ndim > 1 ? lengths[rng_below(rng, COUNT_OF(lengths))] : 1;
    rows = member->ndim > 0 ? count / member->row : 1;
    for (int r = 0; r < sweep->size; r++)
        member->rows[r] = unit->kind == REIGEN_ALLGATHER ? rng_below(rng, rows + 2) : rows;
    if (unit->kind == REIGEN_ALLTOALL)
        draw_alltoall(rng, unit, member, rows, sweep->size);
    member->shape[0] = (int64_t) member->rows[sweep->rank];
    member->shape[1] = member->ndim == 3 ? 1 : (int64_t) member->row;
    member->shape[2] = (int64_t) member->row;
}

static void draw_unit(struct rng *rng, struct sweep *sweep, struct unit *unit, size_t max)
{
    memset(unit, 0, sizeof(*unit));
    unit->kind = draw_kind(rng);
    draw_options(rng, unit, sweep->size);
    unit->equal_splits = rng_one_in(rng, 3);
    unit->unnamed = unit->kind == REIGEN_BARRIER || (rng_one_in(rng, 8) && !sweep->prefix[0]);
    unit->n = 1;
    if ((unit->kind == REIGEN_ALLREDUCE || unit->kind == REIGEN_ALLGATHER ||
         unit->kind == REIGEN_REDUCESCATTER) && rng_one_in(rng, 5))
        unit->n = 2 + (int) rng_below(rng, MEMBERS_MAX - 1);
    for (int i = 0; i < unit->n; i++)
        draw_member(rng, unit, &unit->members[i], max / (size_t) unit->n, sweep);
}

static size_t unit_nbytes(const struct unit *unit, int size)
{
    size_t sum = 0;

    for (int i = 0; i < unit->n; i++)
        for (int r = 0; r < size; r++)
            sum += unit->members[i].rows[r] * unit->members[i].row * dtype_nbytes(unit->dtype);
    return sum;
}

void sweep_plan_pool(struct sweep *sweep)
{
    struct rng rng = { mix(sweep->seed ^ 0x706f6f6c) };

    for (int i = 0; i < POOL_MAX; i++) {
        struct unit *unit = &sweep->pool[i];

        do
            draw_unit(&rng, sweep, unit, sweep->max_nbytes >> (i % 2 ? 0 : 8));
        while ((unit->kind != REIGEN_ALLREDUCE && unit->kind != REIGEN_BROADCAST) || unit->n > 1);
        unit->unnamed = false;
        snprintf(unit->name, sizeof(unit->name), "%sr%d", sweep->prefix, i);
    }
}

static void plan_pool_round(struct sweep *sweep, struct rng *rng, uint64_t round)
{
    sweep->nunits = 0;
    for (int i = 0; i < POOL_MAX; i++) {
        sweep->pool[i].id = round * UNITS_MAX + (uint64_t) i;
        if (rng_one_in(rng, 2))
            sweep->units[sweep->nunits++] = &sweep->pool[i];
    }
}

bool sweep_plan(struct sweep *sweep, uint64_t round)
{
    struct rng rng = { mix(sweep->seed + round) };
    bool ordered = rng_one_in(&rng, 4), steady = rng_one_in(&rng, 2);
    int most = 1 + (int) rng_below(&rng, UNITS_MAX);
    int template = (int) rng_below(&rng, TEMPLATES);
    size_t left = ROUND_NBYTES_MAX > sweep->max_nbytes ? ROUND_NBYTES_MAX : sweep->max_nbytes;

    if (rng_one_in(&rng, 5)) {
        plan_pool_round(sweep, &rng, round);
        return ordered;
    }
    /* The same operations again and again, or new ones under old names. */
    if (steady) {
        rng.state = mix(sweep->seed ^ (uint64_t) template << 32);
        most = UNITS_MAX / 2;
    }
    sweep->nunits = 0;
    for (int i = 0; i < most && left > 0; i++) {
        struct unit *unit = &sweep->space[i];
        size_t max = left < sweep->max_nbytes ? left : sweep->max_nbytes;

        draw_unit(&rng, sweep, unit, max);
        if (sweep->prefix[0] && unit->kind == REIGEN_BARRIER)
            continue;
        unit->id = round * UNITS_MAX + (uint64_t) i;
        if (steady)
            snprintf(unit->name, sizeof(unit->name), "%ss%d.%d", sweep->prefix, template, i);
        else
            snprintf(unit->name, sizeof(unit->name), "%sc%d", sweep->prefix, i);
        size_t nbytes = unit_nbytes(unit, sweep->size);

        left -= nbytes < left ? nbytes : left;
        sweep->units[sweep->nunits++] = unit;
    }
    return ordered;
}
