/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text as a POSIX shell takes it apart: blanks and newlines separate words, quotes and
 * backslashes keep them together. Nothing is expanded: a dollar is a dollar.
 *
 * Thread rule: no state; any thread. Nothing blocks.
 */
#ifndef RG_JOB_SHELLWORDS_H
#define RG_JOB_SHELLWORDS_H

#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

/* Append the words of text, at most max of them in all. what names the text in errors. 0; -EINVAL:
 * a quote is open, or there are more; -ENOMEM, with err. Some words may have been added then. */
int rg_shell_split(const char *what, const char *text, size_t max, struct rg_strv *words,
                   struct rg_error *err);

#endif
