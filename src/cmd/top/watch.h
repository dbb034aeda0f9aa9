/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that is watched: its launcher is asked for the ranks' numbers, page by page, without
 * waiting for it, as it may be paused; and it is noticed when the job ends.
 *
 * A head that is an agent, elsewhere, is asked by a program beside it (beside.h). Of such a job the
 * registry here knows nothing: it is over when that program ends.
 *
 * At most one question is under way, so a launcher that is busy is never asked twice. With up to
 * 1,000 ranks a reading is one question.
 *
 * Thread rule: the loop's thread. Nothing blocks; reads small files of the registry.
 */
#ifndef RG_CMD_TOP_WATCH_H
#define RG_CMD_TOP_WATCH_H

#include <stdint.h>

#include "base/buf.h"
#include "base/loop.h"
#include "cmd/jobs/beside.h"
#include "cmd/top/reading.h"
#include "launch/jobs/registry.h"

struct rg_top_watch {
    struct rg_registry_job job; /* owned */
    struct rg_top_reading reading; /* the last whole one; settled */
    uint64_t read_ns;           /* when it came; 0: there was none yet */
    bool tried;                 /* the last question has ended, well or not, since it was asked */
    bool over;                  /* the job has ended, or is dead */
    char *verdict;              /* then: a line about that; may be NULL for want of memory */

    /* watch.c's */
    struct rg_loop *loop;
    struct rg_io io;
    int fd;                     /* -1: no question is under way */
    struct rg_jobs_beside *beside; /* NULL: the launcher is here */
    struct rg_top_reading coming;
    unsigned next;
    void (*changed)(void *arg);
    void *arg;
};

/* Watch this job, which is taken. changed is called when a question has ended; it must not destroy
 * the watch. 0 or -ENOMEM, and the job is gone. */
int rg_top_watch_create(struct rg_loop *loop, struct rg_registry_job *take_job,
                        void (*changed)(void *arg), void *arg, struct rg_top_watch **ret_watch);
/* Ask by this program, which is taken, from now on. */
void rg_top_watch_by(struct rg_top_watch *watch, struct rg_jobs_beside *take_beside);
void rg_top_watch_destroy(struct rg_top_watch *watch); /* NULL is fine */

/* Ask for a reading, unless the last question is still under way; see whether the job is over. */
void rg_top_watch_ask(struct rg_top_watch *watch);
/* The reading is older than two askings: its launcher does not answer. */
bool rg_top_watch_is_stale(const struct rg_top_watch *watch);

/* Append what the job is: "job r-1: running for 1:02:03, 8 ranks on 2 hosts: python train.py". */
void rg_top_watch_title(const struct rg_top_watch *watch, struct rg_buf *text);
/* Append what is wrong with the reading, a few words; nothing where all is well. */
void rg_top_watch_trouble(const struct rg_top_watch *watch, struct rg_buf *text);

#endif
