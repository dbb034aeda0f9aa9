/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/report.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define RECORD_MAX 8192

static _Atomic int report_rank = -1;
static _Atomic int report_level = RG_LOG_WARN;

void rg_report_open(int rank, enum rg_log_level level)
{
    atomic_store(&report_rank, rank);
    atomic_store(&report_level, (int) level);
}

void rg_report(enum rg_log_level level, const char *fmt, ...)
{
    static const char *const names[] = { "error", "warning", "info", "debug", "trace" };
    char text[RECORD_MAX], out[RECORD_MAX + 64];
    size_t length;
    va_list ap;
    int saved = errno, n;

    if ((int) level > atomic_load(&report_level))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    n = snprintf(out, sizeof(out), "reigen[%d]: %s: ", atomic_load(&report_rank), names[level]);
    length = (size_t) n;
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
