/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cmd/help/completion.h"
#include "cmd/help/help.h"

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

void rg_completion_horovodrun_bash(struct rg_buf *text)
{
    /* What is no flag of its own may be an option of reigen run. */
    rg_buf_printf(text, "_horovodrun_kind() {\n    kind=\n    case $1 in\n");
    each_flag(text, rg_completion_bash_kind);
    rg_buf_printf(text, "    *) _reigen_kind \"$1\" ;;\n    esac\n}\n"
                        "_horovodrun() {\n    local words at last sign first=1\n"
                        "    COMPREPLY=()\n    _reigen_words\n"
                        "    case ${words[0]} in *horovodrun) ;; *) first=2 ;; esac\n"
                        "    _reigen_line \"$first\" _horovodrun_kind '");
    each_flag(text, rg_completion_bash_names);
    rg_buf_printf(text, "'\n}\ncomplete -o filenames -F _horovodrun horovodrun\n");
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
        rg_buf_printf(text, *c == '@' && strcmp(c, "@host") != 0 ? " -r -F" : " -x");
    if (strcmp(c, "@host") == 0)
        rg_buf_printf(text, " -a '(__fish_complete_list , \"reigen completion --hosts\")'");
    else if (*c && *c != '@')
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
