/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a failure looked like, so that it can be compared with that of the attempt before: whoever
 * fails in the same way again, and has got no further, will fail once more.
 *
 * Two failures are the same when the exit code or signal is, and so is the error in normal form:
 * of Python's last traceback the innermost frame and the exception, else the last line on standard
 * error. Its normal form has no numbers, addresses, times, digests or names of temporary files.
 * Neither the rank nor the host matters then: an error of the program comes wherever its input
 * goes. A rank that wrote nothing is the same only as a rank of its number.
 *
 * An attempt got further if it told a greater epoch, or step, at its end (launch/verdict/marks.h).
 * If either of the two attempts tells none, it is judged by its time: more than twice as long as
 * the one before, and RG_FAILURE_LEAST_NS more. One that ran for RG_FAILURE_SOON_NS always did:
 * what it trained may be in a checkpoint.
 *
 * Pure functions: no input, output or clock. Thread rule: any.
 */
#ifndef RG_LAUNCH_VERDICT_FAILURE_H
#define RG_LAUNCH_VERDICT_FAILURE_H

#include "base/time.h"
#include "launch/verdict/marks.h"
#include "launch/verdict/verdict.h"

#define RG_FAILURE_HOST_MAX 256
#define RG_FAILURE_TEXT_MAX 256
#define RG_FAILURE_LEAST_NS (2 * RG_NS_PER_S) /* starting takes now less, now more */
#define RG_FAILURE_SOON_NS (60 * RG_NS_PER_S)

enum rg_failure_kind {
    RG_FAILURE_UNKNOWN,  /* nothing that could be compared: no rank failed, or it was not started,
                          * or lost with its host */
    RG_FAILURE_OUTSIDE,  /* somebody ended it (SIGTERM, SIGKILL, ...), or it asks to be started
                          * again (75, 76): that says nothing about the next attempt */
    RG_FAILURE_ERROR,    /* it ended by an exit code */
    RG_FAILURE_CRASH,    /* it died of a signal of its own making */
    RG_FAILURE_MEMORY,   /* the kernel killed it as memory ran out */
    RG_FAILURE_HARDWARE, /* SIGBUS, or it told of a device, a disk or memory that is broken */
};

struct rg_failure {
    enum rg_failure_kind kind;
    int rank;                         /* by the numbers of its attempt; -1: it had none */
    char host[RG_FAILURE_HOST_MAX];
    enum rg_end end;
    int value;                        /* exit code or signal */
    char error[RG_FAILURE_TEXT_MAX];  /* the exception, or the last line, as it was written; "" */
    uint64_t hash;                    /* of the error in normal form; 0: it wrote none */
    uint64_t ran_ns;                  /* from the start of the attempt's ranks to its end */
    struct rg_mark far;               /* the furthest that any rank told last */
};

/* Lines that a rank wrote: borrowed, oldest first. */
struct rg_failure_lines {
    const char *const *lines;
    size_t nlines;
};

/* What is known of a rank's end. errors: of its standard error alone; all: of both streams, which
 * count where errors has nothing. How far the ranks got is not known yet. */
void rg_failure_take(const struct rg_rank_end *end, int rank, uint64_t ran_ns,
                     const struct rg_failure_lines *errors, const struct rg_failure_lines *all,
                     struct rg_failure *ret_failure);

/* Whether both are one failure, wherever and whenever. Never of UNKNOWN and OUTSIDE. */
bool rg_failure_is_same(const struct rg_failure *before, const struct rg_failure *now);

/* Whether the attempt that ended so got further than the one before. */
bool rg_failure_got_further(const struct rg_failure *before, const struct rg_failure *now);

/* Both at once: restarts cannot help. */
bool rg_failure_is_vain(const struct rg_failure *before, const struct rg_failure *now);

/* Whether the host that both happened on is to be suspected: each of them is of MEMORY or HARDWARE,
 * on the same host. */
bool rg_failure_blames_host(const struct rg_failure *before, const struct rg_failure *now);

/* "error", "crash", "memory", "hardware", "outside" or "unknown". */
const char *rg_failure_kind_name(enum rg_failure_kind kind);

/* Write a line in normal form into text, which has room for nbytes; what does not fit is cut. */
void rg_failure_normalize(const char *line, char *text, size_t nbytes);

#endif
