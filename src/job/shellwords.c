/* SPDX-License-Identifier: Apache-2.0 */
/* Options that hold a part of a command line are read as the shell would have read it. */
#include "job/shellwords.h"

#include <stdbool.h>
#include <string.h>

#define BLANKS " \t\r\n"

/* One word from *text on, into word, which has room for all of it. False: a quote is open. */
static bool take_word(const char **text, char *word)
{
    const char *p = *text;
    char quote = '\0';

    for (; *p && (quote || !strchr(BLANKS, *p)); p++) {
        bool escapes = quote == '"' ? p[1] && strchr("\"\\$`", p[1]) : !quote && p[1];
        if (*p == '\\' && escapes)
            *word++ = *++p;
        else if (quote && *p == quote)
            quote = '\0';
        else if (!quote && (*p == '\'' || *p == '"'))
            quote = *p;
        else
            *word++ = *p;
    }
    *word = '\0';
    *text = p;
    return !quote;
}

int rg_shell_split(const char *what, const char *text, size_t max, struct rg_strv *words,
                   struct rg_error *err)
{
    rg_autofree char *word = malloc(strlen(text) + 1);
    const char *rest = text + strspn(text, BLANKS);
    int rc = word ? 0 : -ENOMEM;

    for (; rc == 0 && *rest; rest += strspn(rest, BLANKS)) {
        if (!take_word(&rest, word))
            return rg_error_set(err, EINVAL, "%s: a quote is open in: %.300s", what, text);
        if (words->count >= max)
            return rg_error_set(err, EINVAL, "%s: more than %zu words", what, max);
        rc = rg_strv_add(words, word);
    }
    return rc < 0 ? rg_error_memory(err) : 0;
}
