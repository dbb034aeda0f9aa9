/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks that measure together, and what they tell each other between measurements. It goes by
 * Reigen's own collectives, whoever is being measured.
 *
 * Thread rule: main thread. All functions but the first and last are collectives of all ranks, in
 * the same order, and block until all have come.
 */
#ifndef RG_CMD_BENCH_MEASURE_WORLD_H
#define RG_CMD_BENCH_MEASURE_WORLD_H

#include <stddef.h>

#include "base/error.h"
#include "cmd/bench/measure/runtime.h"

struct rg_bench_world {
    const struct rg_bench_runtime *runtime; /* borrowed */
    int rank, size;
    int nhosts;
};

/* A failure of a function of the runtime's, in its words. Returns r. */
int rg_bench_world_error(const struct rg_bench_world *world, int r, struct rg_error *err);

/* Join the job. As reigen_init. */
int rg_bench_world_join(const struct rg_bench_runtime *runtime, struct rg_bench_world *ret_world,
                        struct rg_error *err);
int rg_bench_world_barrier(const struct rg_bench_world *world, struct rg_error *err);
/* Rank 0's bytes to all. */
int rg_bench_world_share(const struct rg_bench_world *world, void *data, size_t nbytes,
                         struct rg_error *err);
/* n numbers of each rank, to all, in the order of ranks; n at least 1. */
int rg_bench_world_gather(const struct rg_bench_world *world, const double *mine, size_t n,
                          double *ret_all, struct rg_error *err);
/* What has failed on one rank has failed on all: r and err are those of the first rank whose r is
 * not 0, and err names it. */
int rg_bench_world_agree(const struct rg_bench_world *world, int r, struct rg_error *err);
/* Never fails. */
void rg_bench_world_leave(const struct rg_bench_world *world);

#endif
