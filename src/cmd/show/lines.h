/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of one stream into whole lines. A line longer than RG_LINE_MAX comes in pieces of that
 * size, so that memory is bounded whatever a rank prints; every byte comes out exactly once and in
 * order.
 *
 * Thread rule: one thread at a time. Nothing blocks.
 */
#ifndef RG_CMD_SHOW_LINES_H
#define RG_CMD_SHOW_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define RG_LINE_MAX 65536

struct rg_lines {
    struct rg_buf partial;
    bool continued; /* the last piece's line goes on */
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
/* The stream ended: hand out what is left, if anything. */
void rg_lines_finish(struct rg_lines *lines, rg_line_fn *emit, void *arg);
void rg_lines_fini(struct rg_lines *lines);

#endif
