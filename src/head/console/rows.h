/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows at a terminal's bottom, in which progress bars are redrawn while lines scroll above.
 *
 * At most half of the screen's rows are taken. The ranks of which not all rows fit are told of in
 * one: "ranks 4-63 alike: 38 %", "ranks 4-63: 31 to 42 %", or how many they are. Each row is cut at
 * the terminal's width, where wide characters count as two. Of escape sequences colours stay, and
 * nothing that moves the cursor.
 *
 * The cursor waits at the beginning of the last row. Lines go out behind rg_rows_wipe and in front
 * of rg_rows_draw, in one write. Where the window has become narrower and has broken rows into
 * several, all of them are erased. What others write there is not seen, as the echo of an Enter is:
 * a row then stays above. Nothing is drawn behind a line without an end, in the background, and
 * while the program is about to stop. The status of a start (head/show/status.h) has the same
 * place, before there are ranks.
 *
 * The agent has no terminal, and none of this. Functions append to text; out of memory shows in
 * rg_buf_status. Thread rule: the loop's thread. Nothing blocks.
 */
#ifndef RG_HEAD_CONSOLE_ROWS_H
#define RG_HEAD_CONSOLE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define RG_ROWS_PAUSE_MS 50 /* between two drawings, at the least */

struct rg_rows {
    int fd;               /* borrowed: the terminal; read by ioctl alone */
    int standing;         /* rows that are on the terminal now */
    bool open;            /* the last line has no end yet */
    bool stopped;         /* between rg_rows_stop and rg_rows_resume */
    uint64_t drawn_ns;    /* when it was drawn last; 0: never */
    struct rg_buf drawn;  /* what stands there */
};

/* A rank's row. Those of a rank follow each other. */
struct rg_bar {
    int place, stream;    /* the caller's, for his tag */
    int number;           /* of the rank, as people call it */
    const uint8_t *data;  /* borrowed for the call; UTF-8 */
    size_t nbytes;
};

/* Append what stands in front of a row. */
typedef void rg_rows_tag(void *arg, const struct rg_bar *bar, struct rg_buf *text);

#ifdef RG_AGENT
static inline bool rg_rows_can_draw(const struct rg_rows *rows) { (void) rows; return false; }
static inline bool rg_rows_stand(const struct rg_rows *rows) { (void) rows; return false; }
static inline bool rg_rows_due(const struct rg_rows *rows) { (void) rows; return false; }
static inline void rg_rows_draw(struct rg_rows *rows, const struct rg_bar *bars, size_t nbars,
                                rg_rows_tag *put_tag, void *arg, struct rg_buf *text)
{
    (void) rows, (void) bars, (void) nbars, (void) put_tag, (void) arg, (void) text;
}
static inline void rg_rows_wipe(struct rg_rows *rows, struct rg_buf *text)
{
    (void) rows, (void) text;
}
static inline void rg_rows_fini(struct rg_rows *rows) { (void) rows; }
#else
/* Whether rows may be drawn at all: fd is a terminal that can move its cursor, and the program is
 * not in its background. */
bool rg_rows_can_draw(const struct rg_rows *rows);
/* Whether there are any on the terminal now. */
static inline bool rg_rows_stand(const struct rg_rows *rows) { return rows->standing > 0; }
/* Whether RG_ROWS_PAUSE_MS are over. */
bool rg_rows_due(const struct rg_rows *rows);
/* Append what makes the bottom show these bars, in order; nothing where it does already. */
void rg_rows_draw(struct rg_rows *rows, const struct rg_bar *bars, size_t nbars,
                  rg_rows_tag *put_tag, void *arg, struct rg_buf *text);
/* Append what erases the rows. The next ones are drawn where the cursor is then. */
void rg_rows_wipe(struct rg_rows *rows, struct rg_buf *text);
void rg_rows_fini(struct rg_rows *rows);
#endif

#endif
