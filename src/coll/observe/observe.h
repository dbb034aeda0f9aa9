/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking on at a progress engine, for people: the timeline, reports of stalls, and the diagnosis.
 * The progress engine does its work without it (ops/observer.h), so it can be left out of a build
 * (-Dobserve=disabled).
 *
 * Thread rule: any thread; rg_observe_diagnosis blocks until its deadline.
 */
#ifndef RG_COLL_OBSERVE_OBSERVE_H
#define RG_COLL_OBSERVE_OBSERVE_H

#include "coll/progress/progress.h"

/* For rg_progress_options.observe. */
int rg_observe(struct rg_progress *progress, struct rg_observer **ret_observer);
/* rg_diagnose of a progress engine that is looked on at. */
int rg_observe_diagnosis(struct rg_progress *progress, uint64_t deadline_ns, char **ret_json);

#endif
