/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits on this node, for whom and since when: every rank looks at every entry once a second,
 * and the lowest one of a node that is not stopped itself speaks for it. From this a deadlock is
 * found (deadlock.h), stalls are reported, and a diagnosis is made (coll/observe).
 *
 * Thread rule: any thread; a small lock inside; nothing blocks.
 */
#ifndef RG_COLL_PROGRESS_WAITS_H
#define RG_COLL_PROGRESS_WAITS_H

#include "coll/progress/state.h"

struct rg_wait {
    uint64_t epoch, since_ns; /* waits for ranks of this node; 0: for none */
    uint64_t offered_ns;      /* waits for other nodes since then; 0: for none. At a leader */
};

/* n: ranks of the node. 0 or -ENOMEM. */
int rg_waits_create(int n, struct rg_waits **ret_waits);
void rg_waits_destroy(struct rg_waits *waits); /* NULL is fine */

/* Note what waits since when, and who is active. How long the longest has waited, in ms. */
uint64_t rg_waits_look(struct rg_progress *progress, uint64_t now_ns);
/* The same, once a second; by the communication thread. False: it is not time. *ret_reporter: this
 * rank speaks for the node. */
bool rg_waits_tick(struct rg_progress *progress, uint64_t now_ns, uint64_t *ret_longest_ms,
                   bool *ret_reporter);

/* At the last look: what does an entry wait for? False: nothing. */
bool rg_waits_get(struct rg_progress *progress, uint32_t id, struct rg_wait *ret_wait);
/* When the r-th rank of this node was first seen with its last submission; now_ns: not yet seen. */
uint64_t rg_waits_active_ns(struct rg_progress *progress, int r, uint64_t now_ns);
/* A thread of the r-th rank of this node has waited so long, and none has submitted anything. */
bool rg_waits_blocked(struct rg_progress *progress, int r, uint64_t now_ns, uint64_t limit_ns);
/* The r-th rank of this node has neither announced the epoch nor joined. */
bool rg_view_owes(const struct rg_view *view, int r, uint32_t id, uint64_t epoch);

#endif
