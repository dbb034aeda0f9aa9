/* SPDX-License-Identifier: Apache-2.0 */
/* API v1 loses line breaks, so a script has to become one line. That is done for lines that are
 * whole commands each; of any other it is said that somebody has to do it by hand. */
#include <string.h>

#include "platform/openpai/jobfile/pai_internal.h"

/* What one line is about outside of quotes, so that another one may follow it. */
struct seen {
    int parens, braces;
    bool here_document;
};

/* Whether what begins at p, outside of quotes, is a comment up to the end of its line. */
static bool is_comment(const char *text, const char *p)
{
    return *p == '#' && (p == text || strchr(" \t\r\n;&|()", p[-1]));
}

bool rg_pai_ends_in_comment(const char *text)
{
    char quote = 0;

    for (const char *p = text; *p; p++) {
        if (!quote && is_comment(text, p)) {
            p += strcspn(p, "\n");
            if (!*p)
                return true;
        } else if (*p == '\\' && quote != '\'' && p[1]) {
            p++;
        } else if (*p == '\'' || *p == '"') {
            quote = quote == *p ? 0 : quote ? quote : *p;
        }
    }
    return false;
}

/* Take the text apart at line breaks outside of quotes; a backslash at an end takes it away.
 * Comments are left out. */
static int split(const char *text, struct rg_strv *lines)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;
    char quote = 0;

    for (const char *p = text;; p++) {
        if (!quote && is_comment(text, p))
            p += strcspn(p, "\n");
        bool carriage = p[0] == '\r' && p[1] == '\n';
        if ((quote && (*p == '\n' || !*p)) || (*p == '\r' && !carriage))
            return -EINVAL;
        if (carriage)
            continue;
        if (*p == '\n' || !*p) {
            const char *words = rg_buf_text(&line);
            if (rg_strv_add(lines, words + strspn(words, " \t")) < 0)
                return -ENOMEM;
            rg_buf_clear(&line);
            if (!*p)
                return 0;
            continue;
        }
        if (*p == '\\' && quote != '\'' && p[1]) {
            p++;
            if (*p != '\n')
                rg_buf_printf(&line, "\\%c", *p);
            continue;
        }
        if (*p == '\'' || *p == '"')
            quote = quote == *p ? 0 : quote ? quote : *p;
        rg_buf_put_u8(&line, (uint8_t) *p);
    }
}

static struct seen look(const char *line)
{
    struct seen seen = { 0 };
    char quote = 0;

    for (const char *p = line; *p; p++) {
        if (*p == '\\' && quote != '\'' && p[1]) {
            p++;
        } else if (!quote && rg_str_starts(p, "<<<")) {
            p += 2;
        } else if (*p == '\'' || *p == '"') {
            quote = quote == *p ? 0 : quote ? quote : *p;
        } else if (!quote) {
            seen.parens += (*p == '(') - (*p == ')');
            seen.braces += (*p == '{') - (*p == '}');
            seen.here_document |= p[0] == '<' && p[1] == '<';
        }
    }
    return seen;
}

/* Whether a line is a command of its own, whatever the next one is. */
static bool is_whole(const char *line)
{
    static const char begins[] = "if for while until case select";
    static const char within[] = "then else elif do done fi esac } ) function { &&";
    static const char ends[] = "fi done esac";
    char first[16], last[16] = "";
    size_t n = strlen(line), at = n;
    struct seen seen = look(line);

    rg_str_word(line, first, sizeof first);
    while (at && !strchr(" \t;", line[at - 1]))
        at--;
    rg_str_word(line + at, last, sizeof last);
    if (seen.parens || seen.braces || seen.here_document ||
        rg_str_has_word(within, first))
        return false;
    if (rg_str_has_word(begins, first) && !rg_str_has_word(ends, last))
        return false;
    return line[n - 1] != '|' && (n < 2 || strcmp(line + n - 2, "&&") != 0) &&
           !rg_str_has_word("do then else !", last);
}

int rg_pai_one_line(const char *text, char **ret_line)
{
    rg_autostrv struct rg_strv lines = RG_STRV_INIT;
    rg_autobuf struct rg_buf all = RG_BUF_INIT;

    *ret_line = NULL;
    int r = strpbrk(text, "\r\n") ? split(text, &lines) : rg_strv_add(&lines, text);
    bool alone = lines.count == 1;

    for (size_t i = 0; r == 0 && i < lines.count; i++) {
        char *line = lines.v[i];
        size_t n = strlen(line);
        while (!alone && n && strchr(" \t", line[n - 1]))
            line[--n] = '\0';
        if (!alone && !n)
            continue;
        if (!alone && !is_whole(line)) {
            *ret_line = strdup(line);
            return *ret_line ? -EINVAL : -ENOMEM;
        }
        size_t before = rg_buf_nbytes(&all);
        char end = before ? rg_buf_text(&all)[before - 1] : ' ';
        rg_buf_printf(&all, "%s%s", !before ? "" : strchr(";&", end) ? " " : "; ", line);
    }
    if (r == -EINVAL)
        *ret_line = strdup("");
    if (r < 0)
        return r == -EINVAL && !*ret_line ? -ENOMEM : r;
    char *line = strdup(rg_buf_text(&all));
    if (!line || rg_buf_status(&all) < 0) {
        free(line);
        return -ENOMEM;
    }
    *ret_line = line;
    return *line ? 0 : -EINVAL;
}
