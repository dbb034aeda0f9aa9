/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal obeys what it is shown, and most of what we show was written by others. Records go out
 * whole, in one write, as several agents share a terminal. */
#include "base/say.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/json.h"

#define WRITE_PATIENCE_MS 1000 /* for a non-blocking descriptor that is full */

/* --- as a terminal may get it ----------------------------------------------------------------- */

/* newline: what it becomes; a blank: so does a tab. */
static void put(struct rg_buf *buf, const unsigned char *p, size_t nbytes, unsigned char newline)
{
    for (size_t n; nbytes; p += n, nbytes -= n) {
        n = rg_utf8_nbytes(p, nbytes);
        bool byte = n == 0 || (*p < ' ' && *p != '\t') || *p == 0x7f;
        unsigned code = byte ? *p : rg_shown_steers(p, n);
        n = n ? n : 1;
        if (*p == '\r' && (nbytes == 1 || p[1] == '\n'))
            continue;
        if (*p == '\n' || (*p == '\t' && newline == ' '))
            rg_buf_put_u8(buf, *p == '\n' ? newline : ' ');
        else if (byte || code)
            rg_buf_printf(buf, n > 1 ? "\\u%04x" : "\\x%02x", code);
        else
            rg_buf_put(buf, p, n);
    }
}

void rg_shown_put(struct rg_buf *buf, const void *bytes, size_t nbytes)
{
    put(buf, bytes, nbytes, '\n');
}

void rg_shown_line(struct rg_buf *buf, const char *text)
{
    put(buf, (const unsigned char *) text, strlen(text), ' ');
}

void rg_shown_vprintf(struct rg_buf *buf, const char *fmt, va_list args)
{
    rg_autofree char *text = NULL;

    if (vasprintf(&text, fmt, args) < 0) {
        text = NULL; /* glibc says nothing of it */
        buf->status = buf->status ? buf->status : -ENOMEM;
        return;
    }
    rg_shown_put(buf, text, strlen(text));
}

void rg_shown_printf(struct rg_buf *buf, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    rg_shown_vprintf(buf, fmt, args);
    va_end(args);
}

/* --- to the person ---------------------------------------------------------------------------- */

static void put_indented(struct rg_buf *record, const char *text)
{
    for (;;) {
        size_t line = strcspn(text, "\n");

        rg_buf_put(record, text, line);
        rg_buf_put_u8(record, '\n');
        text += line;
        if (*text == '\0' || text[1] == '\0')
            return;
        text++;
        rg_buf_printf(record, "    ");
    }
}

/* One write in all usual cases; more only where the descriptor takes less. */
static void write_record(struct rg_buf *record)
{
    while (rg_buf_nbytes(record) > 0) {
        ssize_t n = write(STDERR_FILENO, rg_buf_bytes(record), rg_buf_nbytes(record));

        if (n < 0 && errno == EAGAIN) {
            struct pollfd ready = { STDERR_FILENO, POLLOUT, 0 };

            if (poll(&ready, 1, WRITE_PATIENCE_MS) <= 0)
                return;
        } else if (n < 0 && errno != EINTR) {
            return;
        } else if (n > 0) {
            rg_buf_consume(record, (size_t) n);
        }
    }
}

void rg_log_as(const char *who, const char *fmt, ...)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT, record = RG_BUF_INIT;
    int saved_errno = errno;
    va_list args;

    va_start(args, fmt);
    rg_shown_vprintf(&text, fmt, args);
    va_end(args);
    rg_buf_printf(&record, "%s: ", who);
    put_indented(&record, rg_buf_status(&text) == 0 ? rg_buf_text(&text) : "(out of memory)");
    if (rg_buf_status(&record) == 0)
        write_record(&record);
    errno = saved_errno;
}

void rg_say_exact(const char *text)
{
    rg_write_all(STDERR_FILENO, text, strlen(text));
}

void rg_say_lines(const char *text)
{
    rg_autobuf struct rg_buf shown = RG_BUF_INIT;

    rg_shown_put(&shown, text, strlen(text));
    rg_say_exact(rg_buf_text(&shown));
}
