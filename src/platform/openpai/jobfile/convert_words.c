/* SPDX-License-Identifier: Apache-2.0 */
/* What both directions of a conversion do: say what changes, refuse, and rename in commands. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "platform/openpai/jobfile/pai_internal.h"

void rg_pai_word(struct rg_pai_convert *c, const char *fmt, ...)
{
    char text[RG_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    rg_strv_add(c->words, text);
}

int rg_pai_refuse(struct rg_pai_convert *c, const char *fmt, ...)
{
    char text[RG_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return rg_error_set_exit(c->err, EINVAL, RG_EXIT_USAGE, "%s", text);
}

/* Whether a name stands there as a word of its own. */
static bool has_word(const char *text, const char *name)
{
    for (const char *p = text; (p = strstr(p, name)); p++) {
        char after = p[strlen(name)];
        if ((p == text || !isalnum((unsigned char) p[-1])) && !isalnum((unsigned char) after))
            return true;
    }
    return false;
}

/* What may be a role, and may be another word. */
static void tell_uses(struct rg_pai_convert *c, const char *whose, const char *command)
{
    for (size_t i = 0; i < c->from->nroles; i++) {
        const char *name = c->from->roles[i].name;
        if (strcmp(name, c->to->roles[i].name) != 0 && has_word(command, name))
            rg_pai_word(c, "taskRoles: a command of %.80s has %.80s in it, and stays so: look "
                        "whether that is the role", whose, name);
    }
}

int rg_pai_rename_in(struct rg_pai_convert *c, const char *whose, char **text)
{
    char *now = rg_pai_rename(c->from, c->to, *text);

    if (!now)
        return -ENOMEM;
    if (strcmp(now, *text) != 0)
        rg_pai_word(c, "taskRoles: a command of %.80s: names of hosts and variables in it follow "
                    "those of roles and ports", whose);
    free(*text);
    *text = now;
    tell_uses(c, whose, now);
    return 0;
}
