/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the completion scripts of reigen, of horovodrun and of the commands in rg_scripts share.
 * Only the files completion*.c include it; rg_completion_print (cmd/help/help.h) is the way in.
 *
 * Each function appends to text; out of memory shows in rg_buf_status. Main thread; nothing blocks.
 */
#ifndef RG_CMD_HELP_COMPLETION_H
#define RG_CMD_HELP_COMPLETION_H

#include <stdbool.h>

#include "base/buf.h"
#include "spec/options/options.h"

/* doctor's, beside those of run. */
#define RG_DOCTOR_OWN "--planes --clean"

/* Call fn for the option's name and each alias. */
void rg_completion_each_name(struct rg_buf *text, const struct rg_option *o,
                             void (*fn)(struct rg_buf *text, const char *name,
                                        const struct rg_option *o));

/* One line of _arguments for this name of an option. */
void rg_completion_zsh_option(struct rg_buf *text, const char *name, const struct rg_option *o);
/* Text inside single quotes of sh; zsh's specs also give brackets and colons a meaning. */
void rg_completion_quoted(struct rg_buf *text, const char *words, bool zsh);
/* Words inside fish's single quotes. */
void rg_completion_fish_text(struct rg_buf *text, const char *words);

/* bash's script: all of it, and the lines that horovodrun's part needs for an option: of the
 * function that says what its value is, and in the list of names. */
void rg_completion_bash(struct rg_buf *text);
void rg_completion_bash_kind(struct rg_buf *text, const struct rg_option *o);
void rg_completion_bash_names(struct rg_buf *text, const struct rg_option *o);

/* What the scripts ask for: --hosts (also of the host files in more), --jobs or --interfaces, one
 * word a line. Reads files. 0, or -ENOENT for something else. */
int rg_completion_words(const char *what, char *const *more, struct rg_buf *text);

/* horovodrun's part: for bash and fish whole commands, for zsh the beginning of reigen's function,
 * which is told in $service what is being completed. */
void rg_completion_horovodrun_bash(struct rg_buf *text);
void rg_completion_horovodrun_zsh(struct rg_buf *text);
void rg_completion_horovodrun_fish(struct rg_buf *text);

/* Those of rg_scripts: for each shell a function or lines for each command, which serve both of its
 * names; _in_: the lines of reigen's own function that call them for its commands; _by_name_: for
 * zsh, those that call them for the scripts' names. */
void rg_completion_scripts_bash(struct rg_buf *text);
void rg_completion_scripts_in_bash(struct rg_buf *text);
void rg_completion_scripts_zsh(struct rg_buf *text);
void rg_completion_scripts_in_zsh(struct rg_buf *text);
void rg_completion_scripts_by_name_zsh(struct rg_buf *text);
void rg_completion_scripts_fish(struct rg_buf *text);

#endif
