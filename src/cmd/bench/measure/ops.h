/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be measured: the runtime's operations, types of elements and reductions.
 *
 * Thread rule: any thread; constant data.
 */
#ifndef RG_CMD_BENCH_MEASURE_OPS_H
#define RG_CMD_BENCH_MEASURE_OPS_H

#include <stdbool.h>

/* Every operation of the C API that moves data or waits for others. */
enum rg_bench_op {
    RG_BENCH_ALLREDUCE,
    RG_BENCH_ALLGATHER,
    RG_BENCH_BROADCAST,
    RG_BENCH_ALLTOALL,
    RG_BENCH_REDUCESCATTER,
    RG_BENCH_ALLGATHER_INTO,
    RG_BENCH_REDUCESCATTER_INTO,
    RG_BENCH_BARRIER,
    RG_BENCH_JOIN,
    RG_BENCH_NOPS
};

struct rg_bench_op_info {
    const char *name;
    bool data;       /* it has a tensor */
    bool reduces;    /* it has a reduction; adasum: the allreduce alone */
    bool by_rank;    /* its larger buffer has a part for each rank */
    bool in_place;   /* out may be in */
};
extern const struct rg_bench_op_info rg_bench_ops[RG_BENCH_NOPS];

/* By enum reigen_dtype: the name, and the bytes of one element. */
struct rg_bench_type_info {
    const char *name;
    unsigned nbytes;
};
extern const struct rg_bench_type_info rg_bench_types[];

/* By enum reigen_op; NULL ends it. */
extern const char *const rg_bench_reductions[];

#endif
