/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of one stream into whole lines. A line longer than RG_LINE_MAX comes in pieces of that
 * size, so that memory is bounded whatever a rank prints; every byte comes out exactly once and in
 * order.
 *
 * With redraws a line is what a terminal would show of it: progress bars go back to its beginning
 * by a carriage return and write it anew. What they have written over does not come out, unless
 * somebody looked at it by rg_lines_row in time; how the line stands at its end does. A carriage
 * return before the newline is a part of the line.
 *
 * Thread rule: one thread at a time. Nothing blocks.
 */
#ifndef RG_HEAD_SHOW_LINES_H
#define RG_HEAD_SHOW_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define RG_LINE_MAX 65536

struct rg_lines {
    struct rg_buf partial;
    bool continued; /* the last piece's line goes on */
    bool redraws;   /* the owner's choice, before the first byte */
    bool returned;  /* the last byte was a carriage return, which is not in partial */
    bool redrawn;   /* the line was written over at least once */
    struct rg_buf shown; /* how it stood when rg_lines_row_shown was called last */
    uint64_t shown_ns;   /* and when that was; 0: never */
};

struct rg_line {
    const uint8_t *data; /* borrowed for the call; without the newline */
    size_t nbytes;
    bool newline;        /* a newline followed; else it is a piece, or the stream's last line */
    bool continued;      /* what came before belongs to the same line */
};

typedef void rg_line_fn(void *arg, const struct rg_line *line);

/* Take bytes, hand out the lines that are complete. 0 or -ENOMEM. */
int rg_lines_feed(struct rg_lines *lines, const uint8_t *data, size_t nbytes, rg_line_fn *emit,
                  void *arg);
/* The line that is being redrawn, as it stands and as nobody has seen it yet, borrowed until the
 * next call; false where there is none. */
bool rg_lines_row(const struct rg_lines *lines, struct rg_line *ret_row);
/* Somebody saw that. When the line ends as it stands, it does not come out once more. */
void rg_lines_row_shown(struct rg_lines *lines, uint64_t now_ns);
/* Hand out what has come of a line, as a piece, where it has carriage returns in it. */
void rg_lines_flush_row(struct rg_lines *lines, rg_line_fn *emit, void *arg);
/* The stream ended: hand out what is left, if anything. */
void rg_lines_finish(struct rg_lines *lines, rg_line_fn *emit, void *arg);
void rg_lines_fini(struct rg_lines *lines);

#endif
