/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a job that goes on without its terminal (--detach). This process is the launcher, and
 * somebody waits for it in the foreground, by a pipe:
 *
 *     before its log    what it says goes to the terminal, as always
 *     STARTING          standard output and error are the log; the terminal gets the same, and
 *                       the lines that move while hosts start
 *     all have started  the job's id goes into the pipe, and the terminal is let go
 *
 * Who waits learns from the pipe's end alone that the job is over before all ranks have started. If
 * it is gone first, nobody hears of the job: then the head is told to end, as by SIGTERM.
 *
 * This header is internal to src/head. Thread rule: the loop's thread. Nothing blocks.
 */
#ifndef RG_HEAD_DETACH_H
#define RG_HEAD_DETACH_H

#include <stdbool.h>

#include "base/error.h"
#include "head/show/output.h"
#include "launch/plan/plan_file.h"

struct rg_detach {
    int pipe_fd;     /* while somebody waits; else -1 */
    int terminal_fd; /* while starting; else -1 */
    bool on, colour; /* the job detaches; the terminal shows colours */
    int nmissing;    /* ranks that have not started yet */
    char id[65];     /* of the job's first start */
};

#ifndef RG_AGENT
/* pipe_fd: taken; -1: the job does not detach, and nothing below does anything. It may end this
 * process: nobody waits any more. */
void rg_detach_init(struct rg_detach *detach, int pipe_fd);
/* A start of the job begins, by this plan: at the first one make the log, and let it be standard
 * output and error. 0; or -errno with err. */
int rg_detach_begin(struct rg_detach *detach, const struct rg_planned *planned,
                    struct rg_error *err);
/* A rank has started: when it is the last one, let go of the terminal. */
void rg_detach_count(struct rg_detach *detach, struct rg_output *output);
/* What is said now stands in the log alone: say it on the terminal, too. command: as for
 * rg_fail. */
void rg_detach_fail(const struct rg_detach *detach, const struct rg_error *err,
                    const char *command);
/* No command will ever find the job: its log goes. */
void rg_detach_forget(const struct rg_detach *detach);
void rg_detach_fini(struct rg_detach *detach);
#else
/* An agent that is a head has no terminal. */
static inline void rg_detach_init(struct rg_detach *detach, int pipe_fd)
{
    (void) pipe_fd;
    detach->on = false;
}
static inline int rg_detach_begin(struct rg_detach *detach, const struct rg_planned *planned,
                                  struct rg_error *err)
{
    (void) detach, (void) planned, (void) err;
    return 0;
}
static inline void rg_detach_count(struct rg_detach *detach, struct rg_output *output)
{
    (void) detach, (void) output;
}
static inline void rg_detach_fail(const struct rg_detach *detach, const struct rg_error *err,
                                  const char *command)
{
    (void) detach, (void) err, (void) command;
}
static inline void rg_detach_forget(const struct rg_detach *detach)
{
    (void) detach;
}
static inline void rg_detach_fini(struct rg_detach *detach)
{
    (void) detach;
}
#endif

#endif
