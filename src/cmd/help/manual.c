/* SPDX-License-Identifier: Apache-2.0 */
/* reigen man: the pages without man and without files, as a wheel or an image may have neither. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/str.h"
#include "cmd/common/args.h"
#include "cmd/common/exit.h"
#include "cmd/common/terminal.h"
#include "cmd/help/help.h"
#include "cmd/help/texts.h"

#define PAGES_MAX 64

/* "run" and "reigen-run" mean the same page. */
static const char *find(const char *asked)
{
    for (const struct rg_text *p = rg_manual_pages; p->name; p++)
        if (strcmp(p->name, asked) == 0 || (*p->also && strcmp(p->also, asked) == 0) ||
            (rg_str_starts(p->name, "reigen-") && strcmp(p->name + strlen("reigen-"), asked) == 0))
            return p->text;
    return NULL;
}

static int no_page(const char *name)
{
    const char *pages[PAGES_MAX];
    char guess[96];
    size_t n = 0;
    rg_autobuf struct rg_buf names = RG_BUF_INIT;

    for (const struct rg_text *p = rg_manual_pages; p->name && n + 1 < PAGES_MAX; p++) {
        pages[n++] = p->name;
        rg_buf_printf(&names, "%s%s", n == 1 ? "" : p[1].name ? ", " : " or ", p->name);
    }
    pages[n] = NULL;
    return rg_fail_usage("man", "man %.80s: no such page; give %s%s", name,
                         rg_buf_text(&names), rg_args_guess(name, pages, guess));
}

/* 0, or -errno where no pager could be started. */
static int show(const char *text)
{
    static const char pager[] =
        "pager=${MANPAGER:-${PAGER:-$(command -v less || command -v more || echo cat)}}; "
        "LESS=${LESS--FRX}; export LESS; eval \"exec $pager\"";
    FILE *f = popen(pager, "we");

    if (!f)
        return -errno;
    /* Who has read enough hangs up. */
    fputs(text, f);
    int status = pclose(f);

    return WIFEXITED(status) && WEXITSTATUS(status) >= 126 ? -ENOENT : 0;
}

int rg_cmd_man(int argc, char **argv)
{
    rg_autobuf struct rg_buf shown = RG_BUF_INIT;
    bool roff = false;
    const struct rg_arg args[] = { { .name = "roff", .flag = &roff }, { NULL } };
    int n = rg_args_parse(argc, argv, args, 1);

    if (n < 0)
        return -1 - n;
    const char *page = find(n ? argv[1] : "reigen");

    if (!page)
        return no_page(argv[1]);
    if (roff)
        return rg_print(page);
    rg_manual_text(&shown, page, rg_terminal_columns(1), rg_terminal_colour(1));
    if (isatty(1) && show(rg_buf_text(&shown)) == 0)
        return 0;
    return rg_print(rg_buf_text(&shown));
}
