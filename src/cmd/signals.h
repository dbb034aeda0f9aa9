/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals to reigen, handed on to the ranks. SIGINT and SIGTERM begin the end; the second of either
 * is immediate. SIGTSTP stops the ranks, then reigen; SIGCONT lets both go on. SIGHUP, SIGUSR1,
 * SIGUSR2 and SIGWINCH are handed on. A signal that is ignored when reigen starts (nohup,
 * background jobs of plain shells) stays ignored. SIGPIPE and SIGTTOU are ignored: a closed output
 * is an error of write.
 *
 * Thread rule: the loop's thread.
 */
#ifndef RG_CMD_SIGNALS_H
#define RG_CMD_SIGNALS_H

#include "base/loop.h"

struct rg_signals_ops {
    void (*forward)(void *arg, int signo); /* to all ranks */
    void (*evict)(void *arg);              /* the same for SIGTERM when root has sent it, to a
                                            * process that is not root's */
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
    bool ending; /* one SIGINT or SIGTERM came */
};

void rg_signals_start(struct rg_signals *signals, struct rg_loop *loop,
                      const struct rg_signals_ops *ops, void *arg);
void rg_signals_stop(struct rg_signals *signals);

#endif
