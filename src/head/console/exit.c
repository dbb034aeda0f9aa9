/* SPDX-License-Identifier: Apache-2.0 */
/* All commands end alike: a line on standard error, perhaps where help is, and a code of the
 * table. */
#include "head/console/exit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/say.h"
#include "head/console/terminal.h"
#include "base/exitcode.h"

/* Its own, or derived from its errno. */
static int exit_of(const struct rg_error *err)
{
    if (err->exit_code)
        return err->exit_code;
    switch (err->errnum) {
    case EINVAL: case ERANGE: case E2BIG: case ENOENT: case ENOTDIR: case EISDIR: case EFBIG:
        return RG_EXIT_USAGE;
    case EACCES: case EPERM: case EROFS:
        return RG_EXIT_NO_PERMISSION;
    case ENOSPC: case EDQUOT:
        return RG_EXIT_OUTPUT_LOST;
    default:
        return RG_EXIT_INTERNAL;
    }
}

int rg_fail(const struct rg_error *err, const char *command)
{
    bool colour = rg_terminal_colour(2);
    int code = exit_of(err);

    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_buf_printf(&text, colour ? "reigen: \033[1;31m" : "reigen: ");
    rg_shown_printf(&text, "%s", err->text);
    rg_buf_printf(&text, colour ? "\033[0m\n" : "\n");
    if (code == RG_EXIT_USAGE)
        rg_shown_printf(&text, "Try 'reigen %s%s--help'.\n", command ? command : "",
                        command ? " " : "");
    rg_say_exact(rg_buf_status(&text) < 0 ? "reigen: out of memory\n" : rg_buf_text(&text));
    return code;
}

int rg_fail_usage(const char *command, const char *fmt, ...)
{
    struct rg_error err = { .errnum = EINVAL, .exit_code = RG_EXIT_USAGE };
    va_list args;

    va_start(args, fmt);
    vsnprintf(err.text, sizeof err.text, fmt, args);
    va_end(args);
    return rg_fail(&err, command);
}

int rg_print(const char *text)
{
    rg_autobuf struct rg_buf shown = RG_BUF_INIT;

    rg_shown_put(&shown, text, strlen(text));
    return rg_print_exact(rg_buf_text(&shown));
}

int rg_print_exact(const char *text)
{
    int rc = rg_write_all(1, text, strlen(text));

    if (rc == 0 || rc == -EPIPE)
        return 0;
    rg_say("cannot write to standard output: %s", rc == -EBADF ? "it is closed" : strerror(-rc));
    return RG_EXIT_OUTPUT_LOST;
}

int rg_print_to(const char *path, const struct rg_buf *text, const char *command)
{
    struct rg_error err = RG_ERROR_INIT;
    int fd = rg_open_to_write(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int r = fd < 0 ? fd : rg_write_all(fd, rg_buf_bytes(text), rg_buf_nbytes(text));

    if (fd >= 0 && close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0)
        return 0;
    rg_error_set(&err, -r, "%s: cannot write it: %s", path,
                 fd < 0 ? rg_open_to_write_why(fd) : strerror(-r));
    return rg_fail(&err, command);
}
