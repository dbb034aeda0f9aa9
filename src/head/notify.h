/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --notify: a command of the user's gets the verdict, as --json's event has it, when a job has
 * ended, however that came. It never changes how reigen ends. An agent is never the head of such a
 * job: no plan's file has the command.
 *
 * This header is internal to src/head. Thread rule: main thread, and no loop may run.
 */
#ifndef RG_HEAD_NOTIFY_H
#define RG_HEAD_NOTIFY_H

#include "base/buf.h"
#include "job/job.h"
#include "launch/verdict/verdict.h"

#define RG_NOTIFY_MS 10000 /* so long the command may take; docs/jobs.md says it, too */

/* Zeroed at first. */
struct rg_notify {
    char *command;         /* NULL: none */
    struct rg_buf verdict; /* the last that was kept */
    int exit_code;         /* of that */
};

#ifndef RG_AGENT
/* From here on whatever ends the job is told. Moves the command out of the job. */
void rg_notify_take(struct rg_notify *notify, struct rg_job *job);
/* A verdict, which may not be the last one. Nothing is kept of its strings. */
void rg_notify_keep(struct rg_notify *notify, const struct rg_verdict *verdict);
/* The job has ended by this code, and nothing of it is left: run the command with the last verdict
 * on its standard input, and what it writes on standard error. A failure is a remark there. Blocks
 * for RG_NOTIFY_MS at most; SIGINT, SIGTERM and SIGHUP are blocked from then on, as they would
 * change the code. Frees all. */
void rg_notify_run(struct rg_notify *notify, int exit_code);
#else
static inline void rg_notify_take(struct rg_notify *notify, struct rg_job *job)
{
    (void) notify;
    (void) job;
}
static inline void rg_notify_keep(struct rg_notify *notify, const struct rg_verdict *verdict)
{
    (void) notify;
    (void) verdict;
}
static inline void rg_notify_run(struct rg_notify *notify, int exit_code)
{
    (void) notify;
    (void) exit_code;
}
#endif

#endif
