/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has died? The launcher says so (through boot) with the cause, and the pidfds of this node's
 * ranks show it.
 *
 * Thread rule: the communication thread, but where it is said; reads what is there, and waits for
 * the launcher's word for 0.3 s at most.
 */
#ifndef RG_COLL_PROGRESS_LIFE_WATCH_H
#define RG_COLL_PROGRESS_LIFE_WATCH_H

#include "coll/progress/life/state.h"

/* The calling thread is the communication thread of this one from now on. */
void rg_watch_begin(const struct rg_progress *progress);
/* Look around. */
void rg_watch_tick(struct rg_progress *progress);
/* The same, while the progress engine is made and the leader waits for others. */
void rg_watch_start(struct rg_progress *progress);
/* Something was cut off, perhaps by a death: look around, if this is the communication thread. Any
 * thread; else that one does the looking. */
void rg_watch_glance(struct rg_progress *progress);
/* Of a process set: what has ended all ranks ends it, and the other way round. Any thread. */
void rg_watch_follow(struct rg_progress *progress);

#endif
