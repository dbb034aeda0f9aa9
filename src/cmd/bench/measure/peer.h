/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is measured: Reigen and its peers, behind one table. A new one is one file, and one line in
 * the table of cmd/bench/options.c.
 *
 * Each takes its turn: begin prepares one row's operation, run does it so many times, end forgets
 * it. Where a call fails on one rank the caller tells all of them; a peer need not do that.
 *
 * Thread rule: main thread. open, begin, run and check are called by all ranks in the same order,
 * and block until the peer's ranks are through; what they give is in ret_x, else -errno and err.
 */
#ifndef RG_CMD_BENCH_MEASURE_PEER_H
#define RG_CMD_BENCH_MEASURE_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cmd/bench/measure/ops.h"
#include "cmd/bench/measure/world.h"

/* What peers are told before the first row. Words are borrowed. */
struct rg_peer_settings {
    int group;               /* tensors at a time, at most */
    const char *python;      /* of the peer gloo; NULL: the one beside this program */
    const char *mpi_library; /* of the peer mpi; NULL: it is looked for */
};

/* One row: an operation on `group` tensors of this size. */
struct rg_bench_case {
    enum rg_bench_op op;
    int type;      /* enum reigen_dtype */
    int reduction; /* enum reigen_op */
    int group;
    bool in_place;
    bool separate; /* each tensor of the group by an operation of its own */
    size_t count;  /* elements of the larger of a tensor's two buffers; 0: it has none */
    size_t part;   /* of them, each rank's part; count where the operation has no parts */
    size_t nbytes; /* of count elements */
};

/* The case of about nbytes in a job of so many ranks: at least one element, for each rank where
 * there are parts. Of what is asked for, the reduction, the group, in_place and
 * separate count. */
struct rg_bench_case rg_bench_case_make(const struct rg_bench_case *asked, enum rg_bench_op op,
                                        int type, uint64_t nbytes, int nranks);

struct rg_bench_peer {
    const char *name;
    /* Once. -ENOENT, -ENOTSUP: it is not there, and why. */
    int (*open)(const struct rg_bench_world *world, const struct rg_peer_settings *settings,
                void **ret_self, struct rg_error *err);
    /* -EOPNOTSUPP: it has no such operation or type, on all ranks. After any error end is not
     * called. */
    int (*begin)(void *self, const struct rg_bench_case *row, struct rg_error *err);
    /* This rank's seconds for all iterations. */
    int (*run)(void *self, int niterations, double *ret_seconds, struct rg_error *err);
    /* Do it once, and count the elements that are wrong on this rank. NULL: it is not checked. */
    int (*check)(void *self, uint64_t *ret_wrong, struct rg_error *err);
    void (*end)(void *self);
    void (*close)(void *self); /* NULL is fine */
};

extern const struct rg_bench_peer rg_bench_peer_reigen, rg_bench_peer_gloo, rg_bench_peer_mpi;

/* Memory for a row's tensors, and their known values (values.h), alike for all peers. ins[i] and
 * outs[i] are those of tensor i of the group; equal in place. A rank's part of a gathered tensor
 * lies in its place there where that is in place. */
struct rg_bench_buffers {
    void **ins, **outs;
    int n;
    void *memory;
    size_t in_count, out_count; /* elements of each */
};

/* allocated: also for results that the peer does not allocate by itself. 0, or -ENOMEM with err. */
int rg_bench_buffers_make(const struct rg_bench_case *row, int rank, bool allocated,
                          struct rg_bench_buffers *ret_buffers, struct rg_error *err);
void rg_bench_buffers_fini(struct rg_bench_buffers *buffers);
/* Give every input its values. */
void rg_bench_buffers_fill(const struct rg_bench_buffers *buffers, const struct rg_bench_case *row,
                           int rank);
/* The number of wrong elements in one result. */
uint64_t rg_bench_result_wrong(const struct rg_bench_case *row, int rank, int nranks,
                               const void *result, size_t count);

#endif
