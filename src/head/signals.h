/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals to reigen, handed on to the ranks. SIGINT and SIGTERM begin the end; the second of either
 * is immediate, unless it is the platform's own word again: a batch script hands on what Slurm has
 * sent to all processes anyway. SIGTSTP stops the ranks, then reigen; SIGCONT lets both go on.
 * SIGHUP, SIGUSR1, SIGUSR2 and SIGWINCH are handed on. A signal that is ignored when reigen starts
 * (nohup, background jobs of plain shells) stays ignored. SIGPIPE and SIGTTOU are ignored: a closed
 * output is an error of write.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_HEAD_SIGNALS_H
#define RG_HEAD_SIGNALS_H

#include "base/loop.h"

struct rg_signals_ops {
    void (*forward)(void *arg, int signo); /* to all ranks */
    /* Before that, for a SIGTERM of root's to a process that is not root's, or of the platform's
     * shell: whether this is how the platform ends jobs. */
    bool (*evict)(void *arg);
    void (*kill)(void *arg, int signo);    /* the second SIGINT or SIGTERM: now */
    void (*resize)(void *arg);             /* the terminal's size changed */
    void (*stopping)(void *arg);           /* just before reigen stops, and */
    void (*resumed)(void *arg);            /* just after it goes on */
};

#define RG_SIGNALS_COUNT 8

struct rg_signals {
    struct rg_signal watch[RG_SIGNALS_COUNT];
    struct rg_timer stop_timer;
    struct rg_loop *loop;
    const struct rg_signals_ops *ops;
    void *arg;
    bool ending;       /* one SIGINT or SIGTERM came, */
    uint64_t since_ns; /* then */
    bool evicted;      /* a SIGTERM was the platform's */
};

/* The value that reigen stop sends along with its SIGTERM (sigqueue), so that the job can say who
 * has ended it; and whether the last SIGTERM had it. */
#define RG_SIGNALS_STOP 0x73746f70
bool rg_signals_from_stop(void);

/* Whose SIGTERM may be the platform's word: a parent's that hands it on, and root's. */
enum rg_parent {
    RG_PARENT_ANY,    /* root's, where we are somebody else */
    RG_PARENT_SCRIPT, /* a shell that the platform runs for us, and any of root's */
    RG_PARENT_POD,    /* the first process of a pod, in which everybody may be root */
};
void rg_signals_start(struct rg_signals *signals, struct rg_loop *loop,
                      const struct rg_signals_ops *ops, void *arg, enum rg_parent parent);
void rg_signals_stop(struct rg_signals *signals);

#endif
