/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error a person will read. It lives on the caller's stack and owns nothing.
 *
 * A fallible function whose cause matters to a person takes `struct rg_error *err` as its last
 * argument (NULL when the caller does not care), fills it once where the failure is found, and
 * returns a negative errno. Callers on the way up may prepend what they were doing. The text says
 * what failed, with which value, and what to do about it:
 *
 *     return rg_error_set(err, EINVAL, "-np %s: not a number of ranks; give 1 to %d", text, max);
 *
 * `exit_code` is what the program should end with when nothing else decides: 0 means "derive it
 * from errnum" (see head/console/exit.h); a library sets it only where the documented table of exit
 * codes gives the failure a code of its own (69 unavailable, 76 host lost, 124 not ready in time,
 * ...).
 */
#ifndef RG_BASE_ERROR_H
#define RG_BASE_ERROR_H

#include "base/cleanup.h"

#define RG_ERROR_TEXT_MAX 1024

struct rg_error {
    int errnum;                   /* positive errno, 0 while nothing failed */
    int exit_code;                /* 0, or a code of the documented table */
    char text[RG_ERROR_TEXT_MAX]; /* UTF-8, one or more lines, no trailing newline */
};

#define RG_ERROR_INIT { 0, 0, "" }

/* Fill err (which may be NULL) and return -errnum, so that `return rg_error_set(...)` reads well.
 * errnum: positive. A text that is too long is cut at the end, never in a UTF-8 sequence. With
 * EMFILE and ENFILE the remedy is put behind a text that does not name it. */
int rg_error_set(struct rg_error *err, int errnum, const char *fmt, ...) rg_printf(3, 4);

/* The same for -ENOMEM. */
int rg_error_memory(struct rg_error *err);

/* As rg_error_set, with the exit code of the documented table. */
int rg_error_set_exit(struct rg_error *err, int errnum, int exit_code, const char *fmt, ...)
    rg_printf(4, 5);

/* Put "<text>: " in front of what err says; keeps errnum and exit_code. Returns -err->errnum
 * (or -EINVAL when err is NULL). */
int rg_error_prepend(struct rg_error *err, const char *fmt, ...) rg_printf(2, 3);

#endif
