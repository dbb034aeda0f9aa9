/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step as a real program takes it: its operations in the order in which it submits them, and how
 * long it computes before each. It is found in a timeline that one of its ranks has written, as
 * the part that comes again and again.
 *
 *      | compute |op| compute |op| compute |op waits for all ..| compute |op|  ...
 *      `------------------- one step ---------------------'
 *
 * Time in which the program waited for operations is not computing, and is left out: how long that
 * takes elsewhere is what the simulation finds. Which operations it waited for is not known, so
 * whoever waits is taken to wait for all that it has submitted.
 *
 * Thread rule: functions of their arguments alone; none blocks.
 */
#ifndef RG_SIMULATE_PROFILE_H
#define RG_SIMULATE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "traced/traced.h"

#define RG_PROFILE_OPS_MAX 8192
#define RG_PROFILE_STEPS_MIN 3
#define RG_PROFILE_STEPS_MAX 1000
#define RG_PROFILE_WORD RG_TRACED_WORD

struct rg_profile_op {
    char *name;                 /* owned */
    char kind[RG_PROFILE_WORD]; /* "ALLREDUCE" */
    char type[RG_PROFILE_WORD]; /* of its elements: "float32" */
    uint64_t nbytes;
    double compute_s;           /* before it, since the one before or the end of the wait */
    bool waits;                 /* the program has waited for all before it */
};

struct rg_profile {
    struct rg_profile_op *ops;  /* owned; the first one waits */
    size_t nops;
    double compute_s;           /* the sum of theirs: of a step, the median */
    double deviation;           /* the standard deviation of that among the steps, as a part */
    double step_s;              /* how long a step took, waits and all: the median */
    int nsteps;                 /* that this is of */
};

/* From what that rank has submitted: the medians of the last steps, at most so many. A step is the
 * shortest part that has come RG_PROFILE_STEPS_MIN times without a break, up to the end, and makes
 * up half of all; else the commonest part from one item that the program has waited before to the
 * next that is alike, which makes up a quarter: gradients that are ready by chance are fused in one
 * step and not in another. 0; -EAGAIN: there are no such steps; -ENOMEM. */
int rg_profile_make(const struct rg_traced *traced, int rank, int nsteps_max,
                    struct rg_profile *ret_profile);
void rg_profile_fini(struct rg_profile *profile); /* of a zeroed one, too */

/* The bytes of an element of this type; 1 where the type is not known. */
unsigned rg_profile_element(const char *type);

#endif
