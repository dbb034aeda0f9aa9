/* SPDX-License-Identifier: Apache-2.0 */
/* reigen explain: a code is all that a batch system's log may have kept of a job. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "cmd/common/args.h"
#include "cmd/common/exit.h"
#include "cmd/common/terminal.h"
#include "cmd/common/words.h"
#include "cmd/help/help.h"
#include "base/exitcode.h"

static void explain_one(int code, struct rg_buf *text)
{
    const struct rg_exit_info *info = rg_exit_find(code);

    rg_buf_printf(text, "%d (%s)", code, rg_exit_name(code));
    if (info->code == RG_EXIT_SIGNAL && code > RG_EXIT_SIGNAL)
        rg_buf_printf(text, ": signal %d, %s", code - RG_EXIT_SIGNAL,
                      strsignal(code - RG_EXIT_SIGNAL));
    rg_buf_printf(text, "\n\n");
    rg_wrap(text, info->meaning, 4, rg_terminal_columns(1));
    rg_wrap(text, info->remedy, 4, rg_terminal_columns(1));
    if (info->retry)
        rg_wrap(text, "Trying again, unchanged, may help.", 4, rg_terminal_columns(1));
}

static void explain_all(struct rg_buf *text)
{
    size_t count;
    const struct rg_exit_info *table = rg_exit_table(&count);

    for (size_t i = 0; i < count; i++) {
        char code[16];
        snprintf(code, sizeof code, table[i].code == RG_EXIT_SIGNAL ? "128+n" : "%d",
                 table[i].code);
        rg_buf_printf(text, "%-6s %-15s %s\n", code, rg_exit_name(table[i].code),
                      table[i].meaning);
    }
    rg_buf_printf(text, "Any other code is a rank's own. reigen explain CODE says what to do.\n");
}

int rg_cmd_explain(int argc, char **argv)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int64_t code;

    int n = rg_args_parse(argc, argv, &(struct rg_arg){ NULL }, 1);

    if (n < 0)
        return -1 - n;
    if (n && rg_parse_int("CODE", argv[1], 0, 255, &code, NULL) < 0)
        return rg_fail_usage("explain", "explain %s: an exit code is a number from 0 to 255",
                             argv[1]);
    if (n)
        explain_one((int) code, &text);
    else
        explain_all(&text);
    return rg_print(rg_buf_text(&text));
}
