/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep.h"

#include <sched.h>

#define GUARD 64
#define GUARD_BYTE 0xa5

static char *guarded(struct rng *rng, size_t nbytes, char **ret_block)
{
    size_t shift = rng_one_in(rng, 3) ? rng_below(rng, GUARD) : 0;
    char *block = allocate(nbytes + 3 * GUARD);

    memset(block, GUARD_BYTE, 2 * GUARD);
    memset(block + GUARD + nbytes, GUARD_BYTE, 2 * GUARD);
    *ret_block = block;
    return block + GUARD + shift;
}

static void check_guards(const char *block, const char *data, size_t nbytes, const char *name)
{
    const unsigned char *before = (const unsigned char *) block;
    const unsigned char *after = (const unsigned char *) data + nbytes;
    const unsigned char *end = before + nbytes + 3 * GUARD;

    for (; before < (const unsigned char *) data; before++)
        if (*before != GUARD_BYTE)
            fail("%s: written before its buffer", name);
    for (; after < end; after++)
        if (*after != GUARD_BYTE)
            fail("%s: written beyond its buffer", name);
}

/* Buffers and inputs of this rank. */
static void fill_member(struct sweep *sweep, struct unit *unit, int i)
{
    struct member *m = &unit->members[i];
    size_t nbytes = dtype_nbytes(unit->dtype);
    bool has_in = unit->kind != REIGEN_BROADCAST || unit->root == sweep->rank;
    bool has_out = unit->kind == REIGEN_ALLREDUCE || unit->kind == REIGEN_BROADCAST;

    m->in_count = m->rows[sweep->rank] * m->row;
    m->out_count = has_out ? m->in_count : 0;
    m->in = m->out = m->in_block = m->out_block = NULL;
    m->in_place = has_out && rng_one_in(&sweep->own, 2);
    if (has_out)
        m->out = guarded(&sweep->own, m->out_count * nbytes, &m->out_block);
    if (m->in_place)
        m->in = m->out;
    else if (has_in)
        m->in = guarded(&sweep->own, m->in_count * nbytes, &m->in_block);
    if (has_in)
        elements_fill(unit->dtype, unit_seed(sweep, unit, i, sweep->rank), 0, m->in_count, m->in);
}

static void free_member(struct unit *unit, struct member *m)
{
    size_t nbytes = dtype_nbytes(unit->dtype);

    if (m->in_block)
        check_guards(m->in_block, m->in, m->in_count * nbytes, unit->name);
    if (m->out_block)
        check_guards(m->out_block, m->out, m->out_count * nbytes, unit->name);
    free(m->in_block);
    free(m->out_block);
    if (m->handle > 0)
        expect(reigen_release(m->handle), 0, "release");
    m->handle = 0;
}

static int submit_group(struct unit *unit)
{
    char texts[MEMBERS_MAX][64];
    const char *names[MEMBERS_MAX];
    const void *ins[MEMBERS_MAX];
    void *outs[MEMBERS_MAX];
    const int64_t *shapes[MEMBERS_MAX];
    int ndims[MEMBERS_MAX];
    reigen_handle handles[MEMBERS_MAX];

    for (int i = 0; i < unit->n; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%s_%d", unit->name, i);
        names[i] = texts[i];
        ins[i] = unit->members[i].in;
        outs[i] = unit->members[i].out;
        shapes[i] = unit->members[i].shape;
        ndims[i] = unit->members[i].ndim;
    }
    int r = reigen_grouped_async(unit->kind, unit->n, unit->unnamed ? NULL : names, ins, outs,
                                 unit->dtype, shapes, ndims, &unit->options, handles);

    for (int i = 0; i < unit->n && r == 0; i++)
        unit->members[i].handle = handles[i];
    return r;
}

