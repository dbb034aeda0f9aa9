/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readings as text: amounts, the lines above a table, and the table. Each function appends; out of
 * memory shows in rg_buf_status. What others have named goes through base/say.h.
 *
 * Thread rule: pure functions. Nothing blocks.
 */
#ifndef RG_CMD_TOP_TABLE_H
#define RG_CMD_TOP_TABLE_H

#include "base/buf.h"
#include "cmd/top/rows.h"

#define RG_TOP_CELL 16
#define RG_TOP_WIDE 400 /* columns of what no terminal cuts */

/* For whom it is. */
struct rg_top_look {
    int columns;  /* no line is longer */
    bool colour;
    bool cursor;  /* the first two columns mark the row that is chosen */
};

/* A part of the rows. */
struct rg_top_part {
    size_t first, count;
    size_t chosen; /* of all rows; none where look.cursor is not set */
};

/* "12.3M", "812", in powers of 1024; "-" where it is not known. Into cell, which is returned. */
const char *rg_top_amount(double nbytes, bool known, char cell[RG_TOP_CELL]);
/* "3.21", "1234", with so many digits that it fits into 6 columns. */
const char *rg_top_number(double value, bool known, char cell[RG_TOP_CELL]);
/* "31%". */
const char *rg_top_percent(double share, bool known, char cell[RG_TOP_CELL]);

/* One line each, with a newline: what all ranks do, and who is waited for. */
void rg_top_put_sums(const struct rg_top_reading *reading, const struct rg_top_look *look,
                     struct rg_buf *text);
void rg_top_put_late(const struct rg_top_reading *reading, const struct rg_top_look *look,
                     struct rg_buf *text);
/* Why, where that is known; nothing else. */
void rg_top_put_why(const struct rg_top_reading *reading, const struct rg_top_look *look,
                    struct rg_buf *text);
/* Who it is, without a newline: "rank 5 on node2, 96 % of all waiting"; nothing where nobody is. */
void rg_top_put_culprit(const struct rg_top_reading *reading, struct rg_buf *text);
/* The heading and these rows. */
void rg_top_put_table(const struct rg_top_reading *reading, const struct rg_top_rows *rows,
                      const struct rg_top_part *part, const struct rg_top_look *look,
                      struct rg_buf *text);
/* A cut line of words, and a newline; style: an escape sequence in front of it, or "". */
void rg_top_put_line(const char *words, const char *style, const struct rg_top_look *look,
                     struct rg_buf *text);

#endif
