/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of reigen rsh, a word per line, and a command that is split without a shell: what
 * is taken is whole, a refusal has a reason, and what was split survives being quoted and split
 * again.
 */
#include "agent/rsh/rshargs.h"
#include "base/buf.h"
#include "fuzz.h"

#define WORDS_MAX 64

static void try_arguments(char *text)
{
    struct rg_rsh_args args = RG_RSH_ARGS_INIT;
    struct rg_error err = RG_ERROR_INIT;
    char *argv[WORDS_MAX + 2] = { (char *) "rsh" };
    int argc = 1;

    for (char *word = strtok(text, "\n"); word && argc <= WORDS_MAX; word = strtok(NULL, "\n"))
        argv[argc++] = word;
    if (rg_rsh_parse(argc, argv, &args, &err) < 0) {
        must(*err.text != '\0' && !args.host && !args.command);
        return;
    }
    must(args.version || (args.host && *args.host && args.command));
    must(!args.background || args.no_input);
    rg_rsh_args_fini(&args);
}

static void try_command(const char *text)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT, again = RG_STRV_INIT;
    rg_autobuf struct rg_buf quoted = RG_BUF_INIT;

    if (rg_rsh_split(text, &words) < 0) {
        must(!words.count);
        return;
    }
    for (size_t i = 0; i < words.count; i++) {
        rg_buf_put(&quoted, " ", 1);
        for (const char *p = words.v[i]; *p; p++) {
            if (*p == '\'')
                rg_buf_put(&quoted, "\"'\"", 3);
            else
                rg_buf_printf(&quoted, "'%c'", *p);
        }
        rg_buf_put(&quoted, "''", 2);
    }
    must(rg_rsh_split(rg_buf_text(&quoted), &again) == 0 && again.count == words.count);
    for (size_t i = 0; i < words.count; i++)
        must(strcmp(words.v[i], again.v[i]) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static char text[4097];

    try_command(text_of(data, nbytes, text, sizeof(text)));
    try_arguments(text);
    return 0;
}
