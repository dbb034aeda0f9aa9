/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments are ssh's, since those who call it believe it to be ssh:
 *
 *     rsh [options] [user@]HOST [options] [--] [COMMAND...]
 *
 * Options of ssh that say how to get there (-p, -i, -o, -l, -x, -q, ...) are taken and mean
 * nothing: the way is there. Those that ask for more than a command (-L, -R, -D, -N, ...) are
 * refused, as is what ssh does not know.
 *
 * Thread rule: any thread; nothing blocks.
 */
#ifndef RG_AGENT_RSH_RSHARGS_H
#define RG_AGENT_RSH_RSHARGS_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"

struct rg_rsh_args {
    const char *host;  /* borrowed from argv */
    char *user;        /* of user@ or -l; NULL: none was named; owned */
    char *command;     /* joined with blanks; "": none was given; owned */
    bool no_input;     /* -n, -f */
    bool background;   /* -f */
    bool version;      /* -V: nothing else is set */
};

#define RG_RSH_ARGS_INIT { NULL, NULL, NULL, false, false, false }

/* argv[0] is the program's name. 0; -EINVAL with the option and the remedy; -ENOMEM. */
int rg_rsh_parse(int argc, char *const *argv, struct rg_rsh_args *ret_args, struct rg_error *err);
void rg_rsh_args_fini(struct rg_rsh_args *args);

/* The words of a command that needs no shell: blanks, quotes and backslashes only, as a shell takes
 * them. 0 with at least one word; -EINVAL when a shell would be needed, nothing is there, or a
 * quote is open; -ENOMEM. */
int rg_rsh_split(const char *command, struct rg_strv *ret_words);

#endif
