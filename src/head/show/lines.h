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
 * Bars of several rows go up by an escape sequence, and down by a newline. Rows from the highest
 * that they went to down to the lowest are live: a newline in the lowest makes a line of the
 * highest. What went out as a line before the program first went up is not live. Sequences that
 * move up and down, erase, and hide the cursor are obeyed or dropped; all else is text. A colour
 * behind a carriage return belongs to the text that follows, and writes over nothing by itself.
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
#define RG_LINES_ROWS_MAX 32  /* that are live at once */
#define RG_LINES_ESCAPE_MAX 24 /* bytes of a sequence that is obeyed */
#define RG_LINES_COLOURS_MAX 64 /* bytes of colours in front of a text */
#define RG_LINES_QUIET_MS 1000  /* after which rows above the cursor have ended */

struct rg_line_row {
    struct rg_buf text;
    struct rg_buf shown; /* how it stood when rg_lines_row_shown was called last */
    bool redrawn;        /* it was written over at least once */
};

struct rg_lines {
    struct rg_line_row now;   /* where the cursor is */
    bool continued;           /* the last piece's line goes on */
    bool redraws;             /* the owner's choice, before the first byte */
    bool returned;            /* the last byte was a carriage return, which is not in the text */
    bool over;                /* the next text replaces what the row has */
    struct rg_line_row *rows; /* where several are live, all but now, whose place is empty */
    int nrows, at;            /* at: the place of now */
    uint8_t escape[RG_LINES_ESCAPE_MAX]; /* the beginning of a sequence */
    size_t nescape;
    uint8_t colours[RG_LINES_COLOURS_MAX]; /* that came since the row was gone back in */
    size_t ncolours;
    uint64_t quiet_ns;        /* the first rg_lines_settle after the last byte; 0: none yet */
    uint64_t shown_ns;        /* when a row was shown last; 0: never */
    uint64_t since_ns;        /* when these were shown first; 0: not yet */
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
/* How many rows are being redrawn; 0: what comes is text as usual. */
int rg_lines_nrows(const struct rg_lines *lines);
/* One of them as it stands, borrowed until the next call; false where it is blank. ret_news:
 * nobody has seen it yet. */
bool rg_lines_row(const struct rg_lines *lines, int i, struct rg_line *ret_row, bool *ret_news);
/* Somebody saw that. When the line ends as it stands, it does not come out once more. */
void rg_lines_row_shown(struct rg_lines *lines, int i, uint64_t now_ns);
/* Whether it is time to show rows once more in a log: pause_ns after the last time, and a 60th of
 * the time that they have lasted, so that a bar of a day makes some hundred lines. */
bool rg_lines_due(const struct rg_lines *lines, uint64_t pause_ns, uint64_t now_ns);
/* Call it now and then. Where the cursor has waited in an empty lowest row, and nothing has
 * followed for RG_LINES_QUIET_MS, the others have ended, and come out. */
void rg_lines_settle(struct rg_lines *lines, uint64_t now_ns, rg_line_fn *emit, void *arg);
/* Hand out what has come of a line, as a piece, where it has carriage returns in it. */
void rg_lines_flush_row(struct rg_lines *lines, rg_line_fn *emit, void *arg);
/* The stream ended: hand out what is left, if anything. */
void rg_lines_finish(struct rg_lines *lines, rg_line_fn *emit, void *arg);
void rg_lines_fini(struct rg_lines *lines);

#endif
