/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deadlock that may end the job, for who asks for that: some ranks wait for each other
 * (stall_facts.h), for REIGEN_DEADLOCK_SECONDS, and all have been at rest (ground/rest.h) so long.
 * Only the world is looked at: a process set may wait for ranks that do something else. A rank that
 * a set has work for is not at rest.
 *
 * Thread rule: rg_deadlock_note by the communication thread; the rest under the lock of stall.c.
 * rg_deadlock_note reads files of /proc; nothing else blocks.
 */
#ifndef RG_COLL_OBSERVE_DEADLOCK_H
#define RG_COLL_OBSERVE_DEADLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "coll/ground/rest.h"
#include "coll/observe/stall_facts.h"

struct rg_progress;

/* Zeroed at first. */
struct rg_deadlock {
    struct rg_rest rest;
    uint64_t looked_ms;        /* one was looked for after a wait so long; 0: it was not */
    _Atomic uint64_t asked_ms; /* leader: the driver is to look for one; 0: it is not */
    bool found;                /* by the last report */
};

/* Once a second, at each rank, and for each process set: whether it is at rest, for all of the node
 * to see. */
void rg_deadlock_note(struct rg_progress *progress, struct rg_deadlock *deadlock, uint64_t now_ns);
/* The r-th rank of this node has been at rest for so long that it will stay so. */
bool rg_deadlock_rests(const struct rg_progress *progress, int r, uint64_t now_ns);
/* All ranks of this node have, and one is to be looked for, after a wait so long: at once, and then
 * each time that the wait has become longer by an eighth. */
bool rg_deadlock_is_due(const struct rg_progress *progress, struct rg_deadlock *deadlock,
                        uint64_t now_ns, uint64_t longest_ms);
/* If what is known of all ranks is a deadlock that has lasted so long, append what is to be said of
 * it; found says whether it is. */
void rg_deadlock_find(const struct rg_progress *progress, struct rg_deadlock *deadlock,
                      const struct rg_stall_facts *facts, struct rg_buf *out);
/* Some wait for each other, but may not be at rest for long enough: say how that ends. False: it is
 * not so, or it does not end. */
bool rg_deadlock_warn(const struct rg_progress *progress, const struct rg_stall_facts *facts,
                      uint64_t than_ms, struct rg_buf *out);
/* Some have waited for each other for the limit, and not all ranks rest: append a line that says
 * what one of them does. longest_ms: the wait that is reported. */
void rg_deadlock_explain(const struct rg_progress *progress, const struct rg_stall_facts *facts,
                         uint64_t longest_ms, struct rg_buf *out);

#endif
