/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one way a command ends with an error: print it to standard error, as "reigen: ...", and find
 * the exit code. Main thread.
 */
#ifndef RG_HEAD_CONSOLE_EXIT_H
#define RG_HEAD_CONSOLE_EXIT_H

#include "base/buf.h"
#include "base/error.h"

/* Print "reigen: <text>", and after a usage error (2) where help is to be had, for the command
 * of this name (NULL: reigen itself). Returns the exit code: err's own, or derived from its errno
 * (EINVAL and the like 2, EACCES 77, ENOSPC 74, otherwise 70). */
int rg_fail(const struct rg_error *err, const char *command);

/* A usage error with this text. Prints it and returns 2. */
int rg_fail_usage(const char *command, const char *fmt, ...) rg_printf(2, 3);

/* Print text to standard output, whole. 0, or 74 with a message when it cannot be written (0 when
 * the reader just went away). It is for a person, and what would steer a terminal is shown instead
 * (base/say.h). */
int rg_print(const char *text);
/* The same as it is: a document, or what has colours, and was therefore composed by
 * rg_shown_printf. */
int rg_print_exact(const char *text);
/* Likewise to the file that an option of a command names, which is made or replaced. Returns 0, or
 * the exit code after a message for that command, as rg_fail. */
int rg_print_to(const char *path, const struct rg_buf *text, const char *command);

#endif
