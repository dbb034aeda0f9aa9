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
 * Or its members alone make it, who meet by the caller's means (sets_meet.c): they agree on a
 * number, which others may use for another set, and each of them forgets it when it likes.
 *
 * A set's ranks are numbered by their places in it, in ascending order (those who meet: in the
 * order of the meeting); its errors and reports speak of ranks of the world (rg_team.world_ranks).
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
#define RG_SETS_MET (1 << 20) /* the first number of those that their members alone make */
#define RG_SET_CONNECT_MS 60000

struct rg_boot;
struct rg_progress;
struct rg_team;

struct rg_set {
    int id;       /* 1 or more */
    int nranks;
    int me;       /* this rank's place in it; -1: not a member */
    int *ranks;   /* of the world, by rank of the set; behind the struct */
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
    int last_met; /* the same of those that members alone have made */
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

/* A set by its members alone, as reigen_process_set_meet. 0 and *ret_id, or -errno. */
int rg_sets_meet(struct rg_sets *sets, struct rg_progress *world, struct rg_boot *boot,
                 const struct reigen_meeting *meeting, const int *ranks, uint64_t deadline_ns,
                 int *ret_id, struct rg_error *err);
/* Leave such a set: rg_sets_remove for it, by this rank alone. 0 or -ENOENT. */
int rg_sets_forget(struct rg_sets *sets, struct rg_progress *world, int id, struct rg_error *err);

/* ---- what both ways of making a set have in common (sets.c) */

/* A set without an engine, of this rank of the world, or NULL. */
struct rg_set *rg_set_new(int id, const int *ranks, int nranks, int rank);
/* Its team and progress engine over set->boot, by its members; boot: of the world. 0 or -errno. */
int rg_set_wire_up(struct rg_set *set, struct rg_progress *world, struct rg_boot *boot,
                   uint64_t deadline_ns, struct rg_error *err);
/* Its progress engine ends; until_ns: as rg_progress_destroy. */
void rg_set_end(struct rg_set *set, uint64_t until_ns);
void rg_set_free(struct rg_set *set); /* NULL is fine */
/* Room for one more in both lists, so that a removal needs no memory. 0 or -ENOMEM. */
int rg_sets_make_room(struct rg_sets *sets);
/* A set into the table, where there is room, and its number to *ret_id. Where r is -errno the set
 * is freed, and r returned. And out of the table. */
int rg_sets_take(struct rg_sets *sets, struct rg_set *take_set, int r, int *ret_id);
void rg_sets_unlink(struct rg_sets *sets, struct rg_set *set);

/* Under `lock`. NULL: there is none. */
struct rg_set *rg_sets_find(const struct rg_sets *sets, int id);
/* The set's progress engine until rg_set_leave; NULL when it is gone or this rank is not a
 * member. */
struct rg_progress *rg_set_use(struct rg_set *set);
void rg_set_leave(struct rg_set *set); /* NULL is fine */

#endif
