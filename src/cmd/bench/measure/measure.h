/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of a measurement: an operation, timed for all who are measured, in turns, so that what
 * disturbs the computer disturbs all of them alike.
 *
 * A rank's time is the median, over the rounds, of the mean of a round's iterations; a row shows
 * the median, the least and the largest of the ranks' times. Bandwidths are those of the NCCL
 * tests (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the algorithm's is bytes per time, and
 * the bus bandwidth is that times what each rank's link must carry, per byte, at least.
 *
 * Thread rule: main thread; rg_measure_row is called by all ranks and blocks until it is done.
 */
#ifndef RG_CMD_BENCH_MEASURE_MEASURE_H
#define RG_CMD_BENCH_MEASURE_MEASURE_H

#include <stdbool.h>

#include "cmd/bench/measure/peer.h"

#define RG_BENCH_PEERS_MAX 4
#define RG_MEASURED_MAX (1 + RG_BENCH_PEERS_MAX) /* Reigen, and its peers */
#define RG_MEASURE_NOTE_MAX 160

/* How each row is measured. */
struct rg_measure_how {
    int iterations; /* of each round; 0: as many as take `seconds` in all rounds */
    double seconds;
    int warmup, rounds;
    bool check;
    bool peers_alone; /* without number 0 */
};

/* Who is measured; number 0 is Reigen. */
struct rg_measured {
    const struct rg_bench_peer *peer;
    void *self;
};

struct rg_measure_result {
    bool measured;          /* false: it has no such operation; note says why */
    char note[RG_MEASURE_NOTE_MAX];
    double median_s, min_s, max_s; /* over the ranks */
    double tenth_s;         /* the median of the ranks' 10th percentiles of their rounds */
    int niterations;        /* in each round */
    double algorithm_gbps, bus_gbps; /* 10^9 bytes a second; 0 where there are no bytes */
    bool checked;
    double nwrong;          /* elements, over all ranks */
};

struct rg_measure_row {
    struct rg_bench_case what;
    struct rg_measure_result results[RG_MEASURED_MAX];
};

/* What the bus bandwidth of an operation is in terms of the algorithm's. */
double rg_measure_bus_factor(enum rg_bench_op op, int nranks);
/* The median of n numbers, which are sorted; n at least 1. */
double rg_measure_median(double *numbers, size_t n);

/* what is the row's. Whoever has no such operation is left out; other failures, on any rank, are
 * all ranks' failures. 0 or -errno with err. */
int rg_measure_row(const struct rg_bench_world *world, const struct rg_measure_how *how,
                   const struct rg_measured *measured, int nmeasured,
                   const struct rg_bench_case *what, struct rg_measure_row *ret_row,
                   struct rg_error *err);

#endif
