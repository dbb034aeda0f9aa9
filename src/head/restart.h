/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --max-restarts: when a job has failed, all of it is started again, and each cause is told.
 *
 * Started again is what might go better: a rank that failed, a host that was lost. Not what the
 * user or the platform has ended (a signal, --timeout, preemption, a reader that went away), and
 * not what would fail again as it stands (a command that is not there, a host that cannot be
 * reached, an image that cannot be pulled).
 *
 * Nor what would fail again as it did before: the same failure in two attempts, of which the second
 * got no further, ends the job (launch/verdict/failure.h), unless --restart-always is given.
 *
 * In pods the same is done for what a platform replaces (lost_only): hosts that were lost or told
 * to stop, and what ends with the codes 75 and 76, but no other failure.
 *
 * Thread rule: the loop's thread. Nothing blocks.
 */
#ifndef RG_HEAD_RESTART_H
#define RG_HEAD_RESTART_H

#include "base/buf.h"
#include "launch/verdict/failure.h"
#include "launch/session/session.h"

/* The variables that tell a rank which restart it is: 0 for the first start. */
#define RG_RESTART_VARIABLE "REIGEN_RESTART"
#define RG_RESTART_TORCH "TORCHELASTIC_RESTART_COUNT"
#define RG_RESTART_TORCH_MAX "TORCHELASTIC_MAX_RESTARTS"

struct rg_restart {
    int count;             /* restarts so far */
    int before;            /* and those before this head was there, which count, too */
    uint64_t (*lost_only)(int n); /* NULL, or as backoff_ms of struct rg_head_as */
    uint64_t start_ms;     /* --start-timeout, without that */
    struct rg_strv causes; /* of each failure, with its time */
    uint64_t timeout_ms;   /* what --timeout said for all of it; 0: nothing */
    uint64_t since_ns;
    struct rg_failure failures[2]; /* of the attempt before, and of this one */
    bool vain;             /* they are the same, and nothing was gained */
    bool stopped;          /* the user or the platform has ended the job: no more of them */
};

/* Before the first start and before each other: put the variables into the job's environment, and
 * what is left of --timeout into the job. Does nothing without --max-restarts. 0 or -ENOMEM. */
int rg_restart_prepare(struct rg_restart *restart, struct rg_job *job);

/* Keep this failure's cause, and say whether to start again; then count is one more. If that would
 * be in vain, that is kept, too. */
bool rg_restart_wanted(struct rg_restart *restart, const struct rg_job *job,
                       const struct rg_verdict *verdict);

/* The two failures for which a restart would be in vain; NULL: it would not. */
const struct rg_failure *rg_restart_twice(const struct rg_restart *restart);

/* The line after a verdict that is not the last: "restart 1 of 3". */
void rg_restart_print_next(const struct rg_restart *restart, const struct rg_job *job,
                           struct rg_buf *text);
/* After the last verdict: what all the restarts came to. Nothing where there was none. */
void rg_restart_print_all(const struct rg_restart *restart, bool ok, struct rg_buf *text);

void rg_restart_fini(struct rg_restart *restart);

#endif
