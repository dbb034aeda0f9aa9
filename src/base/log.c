/* SPDX-License-Identifier: Apache-2.0 */
/* Programs log records whole, in one write, as several of them share a terminal. */
#include "base/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/time.h"

#define WRITE_PATIENCE_MS 1000 /* for a non-blocking descriptor that is full */

/* A process has one log; it is opened before there are threads. */
static struct rg_log_options log_options = { RG_LOG_WARN, 2, "reigen", false, false };
static uint64_t log_start_ns;

void rg_log_open(const struct rg_log_options *options)
{
    log_options = *options;
    log_start_ns = rg_now_ns();
}

bool rg_log_enabled(enum rg_log_level level)
{
    return level <= log_options.level;
}

static void put_prefix(struct rg_buf *record, enum rg_log_level level)
{
    static const char *const words[] = { "error: ", "warning: ", "", "debug: ", "trace: " };
    static const char *const colours[] = { "\033[1;31m", "\033[1;33m", "", "", "" };

    if (log_options.timestamps) {
        uint64_t ms = (rg_now_ns() - log_start_ns) / RG_NS_PER_MS;

        rg_buf_printf(record, "%4llu.%03llu ", (unsigned long long) (ms / 1000),
                      (unsigned long long) (ms % 1000));
    }
    rg_buf_printf(record, "%s: ", log_options.name);
    if (log_options.colour && *colours[level])
        rg_buf_printf(record, "%s%s\033[0m", colours[level], words[level]);
    else
        rg_buf_printf(record, "%s", words[level]);
}

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
static void write_record(const char *p, size_t nbytes)
{
    while (nbytes > 0) {
        ssize_t n = write(log_options.fd, p, nbytes);

        if (n < 0 && errno == EAGAIN) {
            struct pollfd ready = { log_options.fd, POLLOUT, 0 };

            if (poll(&ready, 1, WRITE_PATIENCE_MS) <= 0)
                return;
            continue;
        }
        if (n < 0 && errno != EINTR)
            return;
        if (n > 0) {
            p += n;
            nbytes -= (size_t) n;
        }
    }
}

void rg_log(enum rg_log_level level, const char *fmt, ...)
{
    rg_autobuf struct rg_buf record = RG_BUF_INIT;
    rg_autofree char *text = NULL;
    int saved_errno = errno;
    va_list args;

    if (!rg_log_enabled(level))
        return;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        text = NULL;
    va_end(args);
    put_prefix(&record, level);
    put_indented(&record, text ? text : "(out of memory)");
    if (rg_buf_status(&record) == 0)
        write_record((const char *) rg_buf_bytes(&record), rg_buf_nbytes(&record));
    errno = saved_errno;
}
