/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands that are also installed under the name of a script that they replace: srun-docker
 * (srun_docker.sh), run-dock-asuser (run_dock_asuser.sh) and sshconfig (create_mpisshconfig.sh).
 *
 * Each has an option table of its own. This is the one view of all three from which --help, the
 * man pages and the shells' completion are made, under both names of the command, so that none of
 * them can lack an option.
 *
 * Thread rule: constant tables; main thread. Nothing blocks. The functions that print append to
 * text; out of memory shows in rg_buf_status.
 */
#ifndef RG_CMD_COMPAT_SCRIPTS_H
#define RG_CMD_COMPAT_SCRIPTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Strings are the tables'. */
struct rg_script_option {
    const char *name;      /* without its two dashes */
    const char *arg;       /* what the value is called; ends in ",..." for a list; NULL: no value */
    bool optional;         /* only --name=value takes it */
    const char *completes; /* as in struct rg_option */
    const char *help;      /* one or more sentences */
};

struct rg_script {
    const char *command;  /* reigen's: "srun-docker" */
    const char *name;     /* the script's: "srun_docker.sh" */
    const char *page;     /* the man page: "reigen-srun-docker" */
    const char *under;    /* what stands in front of it on a command line: "srun ", or "" */
    const char *usage;    /* what follows the name there */
    const char *summary;  /* a few words, without a full stop */
    const char *about;    /* one paragraph */
    const char *status;   /* its exit codes, one paragraph */
    const char *examples; /* lines, each ending with a newline */
    bool operands;        /* takes arguments that are no options */
    /* Option number i, in the order of --help; false behind the last one. */
    bool (*option)(size_t i, struct rg_script_option *ret_option);
};

/* Ends with a NULL command. */
extern const struct rg_script rg_scripts[];

/* The one of this name, reigen's or the script's, or of this page; NULL: none. */
const struct rg_script *rg_script_find(const char *name);

/* "--name=ARG", "--name[=ARG]" or "--name". */
void rg_script_option_print(struct rg_buf *text, const struct rg_script_option *option);

/* Print the script's --help to standard output; the exit code. command: reigen's name of it. */
int rg_script_help(const char *command);

/* The option whose name a word on the command line nearly has ("--daemn", "--hots=x"); NULL: none
 * is near. */
const char *rg_script_nearest(const char *command, const char *word);

#endif
