/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cmd/completion.h"
#include "cmd/help.h"

/* Call fn for each flag that the command line has. */
static void each_flag(struct rg_buf *text, void (*fn)(struct rg_buf *, const struct rg_option *))
{
    size_t count;
    const struct rg_hvd_option *flags = rg_hvd_options(&count);

    for (size_t i = 0; i < count; i++) {
        struct rg_option option = rg_hvd_as_option(&flags[i]);
        if (!flags[i].key || strchr(flags[i].key, '.'))
            fn(text, &option);
    }
}

static void bash_word(struct rg_buf *text, const char *name, const struct rg_option *o)
{
    (void) o;
    rg_buf_printf(text, "%s%s ", rg_option_dashes(name), name);
}

static void bash_words(struct rg_buf *text, const struct rg_option *o)
{
    rg_completion_each_name(text, o, bash_word);
}

static void bash_case(struct rg_buf *text, const struct rg_option *o)
{
    const char *c = o->completes ? o->completes : "";

    if (!o->arg)
        return;
    rg_buf_printf(text, "    %s%s", rg_option_dashes(o->name), o->name);
    if (*c == '@')
        rg_buf_printf(text, ") COMPREPLY=($(compgen %s -- \"$cur\")); return ;;\n",
                      strcmp(c, "@dir") == 0 ? "-d" : "-f");
    else
        rg_buf_printf(text, ") COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", c);
}

void rg_completion_horovodrun_bash(struct rg_buf *text)
{
    rg_buf_printf(text, "_horovodrun() {\n"
                        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                        "    COMPREPLY=()\n    case $prev in\n");
    each_flag(text, bash_case);
    rg_buf_printf(text, "    esac\n    case $cur in\n    -*) COMPREPLY=($(compgen -W '");
    each_flag(text, bash_words);
    rg_buf_printf(text, "' -- \"$cur\")) ;;\n    *) COMPREPLY=($(compgen -c -f -- \"$cur\")) ;;\n"
                        "    esac\n}\ncomplete -o filenames -F _horovodrun horovodrun\n");
}

static void zsh_flag(struct rg_buf *text, const struct rg_option *o)
{
    rg_completion_each_name(text, o, rg_completion_zsh_option);
}

void rg_completion_horovodrun_zsh(struct rg_buf *text)
{
    rg_buf_printf(text, "    if [ \"$service\" = horovodrun ]; then\n    _arguments -S \\\n");
    each_flag(text, zsh_flag);
    rg_buf_printf(text, "        '(-):command:_command_names -e' \\\n"
                        "        '*::arguments:_normal'\n        return\n    fi\n");
}

static void fish_name(struct rg_buf *text, const char *name, const struct rg_option *o)
{
    const char *c = o->completes ? o->completes : "";
    const char *kind = strlen(name) == 1                          ? "-s"
                       : strcmp(rg_option_dashes(name), "-") == 0 ? "-o"
                                                                  : "-l";

    rg_buf_printf(text, "complete -c horovodrun %s %s", kind, name);
    if (o->arg)
        rg_buf_printf(text, *c == '@' ? " -r -F" : " -x");
    if (*c && *c != '@')
        rg_buf_printf(text, " -a '%s'", c);
    rg_buf_printf(text, " -d '");
    rg_completion_fish_text(text, o->help);
    rg_buf_printf(text, "'\n");
}

static void fish_flag(struct rg_buf *text, const struct rg_option *o)
{
    rg_completion_each_name(text, o, fish_name);
}

void rg_completion_horovodrun_fish(struct rg_buf *text)
{
    each_flag(text, fish_flag);
}
