/* SPDX-License-Identifier: Apache-2.0 */
/* reigen man: the pages without man and without files, as a wheel or an image may have neither. It
 * reads what tools/manual.py writes, and no more of man(7) than that. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/str.h"
#include "head/console/args.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"
#include "cmd/help/help.h"
#include "cmd/help/texts.h"

#define PAGES_MAX 64
#define BODY 7    /* where text begins */
#define DEEPER 14 /* where the text of an entry begins */

struct page {
    struct rg_buf *text;
    int columns;
    bool bold;
    int indent;    /* of the lines to come */
    int used;      /* columns of the line that is being filled; 0: none */
    bool as_it_is; /* .nf */
    bool tag;      /* the next line is an entry's left side */
};

static void end_line(struct page *page)
{
    if (page->used)
        rg_buf_printf(page->text, "\n");
    page->used = 0;
}

static void blank_line(struct page *page)
{
    end_line(page);
    rg_buf_printf(page->text, "\n");
}

/* The columns that source takes; its text, without what troff needs, goes into plain. */
static int unescape(const char *source, size_t nbytes, struct rg_buf *plain)
{
    int width = 0;

    for (size_t i = 0; i < nbytes; i++) {
        char c = source[i];
        if (c == '\\' && i + 1 < nbytes) {
            c = source[++i];
            if (c == '&')
                continue;
            c = c == 'e' ? '\\' : c;
        }
        rg_buf_put(plain, &c, 1);
        width += (c & 0xc0) != 0x80;
    }
    return width;
}

/* bold_nbytes: of the word's source are bold. */
static void put_word(struct page *page, const char *word, size_t nbytes, size_t bold_nbytes)
{
    rg_autobuf struct rg_buf first = RG_BUF_INIT, rest = RG_BUF_INIT;
    int width = unescape(word, bold_nbytes, &first) +
                unescape(word + bold_nbytes, nbytes - bold_nbytes, &rest);
    bool bold = page->bold && bold_nbytes;

    if (page->used && page->used + 1 + width > page->columns)
        end_line(page);
    if (!page->used)
        rg_buf_printf(page->text, "%*s", page->indent, "");
    else
        rg_buf_printf(page->text, " ");
    rg_buf_printf(page->text, "%s%s%s%s", bold ? "\033[1m" : "", rg_buf_text(&first),
                  bold ? "\033[0m" : "", rg_buf_text(&rest));
    page->used = (page->used ? page->used + 1 : page->indent) + width;
}

static void put_words(struct page *page, const char *words, size_t nbytes, bool bold)
{
    for (const char *p = words, *end = words + nbytes; p < end;) {
        size_t n = 0;
        while (p + n < end && p[n] != ' ')
            n++;
        if (n)
            put_word(page, p, n, bold ? n : 0);
        p += n + 1;
    }
}

/* "name (1)," of .BR is one word: the name is bold, and the rest sticks to it. */
static void put_reference(struct page *page, const char *words, size_t nbytes)
{
    const char *blank = memchr(words, ' ', nbytes);
    size_t name = blank ? (size_t) (blank - words) : nbytes;
    rg_autobuf struct rg_buf word = RG_BUF_INIT;

    rg_buf_put(&word, words, name);
    if (blank)
        rg_buf_put(&word, blank + 1, nbytes - name - 1);
    put_word(page, rg_buf_text(&word), strlen(rg_buf_text(&word)), name);
}

static void put_heading(struct page *page, const char *words, size_t nbytes, int indent)
{
    blank_line(page);
    page->indent = indent;
    if (nbytes > 1 && *words == '"')
        words++, nbytes -= 2;
    put_words(page, words, nbytes, true);
    end_line(page);
    page->indent = BODY;
}

/* .TH "name" "1" ...: name(1) in both corners, and ours between them. */
static void put_title(struct page *page, const char *words, size_t nbytes)
{
    rg_autofree char *line = strndup(words, nbytes);
    rg_autobuf struct rg_buf name = RG_BUF_INIT;
    char *save = NULL;
    const char *first = line ? strtok_r(line, "\" ", &save) : NULL;
    const char *section = first ? strtok_r(NULL, "\" ", &save) : NULL;

    if (!section)
        return;
    unescape(first, strlen(first), &name);
    int width = (int) (strlen(rg_buf_text(&name)) + strlen(section)) + 2;
    int gap = (page->columns - 2 * width - 6) / 2;

    rg_buf_printf(page->text, "%s(%s)%*sReigen%*s%s(%s)\n", rg_buf_text(&name), section,
                  gap > 1 ? gap : 1, "", gap > 1 ? gap : 1, "", rg_buf_text(&name), section);
}

static bool is_macro(const char *line, size_t nbytes, const char *macro)
{
    size_t n = strlen(macro);

    return nbytes >= n && strncmp(line, macro, n) == 0 && (nbytes == n || line[n] == ' ');
}

static void begin_entry(struct page *page)
{
    blank_line(page);
    page->tag = true;
    page->indent = BODY;
}

/* A line that begins with a dot. */
static void put_request(struct page *page, const char *line, size_t nbytes)
{
    const char *blank = memchr(line, ' ', nbytes);
    const char *words = blank ? blank + 1 : line + nbytes;
    size_t n = (size_t) (line + nbytes - words);

    if (is_macro(line, nbytes, ".TH"))
        put_title(page, words, n);
    else if (is_macro(line, nbytes, ".SH"))
        put_heading(page, words, n, 0);
    else if (is_macro(line, nbytes, ".SS"))
        put_heading(page, words, n, BODY / 2);
    else if (is_macro(line, nbytes, ".PP"))
        blank_line(page), page->indent = BODY;
    else if (is_macro(line, nbytes, ".TP"))
        begin_entry(page);
    else if (is_macro(line, nbytes, ".br"))
        end_line(page);
    else if (is_macro(line, nbytes, ".nf") || is_macro(line, nbytes, ".fi"))
        end_line(page), page->as_it_is = line[1] == 'n';
    else if (is_macro(line, nbytes, ".BR"))
        put_reference(page, words, n);
    else
        put_words(page, words, n, is_macro(line, nbytes, ".B"));
}

static void put_as_it_is(struct page *page, const char *line, size_t nbytes)
{
    rg_autobuf struct rg_buf plain = RG_BUF_INIT;

    unescape(line, nbytes, &plain);
    rg_buf_printf(page->text, "%*s%s\n", page->indent, "", rg_buf_text(&plain));
}

/* A page of ours (man(7)) as text for a terminal of so many columns; bold: headings and names are,
 * by escape sequences. */
static void print_page(struct rg_buf *text, const char *source, int columns, bool bold)
{
    struct page page = { .text = text, .columns = columns, .bold = bold, .indent = BODY };

    for (const char *p = source; *p;) {
        size_t n = strcspn(p, "\n");
        bool entry = page.tag;
        if (*p == '.')
            put_request(&page, p, n);
        else if (page.as_it_is)
            put_as_it_is(&page, p, n);
        else
            put_words(&page, p, n, false);
        if (entry) {
            end_line(&page);
            page.tag = false;
            page.indent = DEEPER;
        }
        p += n + (p[n] == '\n');
    }
    end_line(&page);
}

/* --- the command ------------------------------------------------------------------------------ */

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
        return rg_print_exact(page);
    print_page(&shown, page, rg_terminal_columns(1), rg_terminal_colour(1));
    if (isatty(1) && show(rg_buf_text(&shown)) == 0)
        return 0;
    return rg_print_exact(rg_buf_text(&shown));
}
