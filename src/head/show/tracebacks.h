/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python's tracebacks that several ranks print alike are shown once. What has been shown cannot be
 * taken back, so the rank that prints other lines than all before it is shown at once, and the
 * lines of one that repeats them are held until it is clear whether it repeats them to the end.
 *
 *   line "Traceback (most ..."        others printed the same lines so far?
 *      of a rank's standard error       yes: held          no: shown, and a pattern for others
 *   held, and a line that differs     -> all that was held is shown
 *   held for RG_TRACEBACKS_HOLD_NS    -> the same: the rank goes on living
 *   held, and both streams have ended with the same lines, none more or less -> left out
 *
 * So only a traceback that is the last of what a rank says is ever left out, and only if every byte
 * of it was shown under another rank's number, which rg_tracebacks_tell names. The "[rank3]: " with
 * which PyTorch begins a rank's lines is not compared, and shown as it was written.
 *
 * Thread rule: one thread. Nothing blocks.
 */
#ifndef RG_HEAD_SHOW_TRACEBACKS_H
#define RG_HEAD_SHOW_TRACEBACKS_H

#include <stdint.h>

#include "base/buf.h"
#include "head/show/lines.h"

#define RG_TRACEBACKS_HOLD_NS (10ull * 1000000000)
#define RG_TRACEBACKS_PATTERNS 8             /* different ones that are remembered at a time */
#define RG_TRACEBACKS_MAX_NBYTES (64u << 10) /* of one; longer ones are shown by all ranks */

struct rg_traceback; /* of one rank */

struct rg_tracebacks {
    struct rg_traceback *ranks; /* owned; NULL: all is shown */
    int nranks, npatterns, nheld;
    void (*show)(void *arg, int rank, const struct rg_line *line);
    void *arg;
};

/* show is called for what is to be shown, from within the other functions. 0 or -ENOMEM. */
int rg_tracebacks_init(struct rg_tracebacks *all, int nranks,
                       void (*show)(void *arg, int rank, const struct rg_line *line), void *arg);
/* There are more ranks, up to nranks. 0 or -ENOMEM. */
int rg_tracebacks_grow(struct rg_tracebacks *all, int nranks);
void rg_tracebacks_fini(struct rg_tracebacks *all); /* of a zeroed one, too */

/* A line of a rank's standard error: it is shown, or held. */
void rg_tracebacks_line(struct rg_tracebacks *all, int rank, const struct rg_line *line,
                        uint64_t now_ns);
/* The rank's standard error has ended. */
void rg_tracebacks_end(struct rg_tracebacks *all, int rank);
/* Show what has been held for too long; with now_ns UINT64_MAX all that is still held. */
void rg_tracebacks_expire(struct rg_tracebacks *all, uint64_t now_ns);

/* The rank whose lines stand for this one's: itself, unless its own were left out. */
int rg_tracebacks_shown_by(const struct rg_tracebacks *all, int rank);
/* Append a line for each that was left out: "reigen: ranks 2-3: the same traceback as rank 0's".
 */
void rg_tracebacks_tell(const struct rg_tracebacks *all, struct rg_buf *text);

#endif
