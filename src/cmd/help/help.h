/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts for people: --help, what exit codes mean, the man pages and completion (texts.h).
 *
 * The rg_help functions append to text; out of memory shows in rg_buf_status. Main thread; nothing
 * blocks but a pager.
 */
#ifndef RG_CMD_HELP_HELP_H
#define RG_CMD_HELP_HELP_H

#include "base/buf.h"
#include "head/console/command.h"
#include "job/horovodrun/horovodrun.h"
#include "job/options/options.h"

/* `reigen help [COMMAND [TOPIC]|all]` out of a table that ends with a NULL name. The exit code. */
int rg_help(const struct rg_command *commands, int argc, char **argv);

/* As struct rg_command says of run. */
int rg_cmd_explain(int argc, char **argv);
int rg_cmd_man(int argc, char **argv);
int rg_cmd_completion(int argc, char **argv);

/* Without arguments: the common commands, and the names of the others. And reigen help all. */
void rg_help_reigen(struct rg_buf *text, int columns, const struct rg_command *commands);
void rg_help_all(struct rg_buf *text, int columns, const struct rg_command *commands);
/* What a command does, in a few words. */
const char *rg_command_brief(const struct rg_command *command);
/* reigen run --help [TOPIC]. topic: a name, "all", or NULL for what people use most. -ENOENT: there
 * is no such topic, and text is untouched; else 0. */
int rg_help_run(struct rg_buf *text, int columns, const char *topic);
/* Whether the word is such a topic, or nearly one. */
bool rg_help_topic_is_near(const char *word);
/* --help of a command that has a script. */
void rg_help_script(struct rg_buf *text, int columns, const struct rg_command *command);

/* A flag of horovodrun as an option, for rg_option_print; the strings are the table's. */
struct rg_option rg_hvd_as_option(const struct rg_hvd_option *flag);
/* "-np N" or "--env NAME[=VALUE]": how an option is shown; a name of one or two letters has one
 * dash. */
void rg_option_print(struct rg_buf *text, const struct rg_option *option);
const char *rg_option_dashes(const char *name);
/* "--name=ARG", "--name[=ARG]" or "--name". */
void rg_script_option_print(struct rg_buf *text, const struct rg_script_option *option);

#endif
