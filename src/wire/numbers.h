/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a rank, as NUMBERS carries them from its host to the launcher (rankmsg.h, msg.h).
 * All but the rank are sums since its runtime began, in an elastic job since its epoch began, or
 * the last value. The agent of a host passes them on and looks into none.
 *
 * Thread rule: pure functions. Nothing blocks.
 */
#ifndef RG_WIRE_NUMBERS_H
#define RG_WIRE_NUMBERS_H

#include <stdint.h>

#include "base/buf.h"

#define RG_NUMBERS_NBYTES 164    /* of one rank: the fields in their order, little-endian ... */
#define RG_NUMBERS_LEAST_NBYTES 76 /* ... of which a sender may know the first ones alone, */
#define RG_NUMBERS_WHY_NBYTES 156  /* ... or those that say why others wait, */
#define RG_NUMBERS_MOST_NBYTES 1024 /* ... or further ones */
#define RG_NUMBERS_RANKS_MAX 512 /* in a frame; a host with more ranks has several */

#define RG_NUMBERS_NO_RANK UINT32_MAX

struct rg_numbers {
    uint32_t rank;
    uint64_t operations;      /* that have ended well; each tensor of a group counts */
    uint64_t nbytes;          /* of their payloads, as this rank gave them */
    uint64_t steps;           /* told by reigen_step; else uses of the name that was used most */
    uint64_t step_ns;         /* that the last ones took on average; 0: there were too few */
    uint64_t blocked_ns;      /* its threads waited for operations to end, altogether */
    uint64_t waited_ns;       /* of that, for ranks of their host that had not come */
    uint64_t caused_ns;       /* others waited for it, the times of all of them together */
    uint64_t cpu_ns;          /* its process has used of processors, since it became the rank */
    uint64_t resident_nbytes; /* of its process; 0: not known */
    /* RG_NUMBERS_LEAST_NBYTES end here. */
    /* Why others wait for it: what of its thread's time outside of operations is known. */
    uint64_t squares_us2;  /* of the microseconds of each wait for an operation, summed up */
    uint64_t timed_ns;     /* for which the next two are known */
    uint64_t computed_ns;  /* it had a processor */
    uint64_t delayed_ns;   /* it could run, and had none */
    uint64_t throttled_ns; /* its cgroup had used its limit of processor time up */
    uint64_t faults;       /* times that a page of its memory had to be read from a disk */
    uint64_t refaults;     /* pages of anybody on its host that were read again */
    uint64_t sent_nbytes;  /* to other hosts, by TCP */
    uint64_t sending_ns;   /* some of them were on their way */
    uint32_t sent_to;      /* the rank to which they were so for longest; RG_NUMBERS_NO_RANK */
    uint32_t cpus;         /* processors that its thread may use; 0: not known */
    /* RG_NUMBERS_WHY_NBYTES end here. */
    uint64_t at_ns; /* when all of this was so but waited and caused, which are of the moment that
                       they are sent; by a clock of its host; 0: not known, or nothing is yet */
};

/* Append one. */
void rg_numbers_put(struct rg_buf *buf, const struct rg_numbers *numbers);
/* Read one of row_nbytes bytes, as its sender says; what that does not know is 0, and what it knows
 * beyond is left out. Afterwards the reader knows whether all of it was there, and the length is
 * one of those above. */
void rg_numbers_take(struct rg_reader *reader, uint32_t row_nbytes,
                     struct rg_numbers *ret_numbers);

#endif
