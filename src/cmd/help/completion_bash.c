/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/str.h"
#include "cmd/commands.h"
#include "cmd/help/completion.h"
#include "cmd/help/help.h"
#include "cmd/compat/scripts.h"

/* What all of it uses. Readline takes ':' and '=' for words of their own. */
static const char common[] =
    "# words: the arguments as the shell will see them; at: where each begins in COMP_WORDS.\n"
    "_reigen_words() {\n"
    "    local i w glue=\n"
    "    words=() at=()\n"
    "    for ((i = 0; i <= COMP_CWORD; i++)); do\n"
    "        w=${COMP_WORDS[i]}\n"
    "        case $w in :|=) sign=1 ;; *) sign= ;; esac\n"
    "        if [ \"$i\" -gt 1 ] && [ -n \"$sign$glue\" ]; then\n"
    "            words[${#words[@]}-1]+=$w\n"
    "        else\n"
    "            words+=(\"$w\") at+=(\"$i\")\n"
    "        fi\n"
    "        glue=$sign\n"
    "    done\n"
    "    last=${COMP_WORDS[COMP_CWORD]}\n"
    "    case $last in :|=) last= ;; esac\n"
    "}\n"
    "# Offer what fits to the value $1: words, and what @file and the like stand for.\n"
    "_reigen_offer() {\n"
    "    local value=$1 head= tail=$1 strip kind i found=() list=()\n"
    "    shift\n"
    "    case \" $* \" in\n"
    "    *' @list '*|*' @host '*) case $tail in *,*) head=${tail%,*}, tail=${tail##*,} ;; esac ;;\n"
    "    esac\n"
    "    for kind in \"$@\"; do\n"
    "        case $kind in\n"
    "        @list) continue ;;\n"
    "        @file) mapfile -t found < <(compgen -f -- \"$tail\") ;;\n"
    "        @dir) mapfile -t found < <(compgen -d -- \"$tail\") ;;\n"
    "        @var) mapfile -t found < <(compgen -e -- \"$tail\") ;;\n"
    "        @host)\n"
    "            case $tail in *@*) head+=${tail%%@*}@ tail=${tail#*@} ;; esac\n"
    "            mapfile -t found < <(compgen -W \"$(reigen completion --hosts \\\n"
    "                ${hostfile:+\"$hostfile\"} 2>/dev/null)\" -- \"$tail\")\n"
    "            compopt -o nospace 2>/dev/null ;;\n"
    "        @job) mapfile -t found < <(compgen -W \"$(reigen completion --jobs 2>/dev/null)\" \\\n"
    "            -- \"$tail\") ;;\n"
    "        @net) mapfile -t found < <(compgen -W \\\n"
    "            \"$(reigen completion --interfaces 2>/dev/null)\" -- \"$tail\") ;;\n"
    "        *) mapfile -t found < <(compgen -W \"$kind\" -- \"$tail\") ;;\n"
    "        esac\n"
    "        list+=(\"${found[@]}\")\n"
    "    done\n"
    "    strip=${value%\"$last\"}\n"
    "    for ((i = 0; i < ${#list[@]}; i++)); do\n"
    "        value=$head${list[i]}\n"
    "        COMPREPLY[i]=${value#\"$strip\"}\n"
    "    done\n"
    "}\n"
    "# The command that begins at word $1: its own completion, where it has one.\n"
    "_reigen_command() {\n"
    "    local word=${words[${#words[@]}-1]}\n"
    "    if [ \"$1\" -eq $((${#words[@]} - 1)) ]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -c -f -- \"$word\" | sort -u)\n"
    "    elif declare -F _comp_command_offset >/dev/null; then\n"
    "        _comp_command_offset \"${at[$1]}\"\n"
    "    elif declare -F _command_offset >/dev/null; then\n"
    "        _command_offset \"${at[$1]}\"\n"
    "    else\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$last\")\n"
    "    fi\n"
    "}\n"
    "# Options from word $1 on, then a command. $2 says what an option's value is; $3: options.\n"
    "_reigen_line() {\n"
    "    local i=$1 n=$((${#words[@]} - 1)) kind command= hostfile= word=${words[${#words[@]}-1]}\n"
    "    while [ \"$i\" -lt \"$n\" ]; do\n"
    "        case ${words[i]} in\n"
    "        --) i=$((i + 1)) command=1; break ;;\n"
    "        -*) if \"$2\" \"${words[i]}\"; then i=$((i + 1)); fi\n"
    "            case ${words[i-1]} in -*hostfile|-*machinefile) hostfile=${words[i]} ;; esac ;;\n"
    "        *) command=1; break ;;\n"
    "        esac\n"
    "        i=$((i + 1))\n"
    "    done\n"
    "    if [ -n \"$command\" ]; then\n"
    "        _reigen_command \"$i\"\n"
    "    elif [ \"$i\" -gt \"$n\" ]; then\n"
    "        \"$2\" \"${words[n-1]}\" && _reigen_offer \"$word\" $kind\n"
    "    else\n"
    "        case $word in\n"
    "        -*=*) \"$2\" \"${word%%=*}\" && _reigen_offer \"${word#*=}\" $kind ;;\n"
    "        -*) mapfile -t COMPREPLY < <(compgen -W \"$3\" -- \"$word\") ;;\n"
    "        *) _reigen_command \"$i\" ;;\n"
    "        esac\n"
    "    fi\n"
    "    return 0\n"
    "}\n";

