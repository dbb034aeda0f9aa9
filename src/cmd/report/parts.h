/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is shown, and the parts that the page of one record and that of two have. Each page is one
 * file of HTML without a script, which loads nothing: its own header forbids it.
 *
 * Thread rule: pure functions; the buffer has the error.
 */
#ifndef RG_CMD_REPORT_PARTS_H
#define RG_CMD_REPORT_PARTS_H

#include "base/buf.h"
#include "cmd/report/read/figures.h"
#include "cmd/report/read/reader.h"
#include "cmd/report/read/window.h"

/* A record, and what follows from it. */
struct rg_report_run {
    const struct rg_recorded *record;
    const struct rg_figures *figures;
    const char *name;     /* as the user called it */
    const char *timeline; /* where the job's timeline is, as a link; or NULL */
    const struct rg_window *window; /* what is drawn of it; or NULL */
    bool runs;            /* its launcher is at it */
};

extern const char rg_report_style[]; /* page.css */

/* Up to the begin of the body; title is text. */
void rg_report_begin(struct rg_buf *page, const char *title);
/* What made it; the end. */
void rg_report_end(struct rg_buf *page);
/* "ended well", "exit code 7", ..., as a coloured word. */
void rg_report_badge(struct rg_buf *page, const struct rg_report_run *run);
/* "rank 1 on a", "host b", "nobody in particular". */
void rg_report_late(struct rg_buf *page, const struct rg_report_run *run);
/* When it began, who it was, and where: a line of text. */
void rg_report_facts(struct rg_buf *page, const struct rg_report_run *run);
/* Why it ended, where it did not end well; and what the record lacks. */
void rg_report_verdict(struct rg_buf *page, const struct rg_report_run *run);

#endif
