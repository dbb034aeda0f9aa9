/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who looks on while ranks work: the timeline and the observers of coll/observe (api_observe.c), or
 * nobody where these are left out of the build (api_unobserved.c).
 *
 * Thread rule: that of init and shutdown, which call these; rg_api_timeline_after_fork in a child.
 */
#ifndef RG_COLL_API_OBSERVED_H
#define RG_COLL_API_OBSERVED_H

#include "base/error.h"
#include "coll/ground/config.h"
#include "coll/progress/progress.h"

/* For rg_progress_options.observe. */
extern rg_observe_fn *const rg_api_observe;
/* The timeline that the configuration asks for: a path that cannot be written is an error here, and
 * not after a night of training. */
int rg_api_timeline_open(const struct rg_config *config, int rank, struct rg_error *err);
void rg_api_timeline_close(void);
void rg_api_timeline_after_fork(void);

#endif
