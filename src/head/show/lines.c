/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes come in pieces, but lines of different ranks must not be mixed. */
#include "head/show/lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/time.h"

#define ESC 0x1b
#define LASTS 60 /* of what it has lasted, a row waits this part */

static void emit_line(struct rg_lines *lines, struct rg_line_row *row, const uint8_t *data,
                      size_t nbytes, bool newline, rg_line_fn *emit, void *arg)
{
    const struct rg_line line = { data, nbytes, newline, lines->continued };
    size_t nshown = rg_buf_nbytes(&row->shown), n = nbytes;

    while (n > nshown && data[n - 1] == '\r')
        n--;
    bool seen = nshown && n == nshown && memcmp(data, rg_buf_bytes(&row->shown), n) == 0;

    lines->continued = !newline;
    row->redrawn = false;
    rg_buf_clear(&row->shown);
    if (!seen)
        emit(arg, &line);
}

/* Text replaces what stands in a row that was gone back in. */
static void begin_text(struct rg_lines *lines)
{
    if (!lines->over)
        return;
    lines->over = false;
    lines->now.redrawn = true;
    rg_buf_clear(&lines->now.text);
    rg_buf_put(&lines->now.text, lines->colours, lines->ncolours);
    lines->ncolours = 0;
}

/* A line that ends at data + nbytes, its beginning perhaps kept from before. */
static int end_line(struct rg_lines *lines, const uint8_t *data, size_t nbytes, rg_line_fn *emit,
                    void *arg)
{
    struct rg_line_row *row = &lines->now;

    lines->over = false;
    lines->since_ns = 0;
    lines->ncolours = 0;
    if (!rg_buf_nbytes(&row->text)) {
        emit_line(lines, row, data, nbytes, true, emit, arg);
        return 0;
    }
    rg_buf_put(&row->text, data, nbytes);
    if (rg_buf_status(&row->text) < 0)
        return -ENOMEM;
    emit_line(lines, row, rg_buf_bytes(&row->text), rg_buf_nbytes(&row->text), true, emit, arg);
    rg_buf_clear(&row->text);
    return 0;
}

/* Keep bytes without a newline; full pieces go out. */
static int keep(struct rg_lines *lines, const uint8_t *data, size_t nbytes, rg_line_fn *emit,
                void *arg)
{
    struct rg_buf *text = &lines->now.text;

    while (nbytes) {
        size_t room = RG_LINE_MAX - rg_buf_nbytes(text);
        size_t n = nbytes < room ? nbytes : room;
        rg_buf_put(text, data, n);
        if (rg_buf_status(text) < 0)
            return -ENOMEM;
        data += n;
        nbytes -= n;
        if (n == room && nbytes) {
            emit_line(lines, &lines->now, rg_buf_bytes(text), RG_LINE_MAX, false, emit, arg);
            rg_buf_clear(text);
        }
    }
    return 0;
}

/* --- several rows ----------------------------------------------------------------------------- */

static void fini_row(struct rg_line_row *row)
{
    rg_buf_fini(&row->text);
    rg_buf_fini(&row->shown);
    *row = (struct rg_line_row){ .redrawn = false };
}

static bool is_blank(const struct rg_line_row *row)
{
    const uint8_t *data = rg_buf_bytes(&row->text);
    size_t n = rg_buf_nbytes(&row->text);

    while (n && (data[n - 1] == ' ' || data[n - 1] == '\t'))
        n--;
    return n == 0;
}

/* What is blank was erased, or had gone out before it became live. */
static void emit_row(struct rg_lines *lines, struct rg_line_row *row, rg_line_fn *emit, void *arg)
{
    if (!is_blank(row))
        emit_line(lines, row, rg_buf_bytes(&row->text), rg_buf_nbytes(&row->text), true, emit,
                  arg);
    fini_row(row);
}

