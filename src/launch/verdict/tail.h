/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last lines that a rank wrote, for the verdict: at most RG_TAIL_LINES of at most
 * RG_TAIL_LINE_MAX bytes, both streams in the order in which their lines were completed. A longer
 * line keeps its beginning. Of a line that was written over behind a carriage return, as a progress
 * bar is, the last text stays; so it is with lines that a stream went up to and wrote anew.
 *
 * Cheap for floods: of a large chunk only its last lines are looked at. Thread rule: one thread.
 */
#ifndef RG_LAUNCH_VERDICT_TAIL_H
#define RG_LAUNCH_VERDICT_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RG_TAIL_LINES 10
#define RG_TAIL_LINE_MAX 800

struct rg_tail {
    char *lines[RG_TAIL_LINES]; /* a ring; owned, NUL-terminated */
    unsigned char streams[RG_TAIL_LINES]; /* of each line, 0 or 1 */
    unsigned next;              /* where the next line goes */
    unsigned up[2];             /* per stream, its last lines from the cursor's on; 0: a new one */
    char *partial[2];           /* the line that is not complete, per stream; owned */
    size_t partial_nbytes[2];
};

void rg_tail_fini(struct rg_tail *tail); /* of a zeroed one, too */

/* stream 1 or 2 wrote data; nbytes 0: its end, which completes a last line without a newline. Lines
 * are dropped silently when memory is short. */
void rg_tail_put(struct rg_tail *tail, int stream, const void *data, size_t nbytes);

/* Oldest first into ret_lines; returns how many. Borrowed until the next call on tail. */
size_t rg_tail_lines(const struct rg_tail *tail, const char *ret_lines[RG_TAIL_LINES]);

/* How much of a line is "[rank3]: ", which PyTorch writes in front of each line of an error that
 * nobody catches; 0: nothing. Its log's "[rank3]:[W1128 ..." is a line of its own kind. */
size_t rg_tail_prefix(const void *line, size_t nbytes);

/* A number that is equal for equal lines, whatever that prefix; 0: no line. */
uint64_t rg_tail_hash(const struct rg_tail *tail);
/* The same of the error at their end: of Python's last traceback, or of the last line. */
uint64_t rg_tail_hash_error(const struct rg_tail *tail);
/* Whether that error is one of Python's tracebacks, or the end of a long one. */
bool rg_tail_is_traceback(const struct rg_tail *tail);

#endif
