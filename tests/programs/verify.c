/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep.h"

#define LARGE_COUNT 65536 /* elements that not every rank computes again */

struct result {
    const void *data;
    size_t nbytes;
};

static void describe(const struct unit *unit, int member, uint64_t round, char *text, size_t room)
{
    static const char *const kinds[] = { "allreduce", "allgather", "broadcast", "join",
                                         "adasum",    "alltoall",  "barrier",   "reducescatter" };
    const struct member *m = &unit->members[member];

    snprintf(text, room, "round %llu: %s%s %s member %d of %d: %s %zu x %zu, op %d, %g, %g%s",
             (unsigned long long) round, kinds[unit->kind], unit->unnamed ? " unnamed" : "",
             unit->name, member, unit->n, dtype_name(unit->dtype), m->rows[0], m->row,
             unit->options.op, unit->options.prescale, unit->options.postscale,
             m->in_place ? ", in place" : "");
}

/* Of an operation that allocates its result: the memory, after a look at the shape. */
static struct result output(const struct unit *unit, const struct member *m, size_t rows,
                            const char *what)
{
    int64_t shape[REIGEN_NDIM_MAX];
    struct result result;
    int ndim;

    expect(reigen_output(m->handle, &result.data, &result.nbytes, shape, &ndim), 0, what);
    if (ndim != m->ndim || shape[0] != (int64_t) rows ||
        memcmp(shape + 1, m->shape + 1, (size_t) (ndim - 1) * sizeof(shape[0])) != 0)
        fail("%s: result has %d dimensions, the first of %lld", what, ndim, (long long) shape[0]);
    if (result.nbytes != rows * m->row * dtype_nbytes(unit->dtype))
        fail("%s: result has %zu bytes for %zu rows", what, result.nbytes, rows);
    return result;
}

/* Of a large result that all ranks have, each rank computes its own part again: that the others'
 * parts are right follows from their hashes being equal. */
static void check_share(const struct sweep *sweep, const struct unit *unit,
                        const struct reduction *red, size_t first, size_t count, const char *got,
                        const char *what)
{
    size_t part = count / (size_t) sweep->size, begin = (size_t) sweep->rank * part;

    if (unit->kind == REIGEN_ALLREDUCE && count >= LARGE_COUNT) {
        count = sweep->rank == sweep->size - 1 ? count - begin : part;
        got += begin * dtype_nbytes(unit->dtype);
        first += begin;
    }
    elements_check_reduced(red, first, count, got, what);
}

static struct result verify_reduced(const struct sweep *sweep, const struct unit *unit, int i,
                                    const char *what)
{
    const struct member *m = &unit->members[i];
    uint64_t seeds[RANKS_MAX];
    struct reduction red = { unit->dtype, unit->options.op, sweep->size, seeds,
                             unit->options.prescale, unit->options.postscale };
    size_t rows = m->rows[0], first = 0, extra = rows % (size_t) sweep->size;
    size_t me = (size_t) sweep->rank, part = rows / (size_t) sweep->size;
    struct result result = { m->out, m->out_count * dtype_nbytes(unit->dtype) };

    for (int r = 0; r < sweep->size; r++)
        seeds[r] = unit_seed(sweep, unit, i, r);
    if (unit->kind == REIGEN_REDUCESCATTER) {
        first = me * part + (me < extra ? me : extra);
        rows = part + (me < extra);
        result = output(unit, m, rows, what);
    }
    check_share(sweep, unit, &red, first * m->row, rows * m->row, result.data, what);
    return result;
}

static struct result verify_gathered(const struct sweep *sweep, const struct unit *unit, int i,
                                     const char *what)
{
    const struct member *m = &unit->members[i];
    size_t nbytes = dtype_nbytes(unit->dtype), rows = 0, at = 0;

    for (int r = 0; r < sweep->size; r++)
        rows += m->rows[r];
    struct result result = output(unit, m, rows, what);

    for (int r = 0; r < sweep->size; r++) {
        elements_check_copied(unit->dtype, unit_seed(sweep, unit, i, r), 0, m->rows[r] * m->row,
                              (const char *) result.data + at, what);
        at += m->rows[r] * m->row * nbytes;
    }
    return result;
}

static void verify_exchanged(const struct sweep *sweep, const struct unit *unit, const char *what)
{
    const struct member *m = &unit->members[0];
    size_t nbytes = dtype_nbytes(unit->dtype), rows = 0, at = 0;
    int32_t received[RANKS_MAX];
    int me = sweep->rank;

    for (int r = 0; r < sweep->size; r++)
        rows += (size_t) m->splits[r][me];
    struct result result = output(unit, m, rows, what);

    expect(reigen_received_splits(m->handle, received, sweep->size), 0, what);
    for (int r = 0; r < sweep->size; r++) {
        size_t first = 0, count = (size_t) m->splits[r][me] * m->row;

        if (received[r] != m->splits[r][me])
            fail("%s: %d rows from rank %d, not %d", what, received[r], r, m->splits[r][me]);
        for (int to = 0; to < me; to++)
            first += (size_t) m->splits[r][to] * m->row;
        elements_check_copied(unit->dtype, unit_seed(sweep, unit, 0, r), first, count,
                              (const char *) result.data + at, what);
        at += count * nbytes;
    }
}

uint64_t unit_verify(const struct sweep *sweep, struct unit *unit, uint64_t round, uint64_t hash)
{
    for (int i = 0; i < unit->n && unit->kind != REIGEN_BARRIER; i++) {
        struct member *m = &unit->members[i];
        struct result result = { 0 };
        char what[256];

        describe(unit, i, round, what, sizeof(what));
        if (unit->kind == REIGEN_ALLTOALL)
            verify_exchanged(sweep, unit, what);
        else if (unit->kind == REIGEN_ALLGATHER)
            result = verify_gathered(sweep, unit, i, what);
        else if (unit->kind == REIGEN_BROADCAST)
            result = (struct result){ m->out, m->out_count * dtype_nbytes(unit->dtype) };
        else
            result = verify_reduced(sweep, unit, i, what);
        if (unit->kind == REIGEN_BROADCAST)
            elements_check_copied(unit->dtype, unit_seed(sweep, unit, i, unit->root), 0,
                                  m->out_count, m->out, what);
        if (unit->kind != REIGEN_REDUCESCATTER && result.nbytes > 0)
            hash = hash_bytes(hash, result.data, result.nbytes);
        if (m->in && !m->in_place)
            elements_check_copied(unit->dtype, unit_seed(sweep, unit, i, sweep->rank), 0,
                                  m->in_count, m->in, what);
    }
    return hash;
}
