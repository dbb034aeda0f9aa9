/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the user sees while a job starts. On a terminal, from 0.3 s on: one line that changes, and
 * where there are several hosts a row for each below it, which is updated in place. All lines are
 * cut to the terminal's width, in their middle, and of more hosts than it has lines those that are
 * not ready are shown. They are wiped before anything else is said. Elsewhere a line after 2 s and
 * every 10 s, so that a log of a quick start stays empty; it names hosts that are not ready, their
 * phases and the reasons.
 *
 * Thread rule: the loop's thread. Nothing blocks.
 */
#ifndef RG_HEAD_SHOW_STATUS_H
#define RG_HEAD_SHOW_STATUS_H

#include "base/loop.h"
#include "launch/plan/plan.h"
#include "launch/session/session.h"

struct rg_status_host {
    enum rg_host_phase phase;
    char reason[RG_ERROR_TEXT_MAX];
    uint64_t ready_ns; /* since the start; 0: not ready yet */
};

struct rg_status {
    struct rg_timer timer;
    const struct rg_plan *plan;
    struct rg_status_host *hosts;
    int nhosts;       /* of them that are filled in */
    int fd;           /* whose width counts: 2, unless it is set after rg_status_start */
    bool tty, shown, over;
    const char *word; /* for those that are ready */
    int nlines; /* that stand above the cursor */
    uint64_t since_ns, told_ns; /* it began; it was last shown, or 0 */
    void (*say)(void *arg, const char *text);
    void *arg;
};

/* say gets text for standard error. 0 or -ENOMEM. */
int rg_status_start(struct rg_status *status, struct rg_loop *loop, const struct rg_plan *plan,
                    bool tty, void (*say)(void *arg, const char *text), void *arg);
/* The plan has more hosts. 0, also where nobody wanted the status; or -ENOMEM. */
int rg_status_grow(struct rg_status *status);
void rg_status_phase(struct rg_status *status, int host, enum rg_host_phase phase,
                     const char *reason);
/* The same by who sees the hosts from outside, as their platform does: those that run, and have no
 * reason not to, are counted, as "up". Whether they have reached the head only that knows. */
void rg_status_seen(struct rg_status *status, int host, enum rg_host_phase phase,
                    const char *reason);
/* Wipe the lines: something else is to be said. The next one comes when it is time for it. */
void rg_status_wipe(struct rg_status *status);
/* The start is over, well or not: wipe the lines, show nothing more. Twice is fine. */
void rg_status_stop(struct rg_status *status);
void rg_status_fini(struct rg_status *status);

#endif
