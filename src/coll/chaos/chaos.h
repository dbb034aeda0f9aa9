/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that the user asked for by --chaos, and that this process does to itself at one of its
 * steps: it is killed, stops, becomes slow or exits. The launcher says in REIGEN_CHAOS which there
 * are, and is asked before one happens, so that each happens once in a job.
 *
 * Thread rule: any thread.
 */
#ifndef RG_COLL_CHAOS_CHAOS_H
#define RG_COLL_CHAOS_CHAOS_H

#include <stdbool.h>
#include <stdint.h>

/* A step of this process, which is that rank now, has ended. Without REIGEN_CHAOS it does nothing.
 * It blocks while the step is to be slow, and while the launcher is asked; it may not return. */
void rg_chaos_step(int rank);

/* For tests: what stands in REIGEN_CHAOS of one event. */
struct rg_chaos_planned {
    char verb[8];
    unsigned event, rank, step;
    uint64_t for_ms; /* 0: for good */
    unsigned value;  /* ms of slow, code of exit */
};
/* The first event of text. How many bytes it has, or -EINVAL: it is none. */
int rg_chaos_read(const char *text, struct rg_chaos_planned *ret_planned);

#endif
