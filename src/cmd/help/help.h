/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts made from the tables: --help, man pages (manual.c), completion (completion.c).
 *
 * Each function appends to text; out of memory shows in rg_buf_status. Main thread; nothing blocks.
 */
#ifndef RG_CMD_HELP_HELP_H
#define RG_CMD_HELP_HELP_H

#include "base/buf.h"
#include "cmd/compat/scripts.h"
#include "spec/horovodrun/horovodrun.h"
#include "spec/options/options.h"

/* Columns to wrap at: the terminal's where standard output is one, else 80. */
int rg_help_columns(void);
/* Wrap words to columns, each line indented; ends with a newline. */
void rg_wrap(struct rg_buf *text, const char *words, int indent, int columns);

void rg_help_reigen(struct rg_buf *text, int columns); /* reigen --help */
void rg_help_run(struct rg_buf *text, int columns);    /* reigen run --help */

void rg_help_horovodrun(struct rg_buf *text, int columns); /* horovodrun --help */

/* reigen srun-docker --help, and those of the other commands in rg_scripts. */
void rg_help_script(struct rg_buf *text, int columns, const struct rg_script *script);

/* A flag of horovodrun as an option, for the functions below; the strings are the table's. */
struct rg_option rg_hvd_as_option(const struct rg_hvd_option *flag);
/* "-np N" or "--env NAME[=VALUE]": how an option is shown; a name of one or two letters has one
 * dash. */
void rg_option_print(struct rg_buf *text, const struct rg_option *option);
const char *rg_option_dashes(const char *name);

/* A man page in man(7), by its name in rg_manual_pages, or of a command in rg_scripts by any of its
 * names. 0, or -ENOENT for another name. */
int rg_manual_print(struct rg_buf *text, const char *page);
extern const char *const rg_manual_pages[]; /* NULL-terminated */

/* A completion script for bash, zsh or fish. 0, or -ENOENT for another shell. */
int rg_completion_print(struct rg_buf *text, const char *shell);

#endif
