/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations between nodes that are not agreed on each time (negotiate/order.h). The leader
 * takes what all ranks of its node have submitted, reduces it in the order of ranks, exchanges it
 * with the other leaders (far/far.h), and puts the result into its own slot and an item into the
 * node's log; every rank copies it out when it comes to that. Where a node is one rank and the
 * operation one tensor nothing is copied, mostly: the user's buffers are exchanged.
 *
 * A slot is used again for the epoch after the next, which a rank announces only when it has ended
 * the one between, for which all must have ended this one (progress/life/inline.h).
 *
 * Thread rule: under the progress engine's drive lock. Nothing blocks but rg_direct_destroy.
 */
#ifndef RG_COLL_FAR_DIRECT_H
#define RG_COLL_FAR_DIRECT_H

#include <stdatomic.h>

#include "coll/node/runlog.h"
#include "coll/node/shared.h"
#include "coll/ops/op.h"

struct rg_direct;
struct rg_order;

/* All is borrowed. */
struct rg_direct_options {
    const struct rg_team *team;
    const struct rg_view *view;
    _Atomic(struct rg_op *) *ops; /* posted, by entry */
    /* The result of an item is there: in this rank's slot, or where the user wants it. */
    void (*on_result)(void *arg, const struct rg_run_item *item);
    /* It waits for other nodes since then; 0: not any more. */
    void (*note)(void *arg, const struct rg_run_item *item, uint64_t since_ns);
    void *arg;
};

/* At a leader. 0 or -ENOMEM. */
int rg_direct_create(const struct rg_direct_options *options, struct rg_direct **ret_direct);
/* NULL is fine. */
void rg_direct_destroy(struct rg_direct *direct, int timeout_ms);
void rg_direct_after_fork(struct rg_direct *direct);

/* What has arrived on this node: 1: it is in flight, or done; 0: it is to be offered; -EAGAIN: not
 * yet; -ENOMEM. order: borrowed, the same each time. */
int rg_direct_begin(struct rg_direct *direct, struct rg_order *order,
                    const struct rg_run_item *item);
/* As order.h's events of these names. */
void rg_direct_void(struct rg_direct *direct, uint32_t id, bool again);
void rg_direct_expect(struct rg_direct *direct, uint32_t id, uint32_t seq, uint8_t way);
/* All ranks of this node have joined: zeros are lent. And all ranks of the job. */
void rg_direct_node_joined(struct rg_direct *direct, struct rg_order *order);
void rg_direct_all_joined(struct rg_direct *direct);

/* Send and receive; all: look at everything. True when something moved. */
bool rg_direct_progress(struct rg_direct *direct, bool all);
/* Why it cannot go on, once: -errno with err; else 0. */
int rg_direct_failure(struct rg_direct *direct, struct rg_error *err);
bool rg_direct_in_flight(const struct rg_direct *direct);
/* The same, or something is still to be sent. */
bool rg_direct_has_work(const struct rg_direct *direct);
int rg_direct_wait_fds(struct rg_direct *direct, int *ret_fds, unsigned *ret_events, int max);
/* Nothing is in flight any more, and nothing is begun; the operations are for others to end. sends:
 * what was sent still goes. NULL is fine. */
void rg_direct_stop(struct rg_direct *direct, bool sends);

/* Whether it goes through the ranks' slots. A use may still become void, and then the input is
 * needed once more: it must not be overwritten before the last step. What is not small goes by ways
 * that do not (far.h). Any thread of any rank. */
static inline bool rg_direct_by_slots(const struct rg_view *view, const struct rg_op *op)
{
    return rg_view_wants_slots(view, op->nbytes, op->n, op->scale.pre) &&
           (view->n > 1 || op->n > 1 || op->scale.pre != 1.0 ||
            (op->one.in == op->one.out && view->nnodes > 2));
}

#endif