static void move_to(struct rg_lines *lines, int at)
{
    lines->rows[lines->at] = lines->now;
    lines->now = lines->rows[at];
    lines->rows[at] = (struct rg_line_row){ .redrawn = false };
    lines->at = at;
    lines->over = true;
    lines->returned = false;
    lines->ncolours = 0;
}

static void go_down(struct rg_lines *lines, rg_line_fn *emit, void *arg)
{
    int last = lines->nrows - 1;

    if (lines->at < last) {
        move_to(lines, lines->at + 1);
        return;
    }
    emit_row(lines, &lines->rows[0], emit, arg);
    memmove(lines->rows, lines->rows + 1, (size_t) last * sizeof(*lines->rows));
    lines->rows[last - 1] = lines->now;
    lines->rows[last] = lines->now = (struct rg_line_row){ .redrawn = false };
    lines->over = false;
    lines->ncolours = 0;
}

/* Above all that are live there may be more, whose text has gone out. */
static int go_up(struct rg_lines *lines, int n)
{
    int have = lines->nrows ? lines->nrows : 1, more = n - lines->at;

    more = more > RG_LINES_ROWS_MAX - have ? RG_LINES_ROWS_MAX - have : more;
    if (more > 0) {
        struct rg_line_row *rows =
            realloc(lines->rows, (size_t) (have + more) * sizeof(*rows));
        if (!rows)
            return -ENOMEM;
        if (!lines->nrows)
            memset(rows, 0, sizeof(*rows));
        memmove(rows + more, rows, (size_t) have * sizeof(*rows));
        memset(rows, 0, (size_t) more * sizeof(*rows));
        lines->rows = rows;
        lines->nrows = have + more;
        lines->at += more;
    }
    move_to(lines, n < lines->at ? lines->at - n : 0);
    return 0;
}

static void emit_rows(struct rg_lines *lines, rg_line_fn *emit, void *arg)
{
    for (int i = 0; i < lines->nrows; i++)
        emit_row(lines, i == lines->at ? &lines->now : &lines->rows[i], emit, arg);
    free(lines->rows);
    lines->rows = NULL;
    lines->nrows = lines->at = 0;
    lines->over = lines->returned = false;
    lines->since_ns = 0;
    lines->ncolours = 0;
}

