/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of data-parallel training, simulated: when each gradient is there, what is fused and
 * sent together, how long that takes by the runtime's own cost model (model/model.h), and how much
 * of it the backward pass hides.
 *
 *      forward  |=======|
 *      backward          |====|====|====|====|        from the last layer to the first
 *      agreed on               .    .    .    .       a gradient is offered when it is computed
 *      allreduce                 [--a--][-b+c-][-d-]  all that is agreed on when the line is free
 *      step                                         |
 *
 * The schedule is the runtime's: as soon as nothing is in flight, all gradients that are agreed on
 * by then run as one, up to the fusion threshold, in the order in which they came. The forward pass
 * takes a third of a rank's time and the backward pass two thirds, since it computes two products
 * where the forward pass computes one; within each, layers take time by their arithmetic.
 *
 * Of a recorded step (simulate/profile.h) the operations and the times between them are known.
 * Where the rank waits it goes on when all before is back, and only the like are fused: allreduces
 * of one type.
 *
 * What is not in here: the time to read data (unless it was recorded), jitter (unless it is asked
 * for), congestion between switches, and the processor's time that communication takes from
 * computing.
 *
 * Thread rule: functions of their arguments alone; none blocks.
 */
#ifndef RG_SIMULATE_SIMULATE_H
#define RG_SIMULATE_SIMULATE_H

#include <stdint.h>

#include "base/error.h"
#include "model/model.h"
#include "simulate/workload.h"

#define RG_SIMULATE_RANKS_MAX 100000

struct rg_simulation {
    const struct rg_model *model;       /* borrowed, as is the next */
    const struct rg_workload *workload;
    int nhosts, ranks_per_host;
    unsigned element_nbytes;  /* of a gradient */
    uint64_t fusion_nbytes;   /* as REIGEN_FUSION_THRESHOLD */
    double compute_s;         /* one rank's step alone */
    double jitter;            /* the standard deviation of that, as a part of it: the step waits for
                               * the slowest rank */
    int fan_out;              /* of the tree of leaders that agree; at least 1 */
};

struct rg_simulated {
    double step_s;
    double compute_s;  /* of it: until the slowest rank has computed */
    double busy_s;     /* how long anything is in flight */
    double agree_s;    /* how long the leaders take to agree, each time */
    double efficiency; /* one rank's step alone / this step */
    int nruns;         /* of fused gradients */
    struct rg_model_choice largest; /* how the largest run goes between hosts */
    uint64_t largest_nbytes;
};

/* How long leaders take to agree on what is ready: in each level of their tree the parent takes one
 * message of every child and sends one to each, one after the other, and a child takes that. All
 * that is ready is in one message, up and down. */
double rg_simulate_agreement_s(const struct rg_model *model, int nhosts, int fan_out);
/* The mean of the largest of n values with the normal distribution, in standard deviations: 0 of
 * one, within 7 % of 2 to 4, and within 2 % of more. */
double rg_simulate_slowest(int n);

/* 0, or -ENOMEM. */
int rg_simulate(const struct rg_simulation *simulation, struct rg_simulated *ret_simulated);

#endif
