/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The man pages and the shells' completion. tools/texts.py makes them while reigen is built, out
 * of the tables that src/cmd/tables.c prints, and puts them into the program. Constant data; any
 * thread.
 */
#ifndef RG_CMD_HELP_TEXTS_H
#define RG_CMD_HELP_TEXTS_H

struct rg_text {
    const char *name; /* of a page "reigen-run", of a shell "bash" */
    const char *also; /* a script's name that means the same page; "": none */
    const char *text; /* a page in man(7), or the shell's script */
};

/* Both end with a NULL name. */
extern const struct rg_text rg_manual_pages[];
extern const struct rg_text rg_completions[];

#endif
