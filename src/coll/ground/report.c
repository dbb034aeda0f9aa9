/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime's own words on standard error, in one form, for all its parts. */
#include "coll/ground/report.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"

#define RECORD_MAX 8192

static _Atomic int report_rank = -1;
static _Atomic int report_level = RG_LOG_WARN;
static _Atomic bool report_time;

/* "[2026-01-31T23:59:59.123456Z] " when that is wanted; its length. */
static size_t put_time(char *out, size_t room)
{
    uint64_t now = rg_wall_ns();
    time_t seconds = (time_t) (now / RG_NS_PER_S);
    struct tm tm;
    size_t n;

    if (!atomic_load(&report_time) || !gmtime_r(&seconds, &tm))
        return 0;
    n = strftime(out, room, "[%Y-%m-%dT%H:%M:%S.", &tm);
    return n + (size_t) snprintf(out + n, room - n, "%06uZ] ",
                                 (unsigned) (now % RG_NS_PER_S / 1000));
}

void rg_report_open(int rank, enum rg_log_level level, bool time)
{
    atomic_store(&report_time, time);
    atomic_store(&report_rank, rank);
    atomic_store(&report_level, (int) level);
}

void rg_report(enum rg_log_level level, const char *fmt, ...)
{
    static const char *const names[] = { "error", "warning", "info", "debug", "trace" };
    char text[RECORD_MAX], out[RECORD_MAX + 128];
    size_t length;
    va_list ap;
    int saved = errno, n;

    if ((int) level > atomic_load(&report_level))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    length = put_time(out, sizeof(out));
    n = snprintf(out + length, sizeof(out) - length, "reigen[%d]: %s: ", atomic_load(&report_rank),
                 names[level]);
    length += (size_t) n;
    for (const char *c = text; *c && length < sizeof(out) - 4; c++) {
        out[length++] = *c;
        if (*c == '\n') {
            out[length++] = ' ';
            out[length++] = ' ';
        }
    }
    out[length++] = '\n';
    if (write(STDERR_FILENO, out, length) < 0)
        errno = saved; /* there is no better place to tell */
    errno = saved;
}
