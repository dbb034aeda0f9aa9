/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jobs of a user, for `reigen top` without a JOB: those whose launcher runs here are watched;
 * of the others, at platforms or on other computers, there is a row that says where they are.
 *
 * Thread rule: the loop's thread. Nothing blocks; reads small files of the registry.
 */
#ifndef RG_CMD_TOP_SEVERAL_H
#define RG_CMD_TOP_SEVERAL_H

#include "cmd/top/table.h"
#include "cmd/top/watch.h"
#include "launch/jobs/submitted.h"

struct rg_top_jobs {
    struct rg_loop *loop;
    void (*changed)(void *arg);    /* some question has ended; NULL: nobody asks */
    void *arg;
    bool fixed;                    /* they are given, and no others are looked for */
    struct rg_top_watch **watches; /* in the order in which they began */
    size_t count, room;
    struct rg_registry elsewhere;  /* jobs that run, but not from here */
    struct rg_submitted_list submitted;
};

/* Watch this job, which is taken. 0 or -ENOMEM. */
int rg_top_jobs_add(struct rg_top_jobs *jobs, struct rg_registry_job *take_job);
/* Watch those that have begun since. Those that were submitted are the caller's to list, before
 * there is a loop: their platforms are asked but once. 0 or -ENOMEM. */
int rg_top_jobs_find(struct rg_top_jobs *jobs);
/* Ask all for a reading. */
void rg_top_jobs_ask(struct rg_top_jobs *jobs);
/* All that are watched are over. */
bool rg_top_jobs_are_over(const struct rg_top_jobs *jobs);
/* How many there are that have no numbers here. */
size_t rg_top_jobs_others(const struct rg_top_jobs *jobs);
void rg_top_jobs_fini(struct rg_top_jobs *jobs);

/* Those that are watched, the one first in which most of the time is waited; for the caller to
 * free. NULL: out of memory. */
struct rg_top_watch **rg_top_jobs_sorted(const struct rg_top_jobs *jobs);
/* The heading, and a row each; chosen: an index of sorted. At most so many lines. */
void rg_top_put_jobs(const struct rg_top_jobs *jobs, struct rg_top_watch *const *sorted,
                     size_t chosen, size_t nlines, const struct rg_top_look *look,
                     struct rg_buf *text);

#endif
