/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes come in pieces, but lines of different ranks must not be mixed. */
#include "head/show/lines.h"

#include <string.h>

static void emit_line(struct rg_lines *lines, const uint8_t *data, size_t nbytes, bool newline,
                      rg_line_fn *emit, void *arg)
{
    const struct rg_line line = { data, nbytes, newline, lines->continued };
    size_t nshown = rg_buf_nbytes(&lines->shown), n = nbytes;

    while (n > nshown && data[n - 1] == '\r')
        n--;
    bool seen = nshown && n == nshown && memcmp(data, rg_buf_bytes(&lines->shown), n) == 0;

    lines->continued = !newline;
    lines->redrawn = false;
    rg_buf_clear(&lines->shown);
    if (!seen)
        emit(arg, &line);
}

/* A line that ends at data + nbytes, its beginning perhaps kept from before. */
static int end_line(struct rg_lines *lines, const uint8_t *data, size_t nbytes, rg_line_fn *emit,
                    void *arg)
{
    if (!rg_buf_nbytes(&lines->partial)) {
        emit_line(lines, data, nbytes, true, emit, arg);
        return 0;
    }
    rg_buf_put(&lines->partial, data, nbytes);
    if (rg_buf_status(&lines->partial) < 0)
        return -ENOMEM;
    emit_line(lines, rg_buf_bytes(&lines->partial), rg_buf_nbytes(&lines->partial), true, emit,
              arg);
    rg_buf_clear(&lines->partial);
    return 0;
}

/* Keep bytes without a newline; full pieces go out. */
static int keep(struct rg_lines *lines, const uint8_t *data, size_t nbytes, rg_line_fn *emit,
                void *arg)
{
    while (nbytes) {
        size_t room = RG_LINE_MAX - rg_buf_nbytes(&lines->partial);
        size_t n = nbytes < room ? nbytes : room;
        rg_buf_put(&lines->partial, data, n);
        if (rg_buf_status(&lines->partial) < 0)
            return -ENOMEM;
        data += n;
        nbytes -= n;
        if (n == room && nbytes) {
            emit_line(lines, rg_buf_bytes(&lines->partial), RG_LINE_MAX, false, emit, arg);
            rg_buf_clear(&lines->partial);
        }
    }
    return 0;
}

/* Bytes without a carriage return that goes back to the line's beginning. */
static int feed(struct rg_lines *lines, const uint8_t *data, size_t nbytes, rg_line_fn *emit,
                void *arg)
{
    int rc = 0;

    while (rc == 0 && nbytes) {
        const uint8_t *newline = memchr(data, '\n', nbytes);
        size_t n = newline ? (size_t)(newline - data) : nbytes;

        if (!newline)
            return keep(lines, data, n, emit, arg);
        size_t have = rg_buf_nbytes(&lines->partial);

        /* What is too long for one piece goes out in pieces up to the last. */
        if (have + n > RG_LINE_MAX) {
            rc = keep(lines, data, n, emit, arg);
            data += n;
            nbytes -= n;
            n = 0;
        }
        if (rc == 0)
            rc = end_line(lines, data, n, emit, arg);
        data += n + 1;
        nbytes -= n + 1;
    }
    return rc;
}

/* After a carriage return comes this byte: a newline ends the line, any other writes over it. */
static int go_back(struct rg_lines *lines, uint8_t next, rg_line_fn *emit, void *arg)
{
    lines->returned = false;
    if (next == '\n')
        return keep(lines, (const uint8_t *) "\r", 1, emit, arg);
    lines->redrawn = true;
    rg_buf_clear(&lines->partial);
    return 0;
}

int rg_lines_feed(struct rg_lines *lines, const uint8_t *data, size_t nbytes, rg_line_fn *emit,
                  void *arg)
{
    int rc = 0;

    while (rc == 0 && nbytes) {
        const uint8_t *back = lines->redraws ? memchr(data, '\r', nbytes) : NULL;
        size_t n = back ? (size_t) (back - data) : nbytes;

        if (n && lines->returned)
            rc = go_back(lines, *data, emit, arg);
        if (rc == 0)
            rc = feed(lines, data, n, emit, arg);
        lines->returned = lines->returned || back;
        n += back ? 1 : 0;
        data += n;
        nbytes -= n;
    }
    return rc;
}

bool rg_lines_row(const struct rg_lines *lines, struct rg_line *ret_row)
{
    const uint8_t *data = rg_buf_bytes(&lines->partial);
    size_t nbytes = rg_buf_nbytes(&lines->partial);

    if (!nbytes || !(lines->redrawn || lines->returned) ||
        (nbytes == rg_buf_nbytes(&lines->shown) &&
         memcmp(data, rg_buf_bytes(&lines->shown), nbytes) == 0))
        return false;
    *ret_row = (struct rg_line){ data, nbytes, true, false };
    return true;
}

void rg_lines_row_shown(struct rg_lines *lines, uint64_t now_ns)
{
    rg_buf_clear(&lines->shown);
    rg_buf_put(&lines->shown, rg_buf_bytes(&lines->partial), rg_buf_nbytes(&lines->partial));
    /* Without memory it is merely shown twice. */
    if (rg_buf_status(&lines->shown) < 0)
        rg_buf_fini(&lines->shown);
    lines->shown_ns = now_ns;
}

void rg_lines_flush_row(struct rg_lines *lines, rg_line_fn *emit, void *arg)
{
    const uint8_t *data = rg_buf_bytes(&lines->partial);
    size_t nbytes = rg_buf_nbytes(&lines->partial);

    if (!nbytes || !memchr(data, '\r', nbytes))
        return;
    emit_line(lines, data, nbytes, false, emit, arg);
    rg_buf_clear(&lines->partial);
}

void rg_lines_finish(struct rg_lines *lines, rg_line_fn *emit, void *arg)
{
    if (rg_buf_nbytes(&lines->partial))
        emit_line(lines, rg_buf_bytes(&lines->partial), rg_buf_nbytes(&lines->partial), false, emit,
                  arg);
    rg_lines_fini(lines);
}

void rg_lines_fini(struct rg_lines *lines)
{
    rg_buf_fini(&lines->partial);
    rg_buf_fini(&lines->shown);
    lines->continued = lines->returned = lines->redrawn = false;
}
