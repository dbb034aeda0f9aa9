/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What agents on this computer have left behind when they died: this process is a subreaper, so
 * what they had started becomes its own, and is killed.
 *
 * Ownership: embedded. Thread rule: one thread. Blocks for a walk over /proc.
 */
#ifndef RG_LAUNCH_HOST_LEFTOVER_H
#define RG_LAUNCH_HOST_LEFTOVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/loop.h"
#include "base/str.h"
#include "launch/plan/plan.h"

struct rg_leftover {
    bool had_children;   /* before any agent was started: they are not ours to kill */
    char job_entry[128]; /* REIGEN_JOB_ID=..., which then marks what is ours */
    pid_t *spared;       /* by host: a child that still runs, and what is its own; 0: none */
    const struct rg_plan *plan; /* borrowed: how many hosts there are */
};

/* Become a subreaper, and make the environment that agents are started with: rg_agent_env_make, and
 * the mark. Call before the first is started. 0 or -ENOMEM. */
int rg_leftover_init(struct rg_leftover *leftover, const struct rg_job *job,
                     const struct rg_plan *plan, struct rg_strv *env);
void rg_leftover_fini(struct rg_leftover *leftover); /* a zeroed one is fine */

/* Killing it until nothing is left; zeroed at first. */
struct rg_sweep {
    const struct rg_leftover *leftover;
    struct rg_timer timer;
    uint64_t deadline_ns;
    void (*done)(void *arg);
    void *arg;
};

/* Kill what descends from this process but is not spared, children first, after 300 ms in which an
 * agent may clear up itself, until nothing is left or 3 s are over; then done, which may be from
 * within. */
void rg_sweep_start(struct rg_sweep *sweep, const struct rg_leftover *leftover,
                    struct rg_loop *loop, void (*done)(void *arg), void *arg);
/* The same at once, for the end: blocks. */
void rg_leftover_end(const struct rg_leftover *leftover);

#endif
