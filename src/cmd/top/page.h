/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's page: what it is, what all its ranks do, who is waited for, and the table. A rank's page:
 * its numbers in words, and its last lines from where `reigen logs` has them, if that is a file.
 *
 * Thread rule: main thread. Nothing blocks; reads the clock and, of a rank, the end of a file.
 */
#ifndef RG_CMD_TOP_PAGE_H
#define RG_CMD_TOP_PAGE_H

#include "cmd/top/rows.h"
#include "cmd/top/table.h"
#include "cmd/top/watch.h"

#define RG_TOP_HEAD_LINES 6 /* at most, with the table's heading */

/* Append the lines above the table. */
void rg_top_put_head(const struct rg_top_watch *watch, const struct rg_top_look *look,
                     struct rg_buf *text);
/* Append all of it, without a cursor, with so many rows at most. */
void rg_top_put_job(const struct rg_top_watch *watch, const struct rg_top_view *view, size_t room,
                    const struct rg_top_look *look, struct rg_buf *text);
/* Append a rank's page, at most so many lines (8 and more). */
void rg_top_put_rank(const struct rg_top_watch *watch, int rank, size_t nlines,
                     const struct rg_top_look *look, struct rg_buf *text);

#endif
