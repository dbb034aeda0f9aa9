/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict as a person reads it: who failed first, on which host, how, its last lines
 * unless they stand right above, which
 * others died of it, and the exit code. Nothing for a job that ended well, one line with --verbose.
 *
 * Any thread; nothing blocks.
 */
#ifndef RG_HEAD_SHOW_VERDICT_H
#define RG_HEAD_SHOW_VERDICT_H

#include "base/buf.h"
#include "launch/plan/plan.h"
#include "launch/session/session.h"

struct rg_verdict_style {
    bool colour;
    bool verbose;   /* a line when all is well, too */
    bool quiet;     /* the cause and the code only */
    const char *note; /* what is to be told of the first one's note; NULL: all of it */
    size_t nshown;  /* so many of the first one's last lines need not be told */
    bool again;     /* the job is started again: reigen does not end with a code of its own yet */
    int exit_code;  /* what reigen really ends with: more than the session may have gone wrong */
};

/* Append the text, whole lines. */
void rg_verdict_print(const struct rg_verdict *verdict, const struct rg_plan *plan,
                      const struct rg_verdict_style *style, struct rg_buf *text);

/* Append what horovodrun says of a job in which a rank failed first: programs look for it. Nothing
 * for other ends. The exit code of a rank that a signal n killed is 128 + n, as a shell's. */
void rg_verdict_print_horovod(const struct rg_verdict *verdict, struct rg_buf *text);

/* "ranks 0-1, 3": of those for which it is true; appended. How many they are. */
int rg_verdict_put_ranks(const bool *in, int nranks, struct rg_buf *text);

/* Append the lines; all but the first stand a little to the right. */
void rg_verdict_indent(const char *lines, struct rg_buf *text);

/* "exit code 7", "signal 9 (Killed)", "could not be started: No such file or directory": appended.
 */
void rg_rank_end_print(const struct rg_rank_end *end, struct rg_buf *text);

#endif
