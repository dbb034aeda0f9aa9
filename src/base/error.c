/* SPDX-License-Identifier: Apache-2.0 */
/* An error is on the caller's stack, so that telling it needs no memory. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The length of text without a UTF-8 sequence that was cut off at its end. */
static size_t whole_utf8_length(const char *text, size_t nbytes)
{
    size_t lead = nbytes;
    size_t follow = 0;

    while (lead > 0 && ((unsigned char) text[lead - 1] & 0xC0) == 0x80 && follow < 3) {
        lead--;
        follow++;
    }
    if (lead == 0)
        return nbytes;
    unsigned char c = (unsigned char) text[lead - 1];
    size_t wanted = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;

    return wanted > follow ? lead - 1 : nbytes;
}

static void cut_to_fit(char *text, size_t formatted, size_t capacity)
{
    if (formatted >= capacity)
        text[whole_utf8_length(text, capacity - 1)] = '\0';
}

/* Wherever descriptors run out, the remedy is the same, and the C library's words name none. */
static const char *remedy(int errnum, const char *text)
{
    if (errnum == EMFILE && !strstr(text, "ulimit -n"))
        return "; raise the limit of open files: ulimit -n";
    if (errnum == ENFILE && !strstr(text, "fs.file-max"))
        return "; the whole system has too many open files: sysctl fs.file-max";
    return "";
}

static int fill(struct rg_error *err, int errnum, int exit_code, const char *fmt, va_list args)
{
    if (err) {
        /* The arguments may point into err->text itself. */
        char text[RG_ERROR_TEXT_MAX];
        int n = vsnprintf(text, sizeof(text), fmt, args);

        if (n < 0)
            text[0] = '\0';
        else
            cut_to_fit(text, (size_t) n, sizeof(text));
        const char *more = remedy(errnum, text);
        if (strlen(text) + strlen(more) < sizeof(text))
            strcat(text, more);
        memcpy(err->text, text, strlen(text) + 1);
        err->errnum = errnum;
        err->exit_code = exit_code;
    }
    return -errnum;
}

int rg_error_set(struct rg_error *err, int errnum, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int rc = fill(err, errnum, 0, fmt, args);
    va_end(args);
    return rc;
}

int rg_error_memory(struct rg_error *err)
{
    return rg_error_set(err, ENOMEM, "out of memory");
}

int rg_error_set_exit(struct rg_error *err, int errnum, int exit_code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int rc = fill(err, errnum, exit_code, fmt, args);
    va_end(args);
    return rc;
}

int rg_error_prepend(struct rg_error *err, const char *fmt, ...)
{
    char prefix[RG_ERROR_TEXT_MAX];
    char text[RG_ERROR_TEXT_MAX];
    va_list args;

    if (!err)
        return -EINVAL;
    va_start(args, fmt);
    int n = vsnprintf(prefix, sizeof(prefix), fmt, args);
    va_end(args);
    if (n < 0)
        return -err->errnum;
    cut_to_fit(prefix, (size_t) n, sizeof(prefix));
    n = snprintf(text, sizeof(text), "%s: %s", prefix, err->text);
    cut_to_fit(text, (size_t) n, sizeof(text));
    memcpy(err->text, text, strlen(text) + 1);
    return -err->errnum;
}
