/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command of reigen is. Each is one function in its folder's header and one line of the
 * table in cmd/commands.c, from which `reigen help`, the man pages and the shells' completion are
 * made.
 *
 * A command with many options has a struct rg_script: its words, and one view of its option table,
 * so that no text can lack an option. So has a command that is also installed under the name of a
 * script that it replaces.
 *
 * Thread rule: constant tables. A run function is called by the main thread; it gets the name by
 * which it was called as argv[0], prints, and returns the exit code, or RG_COMMAND_HELP.
 */
#ifndef RG_HEAD_CONSOLE_COMMAND_H
#define RG_HEAD_CONSOLE_COMMAND_H

#include <stdbool.h>

#define RG_COMMANDS_MAX 64
#define RG_COMMAND_HELP 256 /* no exit code: the caller prints the command's help and ends with 0 */

struct rg_script_option; /* job/options/member.h */

struct rg_script {
    const char *name;     /* the script's: "srun_docker.sh"; NULL: it stands in for none */
    const char *under;    /* what stands in front of it on a command line: "srun ", or "" */
    const char *usage;    /* what follows the name there */
    const char *summary;  /* a few words, without a full stop */
    const char *about;    /* one paragraph */
    const char *status;   /* its exit codes, one paragraph */
    const char *examples; /* lines, each ending with a newline */
    bool operands;        /* takes arguments that are no options */
    const struct rg_script_option *options; /* in the order of --help */
};

/* A line of the help of commands with few options. */
struct rg_command_option {
    const char *left, *help; /* "--namespace NAME", and sentences; both NULL end a table */
};

struct rg_command {
    const char *name;
    const char *args;      /* "CODE" */
    const char *completes; /* as in struct rg_option */
    const char *summary;   /* one or more sentences */
    int (*run)(int argc, char **argv);
    const struct rg_script *script; /* NULL: it has few options, or none */
    const char *brief; /* a few words, without a full stop; NULL: its script's summary */
    bool common;       /* the first screen of help has them */
    bool run_options;  /* it takes those of reigen run, too, by topics */
    const struct rg_command_option *options; /* of its own, or NULL */
    const struct rg_command_option *shared; /* that other commands have, too, or NULL */
};

#endif