void rg_lines_settle(struct rg_lines *lines, uint64_t now_ns, rg_line_fn *emit, void *arg)
{
    if (!lines->quiet_ns)
        lines->quiet_ns = now_ns;
    if (now_ns - lines->quiet_ns >= RG_LINES_QUIET_MS * RG_NS_PER_MS && lines->nrows &&
        lines->at == lines->nrows - 1 && is_blank(&lines->now))
        emit_rows(lines, emit, arg);
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* Bytes without a carriage return that goes back to the line's beginning. */
static int feed(struct rg_lines *lines, const uint8_t *data, size_t nbytes, rg_line_fn *emit,
                void *arg)
{
    int rc = 0;

    while (rc == 0 && nbytes) {
        const uint8_t *newline = memchr(data, '\n', nbytes);
        size_t n = newline ? (size_t)(newline - data) : nbytes;

        if (n)
            begin_text(lines);
        if (!newline)
            return keep(lines, data, n, emit, arg);
        size_t have = rg_buf_nbytes(&lines->now.text);

        /* What is too long for one piece goes out in pieces up to the last. */
        if (have + n > RG_LINE_MAX || lines->nrows) {
            rc = keep(lines, data, n, emit, arg);
            data += n;
            nbytes -= n;
            n = 0;
        }
        if (lines->nrows)
            go_down(lines, emit, arg);
        else if (rc == 0)
            rc = end_line(lines, data, n, emit, arg);
        data += n + 1;
        nbytes -= n + 1;
    }
    return rc;
}

/* After a carriage return comes this byte: a newline ends the line, any other writes over it. */
static int put_text(struct rg_lines *lines, const uint8_t *data, size_t nbytes, rg_line_fn *emit,
                    void *arg)
{
    bool returned = lines->returned;
    int rc = 0;

    lines->returned = false;
    if (returned && *data != '\n')
        lines->over = true;
    else if (returned && !lines->nrows)
        rc = keep(lines, (const uint8_t *) "\r", 1, emit, arg);
    return rc < 0 ? rc : feed(lines, data, nbytes, emit, arg);
}

static void erase_row(struct rg_lines *lines)
{
    rg_buf_clear(&lines->now.text);
    lines->now.redrawn = lines->over = true;
    lines->returned = false;
}

/* False: it is text. */
static bool erase(struct rg_lines *lines, uint8_t what, int how)
{
    bool at_begin = lines->returned || lines->over;

    if (what == 'J' && how)
        return false;
    if (how || at_begin)
        erase_row(lines);
    for (int i = lines->at + 1; what == 'J' && i < lines->nrows; i++)
        rg_buf_clear(&lines->rows[i].text);
    return how || at_begin || lines->now.redrawn || lines->nrows;
}

/* 1: it is text. */
static int hold_colour(struct rg_lines *lines)
{
    if (!lines->returned && !lines->over)
        return 1;
    if (lines->ncolours + lines->nescape > sizeof(lines->colours))
        lines->ncolours = 0;
    memcpy(lines->colours + lines->ncolours, lines->escape, lines->nescape);
    lines->ncolours += lines->nescape;
    return 0;
}

/* Down to the lowest row at the most. */
static void go_down_by(struct rg_lines *lines, int n)
{
    if (lines->nrows)
        move_to(lines, lines->at + n < lines->nrows ? lines->at + n : lines->nrows - 1);
}

/* Obey the sequence that is complete. 1: it is text; or -ENOMEM. */
static int obey(struct rg_lines *lines)
{
    uint8_t what = lines->escape[lines->nescape - 1];
    int n = 0;

    if (what == 'm')
        return hold_colour(lines);
    if (lines->nescape == 6 && memcmp(lines->escape + 2, "?25", 3) == 0)
        return what != 'l' && what != 'h';
    for (size_t i = 2; i < lines->nescape - 1; i++) {
        if (lines->escape[i] < '0' || lines->escape[i] > '9')
            return 1;
        n = n < RG_LINE_MAX ? 10 * n + lines->escape[i] - '0' : n;
    }
    switch (what) {
    case 'A':
    case 'F':
        return go_up(lines, n ? n : 1);
    case 'B':
    case 'E':
        go_down_by(lines, n ? n : 1);
        lines->over |= what == 'E';
        return 0;
    case 'G':
        lines->over |= n < 2;
        return n > 1;
    default:
        return !((what == 'J' || what == 'K') && erase(lines, what, n));
    }
}

/* A byte of a sequence, or the one behind it. ret_taken: the byte is not to be looked at again. */
static int take_escape(struct rg_lines *lines, uint8_t byte, bool *ret_taken, rg_line_fn *emit,
                       void *arg)
{
    size_t n = lines->nescape;
    bool fits = n == 0 || (n == 1 ? byte == '[' : byte >= 0x20 && byte < 0x7f);
    bool ends = n > 1 && byte >= 0x40;
    int rc = 1;

    *ret_taken = fits;
    if (fits)
        lines->escape[lines->nescape++] = byte;
    if (fits && ends)
        rc = obey(lines);
    else if (fits && lines->nescape < sizeof(lines->escape))
        return 0;
    n = lines->nescape;
    lines->nescape = 0;
    return rc > 0 ? put_text(lines, lines->escape, n, emit, arg) : rc;
}

int rg_lines_feed(struct rg_lines *lines, const uint8_t *data, size_t nbytes, rg_line_fn *emit,
                  void *arg)
{
    int rc = 0;

    lines->quiet_ns = 0;
    while (rc == 0 && nbytes) {
        size_t n = lines->redraws ? 0 : nbytes;
        bool taken = true;

        while (n < nbytes && data[n] != '\r' && data[n] != ESC)
            n++;
        if (lines->nescape || (!n && *data == ESC)) {
            rc = take_escape(lines, *data, &taken, emit, arg);
            n = taken;
        } else if (n) {
            rc = put_text(lines, data, n, emit, arg);
        } else {
            lines->returned = true;
            n = 1;
        }
        data += n;
        nbytes -= n;
    }
    return rc;
}

int rg_lines_nrows(const struct rg_lines *lines)
{
    return lines->nrows ? lines->nrows : lines->now.redrawn || lines->returned || lines->over;
}

static const struct rg_line_row *row_of(const struct rg_lines *lines, int i)
{
    return i == lines->at ? &lines->now : &lines->rows[i];
}

bool rg_lines_row(const struct rg_lines *lines, int i, struct rg_line *ret_row, bool *ret_news)
{
    const struct rg_line_row *row = row_of(lines, i);
    size_t nbytes = rg_buf_nbytes(&row->text);

    if (is_blank(row))
        return false;
    *ret_news = nbytes != rg_buf_nbytes(&row->shown) ||
                memcmp(rg_buf_bytes(&row->text), rg_buf_bytes(&row->shown), nbytes) != 0;
    *ret_row = (struct rg_line){ rg_buf_bytes(&row->text), nbytes, true, false };
    return true;
}

void rg_lines_row_shown(struct rg_lines *lines, int i, uint64_t now_ns)
{
    struct rg_line_row *row = (struct rg_line_row *) row_of(lines, i);

    rg_buf_clear(&row->shown);
    rg_buf_put(&row->shown, rg_buf_bytes(&row->text), rg_buf_nbytes(&row->text));
    /* Without memory it is merely shown twice. */
    if (rg_buf_status(&row->shown) < 0)
        rg_buf_fini(&row->shown);
    lines->shown_ns = now_ns;
    lines->since_ns = lines->since_ns ? lines->since_ns : now_ns;
}

bool rg_lines_due(const struct rg_lines *lines, uint64_t pause_ns, uint64_t now_ns)
{
    uint64_t age_ns = lines->since_ns ? now_ns - lines->since_ns : 0;

    pause_ns = age_ns / LASTS > pause_ns ? age_ns / LASTS : pause_ns;
    return !lines->shown_ns || now_ns - lines->shown_ns >= pause_ns;
}

void rg_lines_flush_row(struct rg_lines *lines, rg_line_fn *emit, void *arg)
{
    const uint8_t *data = rg_buf_bytes(&lines->now.text);
    size_t nbytes = rg_buf_nbytes(&lines->now.text);

    if (!nbytes || !memchr(data, '\r', nbytes))
        return;
    emit_line(lines, &lines->now, data, nbytes, false, emit, arg);
    rg_buf_clear(&lines->now.text);
}

void rg_lines_finish(struct rg_lines *lines, rg_line_fn *emit, void *arg)
{
    struct rg_line_row *row = &lines->now;

    if (lines->nescape)
        put_text(lines, lines->escape, lines->nescape, emit, arg);
    if (lines->nrows)
        emit_rows(lines, emit, arg);
    else if (rg_buf_nbytes(&row->text) && !(row->redrawn && is_blank(row)))
        emit_line(lines, row, rg_buf_bytes(&row->text), rg_buf_nbytes(&row->text), false, emit,
                  arg);
    rg_lines_fini(lines);
}

void rg_lines_fini(struct rg_lines *lines)
{
    for (int i = 0; i < lines->nrows; i++)
        fini_row(&lines->rows[i]);
    free(lines->rows);
    fini_row(&lines->now);
    *lines = (struct rg_lines){ .redraws = lines->redraws, .shown_ns = lines->shown_ns };
}
