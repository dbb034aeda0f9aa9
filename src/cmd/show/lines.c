/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes come in pieces, but lines of different ranks must not be mixed. */
#include "cmd/show/lines.h"

#include <string.h>

static void emit_line(struct rg_lines *lines, const uint8_t *data, size_t nbytes, bool newline,
                      rg_line_fn *emit, void *arg)
{
    const struct rg_line line = { data, nbytes, newline, lines->continued };

    lines->continued = !newline;
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

int rg_lines_feed(struct rg_lines *lines, const uint8_t *data, size_t nbytes, rg_line_fn *emit,
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
    lines->continued = false;
}
