/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Autotuning (HOROVOD_AUTOTUNE=1): which parameters carry the most bytes per second through the
 * steps of this job. Rank 0 measures and decides; how all ranks change over at the same place of
 * the log is tune.c's. This part has no threads and no clock of its own, so that a test can drive
 * it.
 *
 * What is tuned, because it was measured to matter (docs/operations.md has the figures):
 *      fusion threshold   between nodes: many small allreduces in one run are up to 20 times as
 *                         fast as one by one; on one node it cuts great groups
 *      spin               how long a waiter stays awake: with free cores it saves a wake-up, with
 *                         busy ones it steals from the computation
 * The size of shm's pieces changed nothing measurable and is not tuned.
 *
 * A step ends when the operation comes round again that began it (or after RG_AUTOTUNE_STEP_RUNS
 * others, where names never come again). Its score is bytes of all operations finished, by
 * microseconds; a sample is the median of some steps, the first one after each change left out.
 *
 * The search is successive halving over a small grid (K. Jamieson, A. Talwalkar, "Non-stochastic
 * Best Arm Identification and Hyperparameter Optimization", AISTATS 2016): a sample of each
 * candidate, then of the better half again, until one is left or the samples are spent. It needs no
 * model of the noise and spends its samples on the candidates that are hard to tell apart; the
 * Gaussian process of Horovod pays for parameters that are continuous, and ours are steps on a
 * plateau.
 *
 * Thread rule: one thread at a time (the progress engine's drive lock). Nothing blocks but the
 * log's file.
 */
#ifndef RG_COLL_PROGRESS_AUTOTUNE_H
#define RG_COLL_PROGRESS_AUTOTUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/ground/types.h"

#define RG_AUTOTUNE_STEP_RUNS 1000
#define RG_AUTOTUNE_CANDIDATES_MAX 16

enum { RG_TUNING_NSPINS = 3 };
/* Microseconds; -1: as the rank's own variables and cores say. Beyond the last: -1. */
int rg_tuning_spin_us(uint8_t spin);

struct rg_autotune_options {
    struct rg_tuning first;
    bool several_nodes;
    bool fusion_fixed, spin_fixed; /* the user has set it */
    int warmup_samples;            /* HOROVOD_AUTOTUNE_WARMUP_SAMPLES: 3; thrown away */
    int steps_per_sample;          /* HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE: 10 */
    int max_samples;               /* HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES: 20 */
    const char *log;               /* HOROVOD_AUTOTUNE_LOG; "": none */
};

struct rg_autotune;

/* 0, or -ENOMEM. *ret_log_errno: why the log could not be opened, else 0; it goes on without. */
int rg_autotune_create(const struct rg_autotune_options *options, struct rg_autotune **ret_autotune,
                       int *ret_log_errno);
/* An operation (any number that stands for its name) has finished; nbytes: of all operations so
 * far. True when *ret_next is to be in force from now on; the last time it is the best one. */
bool rg_autotune_saw(struct rg_autotune *autotune, uint32_t id, uint64_t nbytes, uint64_t now_ns,
                     struct rg_tuning *ret_next);
/* The search is over: no use in calling rg_autotune_saw any more. */
bool rg_autotune_done(const struct rg_autotune *autotune);
void rg_autotune_destroy(struct rg_autotune *autotune); /* NULL is fine */

#endif
