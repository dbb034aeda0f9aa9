/* SPDX-License-Identifier: Apache-2.0 */
/* What all that are measured have in common: a row's case, and tensors of known values. */
#include "cmd/bench/measure/peer.h"

#include <string.h>

#include "cmd/bench/measure/values.h"

#define ALIGNMENT 4096

struct rg_bench_case rg_bench_case_make(const struct rg_bench_case *asked, enum rg_bench_op op,
                                        int type, uint64_t nbytes, int nranks)
{
    const struct rg_bench_op_info *info = &rg_bench_ops[op];
    struct rg_bench_case row = { .op = op, .type = type, .reduction = asked->reduction,
                                 .group = info->data ? asked->group : 1,
                                 .in_place = asked->in_place && info->in_place,
                                 .separate = asked->separate };
    size_t each = rg_bench_types[type].nbytes, nparts = info->by_rank ? (size_t) nranks : 1;

    if (!info->data)
        return row;
    row.part = nbytes / each / nparts ? nbytes / each / nparts : 1;
    row.count = row.part * nparts;
    row.nbytes = row.count * each;
    return row;
}

static bool gathers(const struct rg_bench_case *row)
{
    return row->op == RG_BENCH_ALLGATHER || row->op == RG_BENCH_ALLGATHER_INTO;
}

static bool scatters(const struct rg_bench_case *row)
{
    return row->op == RG_BENCH_REDUCESCATTER || row->op == RG_BENCH_REDUCESCATTER_INTO;
}

static size_t rounded(size_t nbytes)
{
    return (nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int rg_bench_buffers_make(const struct rg_bench_case *row, int rank, bool allocated,
                          struct rg_bench_buffers *ret_buffers, struct rg_error *err)
{
    struct rg_bench_buffers b = { .n = row->group,
                                  .in_count = gathers(row) ? row->part : row->count,
                                  .out_count = scatters(row) ? row->part : row->count };
    size_t each = rg_bench_types[row->type].nbytes;
    size_t in = row->in_place ? 0 : rounded(b.in_count * each);
    size_t out = allocated ? rounded(b.out_count * each) : 0;
    size_t nbytes = (in + out) * (size_t) b.n;

    b.ins = calloc((size_t) b.n, sizeof(*b.ins));
    b.outs = calloc((size_t) b.n, sizeof(*b.outs));
    if (!b.ins || !b.outs || (nbytes && posix_memalign(&b.memory, ALIGNMENT, nbytes) != 0)) {
        rg_bench_buffers_fini(&b);
        return rg_error_set(err, ENOMEM, "out of memory for %d tensors of %zu bytes; give less as "
                            "--max-bytes or --group", row->group, row->nbytes);
    }
    if (nbytes)
        memset(b.memory, 0, nbytes); /* no page is new while it is timed */
    for (int i = 0; i < b.n && nbytes; i++) {
        char *at = (char *) b.memory + (in + out) * (size_t) i;
        b.outs[i] = allocated ? at + in : NULL;
        b.ins[i] = row->in_place ? at + (gathers(row) ? row->part * each * (size_t) rank : 0) : at;
    }
    *ret_buffers = b;
    return 0;
}

void rg_bench_buffers_fini(struct rg_bench_buffers *buffers)
{
    free(buffers->memory);
    free(buffers->ins);
    free(buffers->outs);
    *buffers = (struct rg_bench_buffers){ 0 };
}

/* The reduction whose values a row's tensors have. */
static int reduction_of(const struct rg_bench_case *row)
{
    return rg_bench_ops[row->op].reduces ? row->reduction : -1;
}

void rg_bench_buffers_fill(const struct rg_bench_buffers *buffers, const struct rg_bench_case *row,
                           int rank)
{
    for (int i = 0; i < buffers->n && row->count; i++)
        rg_values_fill(row->type, reduction_of(row), rank, 0, buffers->ins[i], buffers->in_count);
}

/* What each rank has sent, part by part. */
static uint64_t parts_wrong(const struct rg_bench_case *row, int rank, int nranks,
                            const char *result)
{
    size_t nbytes = row->part * rg_bench_types[row->type].nbytes;
    size_t first = row->op == RG_BENCH_ALLTOALL ? row->part * (size_t) rank : 0;
    uint64_t nwrong = 0;

    for (int from = 0; from < nranks; from++) {
        double table[RG_VALUES_PERIOD];
        for (size_t k = 0; k < RG_VALUES_PERIOD; k++) {
            double value = rg_value_of(-1, from, k);
            table[k] = strcmp(rg_bench_types[row->type].name, "bool") == 0 ? value != 0 : value;
        }
        nwrong += rg_values_wrong(row->type, result + nbytes * (size_t) from, row->part, first,
                                  table, 0);
    }
    return nwrong;
}

uint64_t rg_bench_result_wrong(const struct rg_bench_case *row, int rank, int nranks,
                               const void *result, size_t count)
{
    double table[RG_VALUES_PERIOD];
    size_t expected = scatters(row) ? row->part : row->count;

    if (count != expected)
        return expected ? expected : 1;
    if (gathers(row) || row->op == RG_BENCH_ALLTOALL)
        return parts_wrong(row, rank, nranks, result);
    bool reduces = rg_bench_ops[row->op].reduces;
    rg_values_reduced(row->type, reduction_of(row), reduces ? nranks : 1, table);
    return rg_values_wrong(row->type, result, count,
                           scatters(row) ? row->part * (size_t) rank : 0, table,
                           reduces ? rg_values_tolerance(row->type, row->reduction, nranks) : 0);
}
