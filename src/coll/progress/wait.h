/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits, who drives, who sleeps where.
 *
 * A waiter first looks for itself (inline operations need nobody else), then drives, and sleeps
 * on the rank's bell; so it costs no switch between threads. A waiter that cannot drive sleeps on
 * `events`. The communication thread sleeps on a bell of its own, which is rung when an operation
 * is ready and no user thread drives: a user thread that drives takes that bell's mode away, and
 * gives it back when it leaves; then it looks once more whether something came meanwhile.
 *
 * Thread rule: as each function says. All of them may block, rg_progress_poll excepted.
 */
#ifndef RG_COLL_PROGRESS_WAIT_H
#define RG_COLL_PROGRESS_WAIT_H

#include "coll/progress/life/state.h"

/* 0 or -errno with err. */
int rg_waiting_create(struct rg_progress *progress, struct rg_error *err);
/* Start the communication thread; 0 or -errno. And stop it, if it runs. */
int rg_waiting_start(struct rg_progress *progress);
void rg_waiting_stop(struct rg_progress *progress);
void rg_waiting_destroy(struct rg_waiting *waiting); /* NULL is fine */

/* Any thread. 0: done; -EAGAIN: not within the time. deadline_ns: RG_NEVER_NS for no limit. */
int rg_progress_wait(struct rg_progress *progress, struct rg_op *op, uint64_t deadline_ns);
/* Any thread. Drive once if nobody does. */
void rg_progress_poll(struct rg_progress *progress);
/* Under `drive`. Sleep until rung, at most timeout_us; returns at once when there is work. */
void rg_progress_idle(struct rg_progress *progress, uint64_t timeout_us);

#endif
