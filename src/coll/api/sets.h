/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process sets: some of the ranks, with a team, a progress engine and a negotiation of their own.
 *
 * A set is made and removed by all ranks of the world together, its members or not, by rounds
 * (rounds.h). So all ranks know all sets, a rank that fails tells the others, and all come to the
 * same outcome:
 *
 *      all ranks     ADD  their lists, which must be equal
 *      members       FENCE ... FENCE, for rg_team_create, over a boot of its own (rounds.h)
 *      the others    DONE, as members who have finished or failed, until all are done
 *
 *      all ranks     REMOVE  the same id, after which nobody submits any more
 *
 * A set's ranks are numbered by their places in it, in ascending order; its errors and reports
 * speak of ranks of the world (rg_team.world_ranks).
 *
 * Life: a set leaves the table when it is removed, and its progress engine ends when nobody uses it
 * any more; the struct itself stays until shutdown, as operations and requests may point to it.
 *
 * Thread rule: rg_sets_find and rg_set_use from any thread. rg_sets_add and rg_sets_remove block;
 * one at a time per process.
 */
#ifndef RG_COLL_API_SETS_H
#define RG_COLL_API_SETS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "reigen/reigen.h"

#define RG_SETS_MAX 4096 /* alive at once */

struct rg_boot;
struct rg_progress;
struct rg_team;

struct rg_set {
    int id;       /* 1 or more */
    int nranks;
    int me;       /* this rank's place in it; -1: not a member */
    int *ranks;   /* of the world, ascending; behind the struct */
    struct rg_boot *boot;     /* members: owned, as the next two; NULL once removed */
    struct rg_team *team;
    struct rg_progress *progress;
    _Atomic int users;        /* calls that are inside the progress engine */
    _Atomic bool gone;        /* being removed, or removed */
};

struct rg_sets {
    pthread_mutex_t lock; /* of the table */
    pthread_mutex_t turn; /* held by who adds or removes; before lock */
    struct rg_set **alive, **past; /* ascending ids */
    int nalive, npast;
    int last_id;
    struct reigen_stats stats; /* of sets that have been removed */
};

void rg_sets_init(struct rg_sets *sets);
/* rg_progress_leave and rg_progress_hurry for the progress engines of all sets. Any thread. */
void rg_sets_hurry(struct rg_sets *sets, bool late);
/* Leave all sets, waiting for what they have decided, until_ns as of all together in
 * rg_progress_destroy; then forget them. */
void rg_sets_leave(struct rg_sets *sets, uint64_t until_ns);
void rg_sets_fini(struct rg_sets *sets);
/* In a forked child. */
void rg_sets_after_fork(struct rg_sets *sets);

/* Make a set of these ranks, in any order. boot: of the world, for notes. 0 and *ret_id, -EINVAL
 * (the ranks are no set, or differ between the ranks), -EEXIST, -ENOSPC, or what the world's
 * progress engine ends with. */
int rg_sets_add(struct rg_sets *sets, struct rg_progress *world, struct rg_boot *boot,
                const int *ranks, int nranks, int *ret_id, struct rg_error *err);
/* 0, -ENOENT, -EINVAL (other ranks remove another one), or what the world's progress engine ends
 * with. */
int rg_sets_remove(struct rg_sets *sets, struct rg_progress *world, int id, struct rg_error *err);

/* Under `lock`. NULL: there is none. */
struct rg_set *rg_sets_find(const struct rg_sets *sets, int id);
/* The set's progress engine until rg_set_leave; NULL when it is gone or this rank is not a
 * member. */
struct rg_progress *rg_set_use(struct rg_set *set);
void rg_set_leave(struct rg_set *set); /* NULL is fine */

#endif
