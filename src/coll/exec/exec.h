/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying out one operation over all ranks: which planes, in which steps. On one node one plane
 * does it all; on several, an allreduce is reduced inside the node, allreduced among leaders, and
 * broadcast inside the node (the same for broadcast); the other kinds, and all operations on device
 * memory, go over a plane of all ranks. The choice is by score (plane.h) and depends on arguments
 * only, so it is equal on all ranks.
 *
 * All ranks post the same operations in the same order, one at a time. Thread rule: under the
 * progress engine's drive lock.
 */
#ifndef RG_COLL_EXEC_EXEC_H
#define RG_COLL_EXEC_EXEC_H

#include "coll/planes/scopes.h"

struct rg_exec;

int rg_exec_create(const struct rg_planes_options *options, struct rg_exec **ret_exec,
                   struct rg_error *err);
/* members of coll are all ranks of the job, by rank. 0 or -errno. What no plane takes (its memory,
 * its stream) fails the first rg_exec_progress with -ENOTSUP, and nothing is touched. */
int rg_exec_post(struct rg_exec *exec, const struct rg_coll *coll);
/* n allreduces of one dtype, op, scale, memory and stream, carried out as one (fusion). On planes
 * without use for it: one by one. The array is copied. n may differ on a node that gives zeros, not
 * the sum of the counts; and 1 here is not rg_exec_post. */
int rg_exec_post_fused(struct rg_exec *exec, const struct rg_coll *colls, int n);
/* Of operations on a device: have the plane that would do them wired up (plane.h), as an operation
 * of its own. 1: it is in progress, 0: there is nothing to wire, -errno. */
int rg_exec_wire(struct rg_exec *exec, const struct rg_coll *colls, int n);
/* Whether some plane does these, which need no more wiring. */
bool rg_exec_takes(struct rg_exec *exec, const struct rg_coll *colls, int n);
/* Why a plane could not be wired up, "" if none was in vain. */
const char *rg_exec_refusal(const struct rg_exec *exec);
/* Whether an operation over the ranks of this team is the shortcut's, by score. */
bool rg_exec_takes_shortcut(struct rg_exec *exec, const struct rg_coll *coll);
/* How leaders are to exchange it who do not agree on each use: enum rg_direct_way, as the plane
 * says that would carry it out (plane.h). */
uint8_t rg_exec_direct_way(struct rg_exec *exec, const struct rg_coll *coll,
                           uint64_t round_trip_ns);
/* Its planes: for what people are told, and for the process sets, which may use the same. */
struct rg_scopes *rg_exec_scopes(struct rg_exec *exec);
/* What it is doing, as "REIGEN_SHM_ALLREDUCE", for the timeline; lives as long as exec. */
const char *rg_exec_activity(const struct rg_exec *exec);
/* As a plane's progress, and what it says of "done". */
int rg_exec_progress(struct rg_exec *exec, bool *ret_moved, struct rg_error *err);
/* Every plane's watch: the first failure, or 0. Costs nothing where none has anything to watch. */
int rg_exec_watch(struct rg_exec *exec, struct rg_error *err);
/* As a plane's poll_us: of all of them the shortest. */
unsigned rg_exec_poll_us(struct rg_exec *exec);
int rg_exec_wait_fds(struct rg_exec *exec, int *ret_fds, unsigned *ret_events, int max);
void rg_exec_abort(struct rg_exec *exec);
void rg_exec_destroy(struct rg_exec *exec, int timeout_ms); /* NULL is fine */
void rg_exec_after_fork(struct rg_exec *exec);

#endif
