/* SPDX-License-Identifier: Apache-2.0 */
/* Agents log records whole, in one write, as several of them share a terminal. */
#include "base/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define WRITE_PATIENCE_MS 1000 /* for a non-blocking descriptor that is full */

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

void rg_log(enum rg_log_level level, const char *fmt, ...)
{
    rg_autobuf struct rg_buf record = RG_BUF_INIT;
    rg_autofree char *text = NULL;
    int saved_errno = errno;
    va_list args;

    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        text = NULL;
    va_end(args);
    rg_buf_printf(&record, "reigen-agent: %s: ", level == RG_LOG_ERROR ? "error" : "warning");
    put_indented(&record, text ? text : "(out of memory)");
    if (rg_buf_status(&record) == 0)
        write_record(&record);
    errno = saved_errno;
}
