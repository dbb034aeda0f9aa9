/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a rank, as NUMBERS carries them from its host to the launcher (rankmsg.h, msg.h).
 * All but the rank are sums since its runtime began, in an elastic job since its epoch began, or
 * the last value. The agent passes them on and looks into none.
 *
 * Thread rule: pure functions. Nothing blocks.
 */
#ifndef RG_WIRE_NUMBERS_H
#define RG_WIRE_NUMBERS_H

#include <stdint.h>

#include "base/buf.h"

#define RG_NUMBERS_NBYTES 76     /* of one rank: the fields in their order, little-endian */
#define RG_NUMBERS_RANKS_MAX 512 /* in a frame; a host with more ranks has several */

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
};

/* Append one; read one, after which the reader knows whether all of it was there. */
void rg_numbers_put(struct rg_buf *buf, const struct rg_numbers *numbers);
void rg_numbers_take(struct rg_reader *reader, struct rg_numbers *ret_numbers);

#endif