static int submit_one(const struct sweep *sweep, struct unit *unit)
{
    struct member *m = &unit->members[0];
    const char *name = unit->unnamed ? NULL : unit->name;
    const struct reigen_options *o = &unit->options;

    switch (unit->kind) {
    case REIGEN_ALLREDUCE:
        return reigen_allreduce_async(name, m->in, m->out, unit->dtype, m->shape, m->ndim, o,
                                      &m->handle);
    case REIGEN_ALLGATHER:
        return reigen_allgather_async(name, m->in, unit->dtype, m->shape, m->ndim, o, &m->handle);
    case REIGEN_BROADCAST:
        return reigen_broadcast_async(name, m->in, m->out, unit->dtype, m->shape, m->ndim, o,
                                      &m->handle);
    case REIGEN_ALLTOALL:
        return reigen_alltoall_async(name, m->in, unit->dtype, m->shape, m->ndim,
                                     unit->equal_splits ? NULL : m->splits[sweep->rank],
                                     unit->equal_splits ? 0 : sweep->size, o, &m->handle);
    case REIGEN_REDUCESCATTER:
        return reigen_reducescatter_async(name, m->in, unit->dtype, m->shape, m->ndim, o,
                                          &m->handle);
    default:
        return reigen_barrier_async(NULL, &m->handle);
    }
}

static void submit(const struct sweep *sweep, struct unit *unit)
{
    int r = unit->request ? reigen_request_start(unit->request, unit->members[0].in,
                                                 unit->members[0].out)
            : unit->n > 1 ? submit_group(unit)
                          : submit_one(sweep, unit);

    if (r < 0)
        fail("%s %d was refused: %s", unit->name, unit->kind, reigen_last_error());
}

/* Waits, in one of the ways that there are. */
static int wait_for(struct rng *rng, struct unit *unit, reigen_handle handle)
{
    struct reigen_request *request = unit->request;
    int way = (int) rng_below(rng, 4), r;

    if (way == 0)
        while ((request ? reigen_request_test(request) : reigen_poll(handle)) == 0)
            sched_yield();
    do
        r = request ? reigen_request_wait(request, way == 1 ? 1 : -1)
                    : reigen_wait(handle, way == 1 ? 1 : -1);
    while (r == -EAGAIN && way == 1);
    return r;
}

static void await(struct rng *rng, struct unit *unit)
{
    for (int i = 0; i < unit->n; i++) {
        reigen_handle handle = unit->members[i].handle;
        int r = wait_for(rng, unit, handle);

        if (r < 0)
            fail("%s %d failed: %s", unit->name, unit->kind,
                 unit->request ? reigen_request_error(unit->request) : reigen_handle_error(handle));
    }
}

/* The blocking calls, where there is one. */
static void carry_out(struct sweep *sweep, struct unit *unit)
{
    struct member *m = &unit->members[0];
    const char *name = unit->unnamed ? NULL : unit->name;
    int r = 0;

    if (unit->request) {
        r = reigen_request_run(unit->request, m->in, m->out, -1);
    } else if (unit->kind == REIGEN_ALLREDUCE && unit->n == 1) {
        r = reigen_allreduce(name, m->in, m->out, unit->dtype, m->shape, m->ndim, &unit->options);
    } else if (unit->kind == REIGEN_BROADCAST) {
        r = reigen_broadcast(name, m->in, m->out, unit->dtype, m->shape, m->ndim, &unit->options);
    } else if (unit->kind == REIGEN_BARRIER) {
        r = reigen_barrier();
    } else {
        submit(sweep, unit);
        await(&sweep->own, unit);
    }
    if (r < 0)
        fail("%s %d failed: %s", unit->name, unit->kind, reigen_last_error());
}

static void pause_sometimes(struct rng *rng)
{
    if (rng_one_in(rng, 12))
        usleep((useconds_t) rng_below(rng, 2000)); /* patient: it computes */
}

/* A random order, in which the unnamed keep theirs: they are matched by it. */
static void shuffle(struct sweep *sweep, int *order)
{
    int next = 0;

    for (int i = 0; i < sweep->nunits; i++)
        order[i] = i;
    for (int i = sweep->nunits - 1; i > 0; i--) {
        int j = (int) rng_below(&sweep->own, (uint64_t) i + 1), kept = order[i];

        order[i] = order[j];
        order[j] = kept;
    }
    for (int i = 0; i < sweep->nunits; i++) {
        if (!sweep->units[order[i]]->unnamed)
            continue;
        while (!sweep->units[next]->unnamed)
            next++;
        order[i] = next++;
    }
}

