/* SPDX-License-Identifier: Apache-2.0 */
/* Help, verdicts and findings are wrapped to the terminal, and command lines that a person may copy
 * are quoted, by the same few rules. */
#include "head/console/words.h"
#include "base/say.h"

#include <string.h>


void rg_wrap(struct rg_buf *text, const char *words, int indent, int columns)
{
    int at = 0;

    for (const char *p = words; *p;) {
        int n = (int) strcspn(p, " ");
        if (at && at + 1 + n > columns) {
            rg_buf_printf(text, "\n");
            at = 0;
        }
        if (!at)
            rg_shown_printf(text, "%*s%.*s", indent, "", n, p);
        else
            rg_shown_printf(text, " %.*s", n, p);
        at += at ? 1 + n : indent + n;
        p += n;
        p += strspn(p, " ");
    }
    rg_buf_printf(text, "\n");
}

void rg_shell_quote(struct rg_buf *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:,@%+";

    if (*word && word[strspn(word, plain)] == '\0') {
        rg_buf_printf(text, "%s", word);
        return;
    }
    rg_buf_put(text, "'", 1);
    for (const char *p = word; *p; p++) {
        if (*p == '\'')
            rg_buf_put(text, "'\\''", 4);
        else
            rg_buf_put(text, p, 1);
    }
    rg_buf_put(text, "'", 1);
}

void rg_shell_words(struct rg_buf *text, const struct rg_strv *words)
{
    for (size_t i = 0; i < words->count; i++) {
        rg_buf_put(text, " ", 1);
        rg_shell_quote(text, words->v[i]);
    }
}

int rg_width(const char *text)
{
    int width = 0;

    for (; *text; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

/* Where the first so many characters end. */
static const char *after(const char *text, int width)
{
    for (; *text; text++) {
        if ((*text & 0xc0) != 0x80 && width-- == 0)
            break;
    }
    return text;
}

void rg_put_cut(struct rg_buf *text, const char *value, int width, int nlast)
{
    rg_autobuf struct rg_buf shown = RG_BUF_INIT;

    rg_shown_line(&shown, value);
    const char *all = rg_buf_text(&shown);
    int n = rg_width(all);
    if (n <= width)
        rg_shown_printf(text, "%s", all);
    else
        rg_shown_printf(text, "%.*s...%s", (int) (after(all, width - 3 - nlast) - all), all,
                        after(all, n - nlast));
}

void rg_put_row(struct rg_buf *text, const char *left, const char *right, int width, int columns)
{
    rg_autobuf struct rg_buf body = RG_BUF_INIT;
    int n = (int) strlen(left);

    rg_wrap(&body, right, width, columns);
    rg_shown_printf(text, "  %s", left);
    if (n + 4 > width)
        rg_shown_printf(text, "\n%s", rg_buf_text(&body));
    else
        rg_shown_printf(text, "%*s%s", width - 2 - n, "", rg_buf_text(&body) + width);
}
