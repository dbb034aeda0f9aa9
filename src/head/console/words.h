/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words as people and shells read them. Each function appends to text; out of memory shows in
 * rg_buf_status. Any thread.
 */
#ifndef RG_HEAD_CONSOLE_WORDS_H
#define RG_HEAD_CONSOLE_WORDS_H

#include "base/buf.h"
#include "base/str.h"

/* Wrap words, as a terminal may get them (base/say.h), to columns, each line indented; ends with
 * a newline. */
void rg_wrap(struct rg_buf *text, const char *words, int indent, int columns);
/* A row of a help text: left, and right wrapped from column width on; a left that is too long has a
 * line of its own. */
void rg_put_row(struct rg_buf *text, const char *left, const char *right, int width, int columns);

/* How many columns it takes: a character of UTF-8 is taken for one. */
int rg_width(const char *text);
/* As much of a line as fits into width columns (4 and more), as a terminal may get it, and "..."
 * where that is not all: before the last nlast characters, which are fewer than width - 3. */
void rg_put_cut(struct rg_buf *text, const char *value, int width, int nlast);

/* One word of a POSIX shell, in quotes only where it needs them. */
void rg_shell_quote(struct rg_buf *text, const char *word);
/* All of them, each with a blank in front. */
void rg_shell_words(struct rg_buf *text, const struct rg_strv *words);

#endif
