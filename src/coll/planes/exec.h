/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying out one operation over all ranks: which planes, in which steps. On one node the shm
 * plane does it all; on several, an allreduce is reduced inside the node, allreduced among leaders,
 * and broadcast inside the node (the same for broadcast); the other kinds go over the tcp plane of
 * all ranks. The choice is by score and depends on arguments only, so it is equal on all ranks.
 *
 * All ranks post the same operations in the same order, one at a time. Thread rule: under the
 * progress engine's drive lock.
 */
#ifndef RG_COLL_PLANES_EXEC_H
#define RG_COLL_PLANES_EXEC_H

#include <stdbool.h>

#include "base/error.h"
#include "coll/planes/plane.h"

struct rg_exec;

/* Shared memory wanted of the node's segment. */
size_t rg_exec_region_nbytes(int node_size);
int rg_exec_create(struct rg_team *team, const struct rg_config *config, void *region,
                   struct rg_exec **ret_exec, struct rg_error *err);
/* members of coll are all ranks of the job, by rank. 0 or -errno. */
int rg_exec_post(struct rg_exec *exec, const struct rg_coll *coll);
/* n allreduces of one dtype, op and scale, carried out as one (fusion). On planes without use for
 * it: one by one. The array is copied. */
int rg_exec_post_fused(struct rg_exec *exec, const struct rg_coll *colls, int n);
/* What it is doing, as "REIGEN_SHM_ALLREDUCE", for the timeline; static. */
const char *rg_exec_activity(const struct rg_exec *exec);
/* As a plane's progress. */
int rg_exec_progress(struct rg_exec *exec, bool *ret_moved, struct rg_error *err);
/* As a plane's poll_us: of all of them the shortest. */
unsigned rg_exec_poll_us(struct rg_exec *exec);
int rg_exec_wait_fds(struct rg_exec *exec, int *ret_fds, unsigned *ret_events, int max);
void rg_exec_abort(struct rg_exec *exec);
void rg_exec_destroy(struct rg_exec *exec, int timeout_ms); /* NULL is fine */
void rg_exec_after_fork(struct rg_exec *exec);
/* The planes that serve some group of the team: RG_PLANE_*. */
unsigned rg_exec_planes(const struct rg_exec *exec);
/* "plane shm: 4 ranks" lines, appended. */
struct rg_buf;
void rg_exec_describe(const struct rg_exec *exec, struct rg_buf *text);
/* The score table, for people: which plane does what, by group, operation, type and size. */
void rg_exec_scores(const struct rg_exec *exec, struct rg_buf *text);

#endif
