/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manual's parts: words that only the pages of plain commands need (manual_pages.c), and how a
 * page is shown to a person who has no man (manual_text.c). manual.c makes the pages.
 *
 * Thread rule: constant tables; main thread. rg_manual_text appends to text; out of memory shows in
 * rg_buf_status.
 */
#ifndef RG_CMD_HELP_MANUAL_H
#define RG_CMD_HELP_MANUAL_H

#include <stdbool.h>

#include "base/buf.h"

/* Of a command whose page is no other table's; what it does, its summary says already. */
struct rg_command_page {
    const char *command;
    const char *summary;  /* a few words, without a full stop */
    const char *about;    /* more sentences, or NULL */
    const char *const *options; /* left, right, left, right, NULL; or NULL */
    const char *examples; /* lines, or NULL */
    const char *see;      /* other pages, separated by spaces; or NULL */
};

/* Ends with a NULL command. */
extern const struct rg_command_page rg_command_pages[];

/* A page of ours (man(7)) as text for a terminal of so many columns; bold: headings and names are,
 * by escape sequences. */
void rg_manual_text(struct rg_buf *text, const char *page, int columns, bool bold);

#endif
