/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that all ranks have called and that do not come to their end, as a rank is stopped
 * which has a part in them: nobody owes them, so that no stall report (stall.h) names anybody. An
 * operation may take long by itself; so one is reported only where a rank of this node has not
 * looked for stalls for seconds, or where the leader next above or below this one does not say that
 * it lives. Who sees that tells so, once, and again when it has lasted twice as long. Until then it
 * looks each second, as a rank may be stopped long after the operation began.
 *
 * Thread rule: rg_stuck_tick by the communication thread, rg_stuck_drive under the drive lock; the
 * numbers that go from one to the other are atomic. Reads a few files of /proc when it reports,
 * else never blocks.
 */
#ifndef RG_COLL_OBSERVE_STUCK_H
#define RG_COLL_OBSERVE_STUCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/team/team.h"

#define RG_STUCK_SILENT_NS (2500 * RG_NS_PER_MS) /* who lives says so each second */

struct rg_progress;

/* Zeroed at first. */
struct rg_stuck {
    uint64_t next_ms;          /* look for somebody when it has lasted so long */
    uint64_t since_ns;         /* when what was reported began; 0: nothing is */
    _Atomic uint64_t asked_ms; /* leader: the driver is to see who is silent; 0: nothing */
    _Atomic uint64_t told_ns;  /* by the driver, as since_ns */
    _Atomic bool told;         /* it was reported since the last tick */
};

/* Whether who is stopped is to be looked for, as an operation has lasted for ms: from limit_ms
 * (above 0) on each time, but after a report not before it has lasted twice as long. To be called
 * once in each tick, in the order of time. */
bool rg_stuck_is_due(struct rg_stuck *stuck, uint64_t ms, uint64_t limit_ms);

/* At the rank that speaks for its node, after a look at what waits (waits.h). limit_ms: what is
 * carried out for so long may be reported. At the others, reporter is false: they say only that it
 * goes on, where they had reported it. */
void rg_stuck_tick(struct rg_progress *progress, struct rg_stuck *stuck, uint64_t now_ns,
                   uint64_t limit_ms, bool reporter);
/* In each round, at a leader of several nodes. */
void rg_stuck_drive(struct rg_progress *progress, struct rg_stuck *stuck);

/* At a leader of several nodes, under the drive lock: shutdown has waited so long. False: no leader
 * is silent. */
bool rg_stuck_leaving(struct rg_progress *progress, uint64_t waited_ns);

/* Whether a launcher shows what is said; and say it, to standard error where there is none. */
bool rg_stuck_has_launcher(const struct rg_progress *progress);
void rg_stuck_say(struct rg_progress *progress, const char *text);
/* "on b: process 12 is stopped", appended. */
void rg_stuck_put_process(struct rg_buf *out, const struct rg_team_peer *peer);

#endif