static void round_in_any_order(struct sweep *sweep)
{
    int order[UNITS_MAX];

    shuffle(sweep, order);
    for (int i = 0; i < sweep->nunits; i++) {
        pause_sometimes(&sweep->own);
        submit(sweep, sweep->units[order[i]]);
    }
    shuffle(sweep, order);
    for (int i = 0; i < sweep->nunits; i++) {
        pause_sometimes(&sweep->own);
        await(&sweep->own, sweep->units[order[i]]);
    }
}

static void check_hashes(struct sweep *sweep, uint64_t round)
{
    char name[64];
    int64_t shape[] = { 1 };
    reigen_handle handle;
    const void *data;
    size_t nbytes;
    int ndim;

    snprintf(name, sizeof(name), "%shash", sweep->prefix);
    expect(reigen_allgather_async(name, &sweep->hash, REIGEN_INT64, shape, 1, NULL, &handle), 0,
           name);
    expect(reigen_wait(handle, -1), 0, name);
    expect(reigen_output(handle, &data, &nbytes, shape, &ndim), 0, name);
    for (int r = 0; r < sweep->size; r++)
        if (memcmp((const uint64_t *) data + r, &sweep->hash, sizeof(sweep->hash)) != 0)
            fail("round %llu: results differ in their bits from rank %d's",
                 (unsigned long long) round, r);
    expect(reigen_release(handle), 0, name);
}

static void run_round(struct sweep *sweep, uint64_t round)
{
    bool ordered = sweep_plan(sweep, round);

    for (int i = 0; i < sweep->nunits; i++)
        for (int k = 0; k < sweep->units[i]->n; k++)
            fill_member(sweep, sweep->units[i], k);
    if (ordered)
        for (int i = 0; i < sweep->nunits; i++) {
            pause_sometimes(&sweep->own);
            carry_out(sweep, sweep->units[i]);
        }
    else
        round_in_any_order(sweep);
    for (int i = 0; i < sweep->nunits; i++) {
        sweep->hash = unit_verify(sweep, sweep->units[i], round, sweep->hash);
        sweep->noperations += (uint64_t) sweep->units[i]->n;
        sweep->cases[sweep->units[i]->kind][sweep->units[i]->dtype] +=
            (uint64_t) sweep->units[i]->n;
        if (sweep->units[i]->kind == REIGEN_ALLREDUCE)
            sweep->reductions[sweep->units[i]->options.op] += (uint64_t) sweep->units[i]->n;
        for (int k = 0; k < sweep->units[i]->n; k++)
            free_member(sweep->units[i], &sweep->units[i]->members[k]);
    }
    check_hashes(sweep, round);
}

/* Rank 0 says whether there is time for one more. */
static bool another_round(struct sweep *sweep, uint64_t deadline_ms)
{
    int32_t go = sweep->only < 0 ? now_ms() < deadline_ms : sweep->nrounds == 0;
    char name[64];

    snprintf(name, sizeof(name), "%sgo", sweep->prefix);
    expect(reigen_broadcast(name, &go, &go, REIGEN_INT32, NULL, 0, NULL), 0, name);
    return go;
}

void sweep_run(struct sweep *sweep, const char *prefix, uint64_t seed, size_t max_nbytes,
               uint64_t duration_ms, int64_t only)
{
    uint64_t deadline_ms = now_ms() + duration_ms;

    *sweep = (struct sweep){ .prefix = prefix, .seed = seed, .max_nbytes = max_nbytes,
                             .rank = reigen_rank(), .size = reigen_size(), .hash = HASH_START,
                             .only = only };
    sweep->own.state = mix(seed + (uint64_t) sweep->rank * 1000003);
    sweep_plan_pool(sweep);
    for (int i = 0; i < POOL_MAX; i++) {
        struct unit *unit = &sweep->pool[i];

        if (reigen_request_create(unit->kind, unit->name, unit->dtype, unit->members[0].shape,
                                  unit->members[0].ndim, &unit->options, &unit->request) < 0)
            fail("request %s: %s", unit->name, reigen_last_error());
    }
    for (; another_round(sweep, deadline_ms); sweep->nrounds++)
        run_round(sweep, only < 0 ? sweep->nrounds : (uint64_t) only);
    for (int i = 0; i < POOL_MAX; i++)
        reigen_request_free(sweep->pool[i].request);
}
