/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One measuring loop for every library: measure.c has main, the loop and the statistics, a
 * contender (ours.c, peer_mpi.c) has the calls that are measured, so that all are measured alike.
 *
 * usage: PROGRAM --out FILE [--sizes BYTES,...] [--many COUNTxBYTES,...] [--series NAME]
 *                [--budget-ms N] [--least N | --runs N]
 *
 * Rank 0 writes one JSON object per line and measurement. Every repetition is timed by itself; how
 * many there are follows from the first few and from the budget, is --least or more, and is the
 * same on all ranks. --runs says how many, with no run before them but the one that is verified.
 * --series leaves out all others.
 *
 * block_us is the median over blocks of runs of a block's average. Where messages are long under
 * way, it is the figure to compare: a rank that enters half a round trip behind another one finds
 * each second result there already, and waits twice as long for the others.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stddef.h>

/* One way of doing the same thing, "out" (of place), "in" (place), "call" ... */
struct bench_series {
    const char *name;
    /* Sizes below are left out: what differs is bandwidth. */
    size_t min_nbytes;
    /* Sum count floats over all ranks, once. 0, or an error that ends the program. */
    int (*run)(void *state, const float *in, float *out, size_t count);
    /* May be NULL. Called before and after all runs of one size; all ranks take part. */
    int (*prepare)(size_t count, void **ret_state);
    void (*finish)(void *state);
};

/* The same for n tensors of count floats at once, in place. */
struct bench_many {
    const char *name;
    int (*run)(void *state, float **tensors, int n, size_t count);
    int (*prepare)(int n, size_t count, void **ret_state);
    void (*finish)(void *state);
};

struct bench_contender {
    int (*init)(int *argc, char ***argv, int *ret_rank, int *ret_size);
    /* Rank 0's value to all. */
    int (*broadcast)(int *value);
    int (*barrier)(void);
    void (*shutdown)(void);
    const struct bench_series *series; /* until name is NULL */
    const struct bench_many *many;     /* until name is NULL */
};

/* Defined by the contender. */
extern const struct bench_contender bench_contender;

#endif
