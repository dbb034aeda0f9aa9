/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of the small commands (jobs, stop, logs, status, explain, man and the like): a few
 * options, which may stand anywhere, and some operands. What a command does not know is refused, by
 * name, with the nearest that it knows. The commands that start jobs have tables of their own
 * (job/options/options.h, job/horovodrun/horovodrun.h, struct rg_script).
 *
 * Thread rule: main thread; prints to standard error.
 */
#ifndef RG_HEAD_CONSOLE_ARGS_H
#define RG_HEAD_CONSOLE_ARGS_H

#include <stdbool.h>

/* Either flag or value is set. */
struct rg_arg {
    const char *name;   /* "follow"; ends the table when NULL */
    char letter;        /* 'f'; 0: none */
    const char *what;   /* what the value is called, "R"; NULL: a flag */
    bool *flag;         /* set to true */
    const char **value; /* borrowed from argv */
};

/* Take the options out of argv[1..], which keeps the operands, terminated by NULL; "--" ends the
 * options. Both dashes or one are fine, and NAME=VALUE. Returns the number of operands; or
 * -1 - CODE, and the command returns that CODE: RG_COMMAND_HELP where help was asked for, or an
 * exit code where an error was told: an unknown option, a missing value, more than max operands. */
int rg_args_parse(int argc, char **argv, const struct rg_arg *args, int max);

/* "; did you mean WORD?", or "" where none of the words (NULL-terminated) is near. Into buf, which
 * is returned. */
const char *rg_args_guess(const char *word, const char *const *words, char buf[96]);

#endif
