/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cmd/help/completion.h"
#include "cmd/compat/scripts.h"

/* _reigen_srun_docker: the shells' function for the command srun-docker. */
static void put_function(struct rg_buf *text, const struct rg_script *s)
{
    rg_buf_printf(text, "_reigen_");
    for (const char *p = s->command; *p; p++)
        rg_buf_put(text, *p == '-' ? "_" : p, 1);
}

static bool is_list(const struct rg_script_option *o)
{
    const char *comma = o->arg ? strstr(o->arg, ",...") : NULL;

    return comma && !comma[4];
}

/* What compgen is to offer for a value. */
static void bash_value(struct rg_buf *text, const struct rg_script_option *o)
{
    const char *c = o->completes ? o->completes : "";
    const char *kind = strcmp(c, "@file") == 0  ? "-f"
                       : strcmp(c, "@dir") == 0 ? "-d"
                       : strcmp(c, "@var") == 0 ? "-e"
                                                : NULL;

    rg_buf_printf(text, "    --%s) ", o->name);
    if (is_list(o) && kind)
        rg_buf_printf(text, "list=${cur%%\"${cur##*,}\"}; mapfile -t COMPREPLY < <(compgen -P "
                            "\"$list\" %s -- \"${cur##*,}\")", kind);
    else if (kind)
        rg_buf_printf(text, "mapfile -t COMPREPLY < <(compgen %s -- \"$cur\")", kind);
    else if (*c)
        rg_buf_printf(text, "COMPREPLY=($(compgen -W '%s' -- \"$cur\"))", c);
    rg_buf_printf(text, "%sreturn ;;\n", *c ? "; " : "");
}

static void bash_function(struct rg_buf *text, const struct rg_script *s)
{
    struct rg_script_option o;

    put_function(text, s);
    rg_buf_printf(text, "() {\n"
                        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                        "    local list\n    COMPREPLY=()\n"
                        "    # Readline takes '=' for a word of its own.\n"
                        "    if [ \"$cur\" = = ]; then\n        cur=\n"
                        "    elif [ \"$prev\" = = ]; then\n"
                        "        prev=${COMP_WORDS[COMP_CWORD-2]}\n    fi\n    case $prev in\n");
    for (size_t i = 0; s->option(i, &o); i++)
        if (o.arg && !o.optional)
            bash_value(text, &o);
    rg_buf_printf(text, "    esac\n    case $cur in\n    -*) COMPREPLY=($(compgen -W '");
    for (size_t i = 0; s->option(i, &o); i++)
        rg_buf_printf(text, "%s--%s%s", i ? " " : "", o.name, o.arg && !o.optional ? "=" : "");
    rg_buf_printf(text, "' -- \"$cur\"))\n"
                        "        [ \"${COMPREPLY[0]%%=}\" = \"${COMPREPLY[0]}\" ] ||\n"
                        "            compopt -o nospace 2>/dev/null ;;\n");
    if (s->operands)
        rg_buf_printf(text, "    *) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n");
    rg_buf_printf(text, "    esac\n}\ncomplete -o filenames -F ");
    put_function(text, s);
    rg_buf_printf(text, " %s\n", s->name);
}

void rg_completion_scripts_bash(struct rg_buf *text)
{
    for (const struct rg_script *s = rg_scripts; s->command; s++)
        bash_function(text, s);
}

void rg_completion_scripts_in_bash(struct rg_buf *text)
{
    for (const struct rg_script *s = rg_scripts; s->command; s++) {
        rg_buf_printf(text, "    %s) ", s->command);
        put_function(text, s);
        rg_buf_printf(text, "; return ;;\n");
    }
}

static void zsh_option(struct rg_buf *text, const struct rg_script_option *o)
{
    const char *c = o->completes ? o->completes : "";

    rg_buf_printf(text, "        '*--%s%s[", o->name, !o->arg ? "" : o->optional ? "=-" : "=");
    rg_completion_quoted(text, o->help, true);
    rg_buf_printf(text, "]");
    if (o->arg) {
        rg_buf_printf(text, o->optional ? "::" : ":");
        rg_completion_quoted(text, o->arg, true);
        if (strcmp(c, "@var") == 0)
            rg_buf_printf(text, ":_sequence _parameters -g \"*export*\"");
        else if (strcmp(c, "@dir") == 0 && is_list(o))
            rg_buf_printf(text, ":_sequence _files -/");
        else if (*c == '@')
            rg_buf_printf(text, strcmp(c, "@dir") == 0 ? ":_files -/" : ":_files");
        else
            rg_buf_printf(text, *c ? ":(%s)" : ": ", c);
    }
    rg_buf_printf(text, "' \\\n");
}

void rg_completion_scripts_zsh(struct rg_buf *text)
{
    struct rg_script_option o;

    for (const struct rg_script *s = rg_scripts; s->command; s++) {
        put_function(text, s);
        rg_buf_printf(text, "() {\n    _arguments -S \\\n");
        for (size_t i = 0; s->option(i, &o); i++)
            zsh_option(text, &o);
        rg_buf_printf(text, "        %s\n}\n", s->operands ? "'*:argument:_files'" : "&& return");
    }
}

void rg_completion_scripts_in_zsh(struct rg_buf *text)
{
    for (const struct rg_script *s = rg_scripts; s->command; s++) {
        rg_buf_printf(text, "    %s) shift words; (( CURRENT-- )); ", s->command);
        put_function(text, s);
        rg_buf_printf(text, "; return ;;\n");
    }
}

void rg_completion_scripts_by_name_zsh(struct rg_buf *text)
{
    rg_buf_printf(text, "    case $service in\n");
    for (const struct rg_script *s = rg_scripts; s->command; s++) {
        rg_buf_printf(text, "    %s) ", s->name);
        put_function(text, s);
        rg_buf_printf(text, "; return ;;\n");
    }
    rg_buf_printf(text, "    esac\n");
}

/* command: what fish is to complete, with a condition where that is only one of reigen's. */
static void fish_option(struct rg_buf *text, const char *command, const struct rg_script_option *o)
{
    const char *c = o->completes ? o->completes : "";

    rg_buf_printf(text, "complete -c %s -l %s", command, o->name);
    if (o->arg && !o->optional)
        rg_buf_printf(text, strcmp(c, "@file") == 0 ? " -r -F" : " -x");
    if (strcmp(c, "@dir") == 0)
        rg_buf_printf(text, " -a '(%s)'", is_list(o)
                                              ? "__fish_complete_list , __fish_complete_directories"
                                              : "__fish_complete_directories");
    else if (strcmp(c, "@var") == 0)
        rg_buf_printf(text, " -a '(__fish_complete_list , \"set -nx\")'");
    else if (*c && *c != '@')
        rg_buf_printf(text, " -a '%s'", c);
    rg_buf_printf(text, " -d '");
    rg_completion_fish_text(text, o->help);
    rg_buf_printf(text, "'\n");
}

void rg_completion_scripts_fish(struct rg_buf *text)
{
    struct rg_script_option o;
    char command[120];

    for (const struct rg_script *s = rg_scripts; s->command; s++) {
        if (!s->operands)
            rg_buf_printf(text, "complete -c %s -f\n", s->name);
        for (size_t i = 0; s->option(i, &o); i++) {
            fish_option(text, s->name, &o);
            snprintf(command, sizeof command, "reigen -n '__fish_seen_subcommand_from %s'",
                     s->command);
            fish_option(text, command, &o);
        }
    }
}
