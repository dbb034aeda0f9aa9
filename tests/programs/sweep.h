/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeded random operations of all kinds, types, reductions and sizes, in rounds. All ranks derive
 * the same rounds from the seed; each rank submits and waits in an order and with pauses of its
 * own. Every result is compared with what it must be (elements.h), and a hash of all results that
 * must be equal is exchanged after each round.
 */
#ifndef TESTS_SWEEP_H
#define TESTS_SWEEP_H

#include "elements.h"

#define UNITS_MAX 24
#define MEMBERS_MAX 12
#define POOL_MAX 8

struct member {
    int ndim;
    int64_t shape[3];
    size_t row;               /* elements of a row */
    size_t rows[RANKS_MAX];   /* first dimension, by rank */
    int32_t splits[RANKS_MAX][RANKS_MAX]; /* alltoall: rows from rank to rank */
    bool in_place;
    char *in_block, *out_block;
    char *in, *out;
    size_t in_count, out_count;
    reigen_handle handle;
};

/* What is submitted by one call. */
struct unit {
    int kind, dtype, root;
    struct reigen_options options;
    bool unnamed, equal_splits;
    char name[48];
    uint64_t id;
    int n;                    /* members; more than 1: a group */
    struct member members[MEMBERS_MAX];
    struct reigen_request *request;
};

struct sweep {
    const char *prefix;       /* of all names; "": this sweep has the process to itself */
    uint64_t seed;
    size_t max_nbytes;        /* of a tensor */
    int rank, size;
    struct rng own;           /* differs by rank */
    int64_t only;             /* this round and no other; -1: all */
    uint64_t nrounds, noperations, hash;
    uint64_t cases[REIGEN_REDUCESCATTER + 1][REIGEN_NDTYPES]; /* tensors, by kind and type */
    uint64_t reductions[REIGEN_PRODUCT + 1];                  /* of allreduces, by operation */
    int nunits;
    struct unit *units[UNITS_MAX];
    struct unit space[UNITS_MAX];
    struct unit pool[POOL_MAX];
};

/* After begin(); collective. Rounds until rank 0's time is over; only: -1, or just this one. */
void sweep_run(struct sweep *sweep, const char *prefix, uint64_t seed, size_t max_nbytes,
               uint64_t duration_ms, int64_t only);

/* plan.c: fill sweep->units for this round. Returns true when all ranks are to submit in the same
 * order and wait for each before the next. */
bool sweep_plan(struct sweep *sweep, uint64_t round);
/* The persistent requests' operations. */
void sweep_plan_pool(struct sweep *sweep);
uint64_t unit_seed(const struct sweep *sweep, const struct unit *unit, int member, int rank);

/* verify.c: fail unless the results are right; goes on from hash. */
uint64_t unit_verify(const struct sweep *sweep, struct unit *unit, uint64_t round, uint64_t hash);

#endif
