/* SPDX-License-Identifier: Apache-2.0 */
/* reigen completion: prints a shell's script, or the words that such a script asks for. */
#include <errno.h>
#include <string.h>

#include "cmd/common/args.h"
#include "cmd/common/exit.h"
#include "cmd/help/help.h"
#include "cmd/help/texts.h"

int rg_cmd_completion(int argc, char **argv)
{
    static const char *const shells[] = { "bash", "zsh", "fish", NULL };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char guess[96];
    int n;

    if (argc > 1 && rg_completion_words(argv[1], argv + 2, &text) == 0)
        return rg_print(rg_buf_text(&text));
    n = rg_args_parse(argc, argv, &(struct rg_arg){ NULL }, 1);
    if (n < 0)
        return -1 - n;
    if (n == 0)
        return rg_fail_usage("completion", "completion needs the shell's name: bash, zsh or fish");
    for (const struct rg_text *t = rg_completions; t->name; t++)
        if (strcmp(t->name, argv[1]) == 0)
            return rg_print(t->text);
    return rg_fail_usage("completion", "completion %.80s: give bash, zsh or fish%s", argv[1],
                         rg_args_guess(argv[1], shells, guess));
}
