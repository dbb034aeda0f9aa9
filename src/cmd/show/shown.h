/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands above reigen's own words on the terminal: the last RG_SHOWN_LINES lines of the ranks'
 * output that went to the same place, so that the verdict does not repeat them.
 *
 * Thread rule: one thread. Nothing blocks.
 */
#ifndef RG_CMD_SHOW_SHOWN_H
#define RG_CMD_SHOW_SHOWN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "launch/verdict/tail.h"

#define RG_SHOWN_LINES 30 /* less than a screen */

struct rg_shown {
    struct { int rank; size_t nbytes; char text[RG_TAIL_LINE_MAX]; } lines[RG_SHOWN_LINES];
    unsigned next, count;
    struct rg_tail raw; /* of the one rank whose bytes pass as they are */
    int raw_rank;
};

void rg_shown_fini(struct rg_shown *shown); /* of a zeroed one, too */

/* A line of this rank has been printed. */
void rg_shown_line(struct rg_shown *shown, int rank, const void *data, size_t nbytes);
/* Bytes of the one rank that is not cut into lines; as rg_tail_put. */
void rg_shown_raw(struct rg_shown *shown, int rank, int stream, const void *data, size_t nbytes);

/* A line of reigen's own. */
#define RG_SHOWN_OWN (-1)

/* Append a note without those of its lines after the first that reigen has shown, a little to the
 * right; the first line says so. */
void rg_shown_note(const struct rg_shown *shown, const char *note, struct rg_buf *text);

/* How many of a rank's last lines, as rg_tail_lines gives them, come before the newest one that is
 * there, with that one: what follows from this index on has not been seen. All of them when only
 * empty lines follow. */
size_t rg_shown_count(const struct rg_shown *shown, int rank, const char *const *lines,
                      size_t nlines);

#endif
