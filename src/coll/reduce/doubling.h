/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recursive doubling, for any number of members: who exchanges with whom, so that all have
 * everybody's part, added in the same order. The doubling is among the greatest power of two. Of
 * the first members so many are folded, in pairs, that no more take part. Of 6 members:
 *
 *      member      0 1 2 3 4 5
 *      fold        0<1 2<3         1 and 3 are folded: they send to their neighbours
 *      step 0      0-2     4-5     partners exchange, and both add, the lower one's part first
 *      step 1      0-4 2-5
 *      unfold      0>1 2>3         neighbours send the result back
 *
 * Thread rule: functions of their arguments alone.
 */
#ifndef RG_COLL_REDUCE_DOUBLING_H
#define RG_COLL_REDUCE_DOUBLING_H

#include <stdbool.h>

/* The doubling as one member sees it. */
struct rg_doubling {
    int me;
    int nsteps;      /* among 2^nsteps members */
    int npairs;      /* of neighbours */
    int neighbour;   /* the other one of its pair; -1: it is in none */
    bool is_folded;  /* into the neighbour ... */
    bool has_folded; /* ... or the neighbour into it */
};

/* 0 <= me < n. */
static inline struct rg_doubling rg_doubling_of(int n, int me)
{
    int nsteps = 31 - __builtin_clz((unsigned) n), npairs = n - (1 << nsteps);
    bool paired = me < 2 * npairs;

    return (struct rg_doubling){ .me = me, .nsteps = nsteps, .npairs = npairs,
                                 .neighbour = paired ? me ^ 1 : -1,
                                 .is_folded = paired && me % 2 == 1,
                                 .has_folded = paired && me % 2 == 0 };
}

/* With whom this member, which is not folded, exchanges in a step from 0 to nsteps - 1. */
static inline int rg_doubling_partner(const struct rg_doubling *doubling, int step)
{
    int npairs = doubling->npairs;
    int number = doubling->neighbour < 0 ? doubling->me - npairs : doubling->me / 2;
    int other = number ^ (1 << step);

    return other < npairs ? other * 2 : other + npairs;
}

#endif
