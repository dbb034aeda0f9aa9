/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the timeline makes of the progress engine's events (ops/observer.h says when each is
 * called).
 *
 * Thread rule: any thread; no lock but to name a new lane.
 */
#ifndef RG_COLL_OBSERVE_TIMELINE_HOOKS_H
#define RG_COLL_OBSERVE_TIMELINE_HOOKS_H

#include "coll/progress/progress.h"

void rg_timeline_submitted(struct rg_progress *progress, struct rg_op *op);
void rg_timeline_queued(struct rg_progress *progress, struct rg_op *op);
void rg_timeline_arrived(struct rg_progress *progress, struct rg_op *op);
void rg_timeline_finished(struct rg_progress *progress, struct rg_op *op);
void rg_timeline_run(struct rg_progress *progress, struct rg_op *const *ops, int n);
void rg_timeline_activity(struct rg_progress *progress, struct rg_op *const *ops, int n,
                          const char *name);
void rg_timeline_offered(struct rg_progress *progress, int node, const char *name);

#endif