static void put_name(struct rg_buf *text, const char *name, const struct rg_option *o)
{
    (void) o;
    rg_buf_printf(text, "%s%s ", rg_option_dashes(name), name);
}

static void put_pattern(struct rg_buf *text, const char *name, const struct rg_option *o)
{
    rg_buf_printf(text, "%s-%s|--%s", o->name == name ? "" : "|", name, name);
}

void rg_completion_bash_kind(struct rg_buf *text, const struct rg_option *o)
{
    if (!o->arg)
        return;
    rg_buf_printf(text, "    ");
    rg_completion_each_name(text, o, put_pattern);
    rg_buf_printf(text, ") kind='%s' ;;\n", o->completes ? o->completes : "");
}

void rg_completion_bash_names(struct rg_buf *text, const struct rg_option *o)
{
    rg_completion_each_name(text, o, put_name);
}

void rg_completion_bash(struct rg_buf *text)
{
    size_t count;
    const struct rg_option *options = rg_options(&count);

    rg_buf_printf(text, "# bash completion for reigen\n%s"
                        "_reigen_kind() {\n    kind=\n    case $1 in\n", common);
    for (size_t i = 0; i < count; i++)
        rg_completion_bash_kind(text, &options[i]);
    rg_buf_printf(text, "    *) return 1 ;;\n    esac\n}\n"
                        "_reigen() {\n    local words at last sign own=\n    COMPREPLY=()\n"
                        "    _reigen_words\n"
                        "    local cur=${words[${#words[@]}-1]}\n"
                        "    if [ \"${#words[@]}\" -eq 2 ]; then\n        _reigen_offer \"$cur\"");
    for (const struct rg_command *c = rg_commands; c->name; c++)
        rg_buf_printf(text, " %s", c->name);
    rg_buf_printf(text, " --help --version\n        return\n    fi\n    case ${words[1]} in\n");
    for (const struct rg_command *c = rg_commands; c->name; c++) {
        if (c->completes)
            rg_buf_printf(text, "    %s) _reigen_offer \"$cur\" %s; return ;;\n", c->name,
                          c->completes);
    }
    rg_completion_scripts_in_bash(text);
    rg_buf_printf(text, "    horovodrun) _horovodrun; return ;;\n"
                        "    run) ;;\n    doctor) own='" RG_DOCTOR_OWN " ' ;;\n"
                        "    *) return ;;\n    esac\n"
                        "    _reigen_line 2 _reigen_kind \"$own\"'");
    for (size_t i = 0; i < count; i++)
        rg_completion_bash_names(text, &options[i]);
    rg_buf_printf(text, "'\n}\ncomplete -o filenames -F _reigen reigen\n");
    rg_completion_horovodrun_bash(text);
    rg_completion_scripts_bash(text);
}
