/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cmd/help/args.h"
#include "cmd/commands.h"
#include "cmd/help/completion.h"
#include "cmd/show/exit.h"
#include "cmd/help/help.h"
#include "cmd/compat/scripts.h"

void rg_completion_each_name(struct rg_buf *text, const struct rg_option *o,
                             void (*fn)(struct rg_buf *text, const char *name,
                                        const struct rg_option *o))
{
    fn(text, o->name, o);
    for (const char *p = o->aliases; p && *p;) {
        char name[64];
        size_t n = strcspn(p, " ");
        snprintf(name, sizeof name, "%.*s", (int) n, p);
        fn(text, name, o);
        p += n + (p[n] == ' ');
    }
}

void rg_completion_quoted(struct rg_buf *text, const char *words, bool zsh)
{
    for (const char *p = words; *p; p++) {
        if (*p == '\'')
            rg_buf_printf(text, "'\\''");
        else if (zsh && (*p == '[' || *p == ']' || *p == ':' || *p == '\\'))
            rg_buf_printf(text, "\\%c", *p);
        else
            rg_buf_put(text, p, 1);
    }
}

void rg_completion_zsh_option(struct rg_buf *text, const char *name, const struct rg_option *o)
{
    const char *c = o->completes ? o->completes : "";

    rg_buf_printf(text, "        '*%s%s[", rg_option_dashes(name), name);
    rg_completion_quoted(text, o->help, true);
    rg_buf_printf(text, "]");
    if (o->arg) {
        rg_buf_printf(text, ":");
        rg_completion_quoted(text, o->arg, true);
        if (strcmp(c, "@file") == 0)
            rg_buf_printf(text, ":_files");
        else if (strcmp(c, "@dir") == 0)
            rg_buf_printf(text, ":_files -/");
        else if (strcmp(c, "@var") == 0)
            rg_buf_printf(text, ":_parameters -g \"*export*\"");
        else if (strcmp(c, "@host") == 0)
            rg_buf_printf(text, ":_reigen_hosts");
        else if (strcmp(c, "@net") == 0)
            rg_buf_printf(text, ":_reigen_nets");
        else if (rg_str_starts(c, "@list "))
            rg_buf_printf(text, ":_values -s , WHAT %s", c + strlen("@list "));
        else
            rg_buf_printf(text, *c ? ":(%s)" : ": ", c);
    }
    if (o->arg2)
        rg_buf_printf(text, ":%s: ", o->arg2);
    rg_buf_printf(text, "' \\\n");
}

/* Words, of which @host and @job are asked for as the shell's way of running a command says. */
static void put_words(struct rg_buf *text, const char *words, const char *before,
                      const char *behind)
{
    for (const char *p = words; *p; p += strcspn(p, " "), p += *p == ' ') {
        int n = (int) strcspn(p, " ");
        if (*p == '@')
            rg_buf_printf(text, "%s%s--%.*ss%s", p == words ? "" : " ", before, n - 1, p + 1,
                          behind);
        else
            rg_buf_printf(text, "%s%.*s", p == words ? "" : " ", n, p);
    }
}

static void print_zsh(struct rg_buf *text, const struct rg_option *options, size_t count)
{
    rg_buf_printf(text, "#compdef reigen horovodrun");
    for (const struct rg_script *s = rg_scripts; s->command; s++)
        rg_buf_printf(text, " %s", s->name);
    rg_buf_printf(text, "\n");
    rg_completion_scripts_zsh(text);
    rg_buf_printf(text, "_reigen_hosts() {\n    compset -P '*,'\n    compset -P '*@'\n"
                        "    compadd -q -S '' -- $(reigen completion --hosts 2>/dev/null)\n}\n"
                        "_reigen_nets() {\n"
                        "    compadd -- $(reigen completion --interfaces 2>/dev/null)\n}\n"
                        "_reigen() {\n");
    rg_completion_horovodrun_zsh(text);
    rg_completion_scripts_by_name_zsh(text);
    rg_buf_printf(text, "    local -a commands own\n    commands=(\n");
    for (const struct rg_command *c = rg_commands; c->name; c++) {
        rg_buf_printf(text, "        '%s:", c->name);
        rg_completion_quoted(text, c->summary, true);
        rg_buf_printf(text, "'\n");
    }
    rg_buf_printf(text, "    )\n    if (( CURRENT == 2 )); then\n"
                        "        _describe command commands\n        return\n    fi\n"
                        "    case $words[2] in\n");
    for (const struct rg_command *c = rg_commands; c->name; c++) {
        if (c->completes && strcmp(c->completes, "@dir") == 0) {
            rg_buf_printf(text, "    %s) _files -/; return ;;\n", c->name);
        } else if (c->completes) {
            rg_buf_printf(text, "    %s) compadd -- ", c->name);
            put_words(text, c->completes, "$(reigen completion ", " 2>/dev/null)");
            rg_buf_printf(text, "; return ;;\n");
        }
    }
    rg_completion_scripts_in_zsh(text);
    rg_buf_printf(text,
                  "    run) ;;\n    doctor) own=(" RG_DOCTOR_OWN ") ;;\n    *) return ;;\n"
                  "    esac\n    shift words\n    (( CURRENT-- ))\n"
                  "    _arguments -S $own \\\n");
    for (size_t i = 0; i < count; i++)
        rg_completion_each_name(text, &options[i], rg_completion_zsh_option);
    rg_buf_printf(text,
                  "        '(-):command:_command_names -e' \\\n        '*::arguments:_normal'\n}\n"
                  "if [ \"$funcstack[1]\" = _reigen ]; then\n    _reigen \"$@\"\nelse\n"
                  "    compdef _reigen reigen horovodrun");
    for (const struct rg_script *s = rg_scripts; s->command; s++)
        rg_buf_printf(text, " %s", s->name);
    rg_buf_printf(text, "\nfi\n");
}

void rg_completion_fish_text(struct rg_buf *text, const char *words)
{
    for (const char *p = words; *p; p++)
        rg_buf_printf(text, *p == '\'' || *p == '\\' ? "\\%c" : "%c", *p);
}

/* Several of the words, with commas. */
static void fish_list(struct rg_buf *text, const char *words)
{
    rg_buf_printf(text, " -a '(__fish_complete_list , \"string split / ");
    for (const char *p = words; *p; p++)
        rg_buf_put(text, *p == ' ' ? "/" : p, 1);
    rg_buf_printf(text, "\")'");
}

static void fish_option(struct rg_buf *text, const char *name, const struct rg_option *o)
{
    const char *c = o->completes ? o->completes : "";
    const char *kind = strlen(name) == 1                          ? "-s"
                       : strcmp(rg_option_dashes(name), "-") == 0 ? "-o"
                                                                  : "-l";

    rg_buf_printf(text, "complete -c reigen -n '__fish_seen_subcommand_from run doctor' %s %s",
                  kind, name);
    if (o->arg)
        rg_buf_printf(text, strcmp(c, "@file") == 0 ? " -r -F" : " -x");
    if (strcmp(c, "@dir") == 0)
        rg_buf_printf(text, " -a '(__fish_complete_directories)'");
    else if (strcmp(c, "@var") == 0)
        rg_buf_printf(text, " -a '(set -nx)'");
    else if (strcmp(c, "@host") == 0)
        rg_buf_printf(text, " -a '(__fish_complete_list , \"reigen completion --hosts\")'");
    else if (strcmp(c, "@net") == 0)
        rg_buf_printf(text, " -a '(reigen completion --interfaces)'");
    else if (rg_str_starts(c, "@list "))
        fish_list(text, c + strlen("@list "));
    else if (*c && *c != '@')
        rg_buf_printf(text, " -a '%s'", c);
    rg_buf_printf(text, " -d '");
    rg_completion_fish_text(text, o->help);
    rg_buf_printf(text, "'\n");
}

static void fish_word(struct rg_buf *text, const char *name, const struct rg_option *o)
{
    (void) o;
    rg_buf_printf(text, " -%s --%s", name, name);
}

/* Behind the options of run: the command, and what its own completion has. */
static void fish_rest(struct rg_buf *text, const struct rg_option *options, size_t count)
{
    rg_buf_printf(text, "function __reigen_rest\n"
                        "    set -l words (commandline -opc)[3..-1]\n"
                        "    while set -q words[1]\n        switch $words[1]\n"
                        "            case --\n                set -e words[1]\n"
                        "                break\n            case");
    for (size_t i = 0; i < count; i++)
        if (options[i].arg)
            rg_completion_each_name(text, &options[i], fish_word);
    rg_buf_printf(text, "\n                set -q words[2]; or return\n"
                        "                set -e words[1..2]\n"
                        "            case '-*'\n                set -e words[1]\n"
                        "            case '*'\n                break\n        end\n    end\n"
                        "    complete -C (string join ' ' -- (string escape -- $words) "
                        "(commandline -ct))\nend\n"
                        "complete -c reigen -f -n '__fish_seen_subcommand_from run' -a "
                        "'(__reigen_rest)'\n");
}

static void print_fish(struct rg_buf *text, const struct rg_option *options, size_t count)
{
    rg_buf_printf(text, "# fish completion for reigen\n");
    for (const struct rg_command *c = rg_commands; c->name; c++) {
        rg_buf_printf(text, "complete -c reigen -f -n __fish_use_subcommand -a %s -d '", c->name);
        rg_completion_fish_text(text, c->summary);
        rg_buf_printf(text, "'\n");
        if (c->completes) {
            rg_buf_printf(text, "complete -c reigen -f -n '__fish_seen_subcommand_from %s' -a '",
                          c->name);
            if (strcmp(c->completes, "@dir") == 0)
                rg_buf_printf(text, "(__fish_complete_directories)");
            else
                put_words(text, c->completes, "(reigen completion ", ")");
            rg_buf_printf(text, "'\n");
        }
    }
    rg_buf_printf(text, "complete -c reigen -f -n '__fish_seen_subcommand_from doctor' -a '"
                        RG_DOCTOR_OWN "'\n");
    fish_rest(text, options, count);
    for (size_t i = 0; i < count; i++)
        rg_completion_each_name(text, &options[i], fish_option);
    rg_completion_horovodrun_fish(text);
    rg_completion_scripts_fish(text);
}

int rg_completion_print(struct rg_buf *text, const char *shell)
{
    size_t count;
    const struct rg_option *options = rg_options(&count);

    if (strcmp(shell, "bash") == 0)
        rg_completion_bash(text);
    else if (strcmp(shell, "zsh") == 0)
        print_zsh(text, options, count);
    else if (strcmp(shell, "fish") == 0)
        print_fish(text, options, count);
    else
        return -ENOENT;
    return rg_buf_status(text);
}

int rg_cmd_completion(int argc, char **argv)
{
    static const char *const shells[] = { "bash", "zsh", "fish", NULL };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char guess[96];
    int n;

    if (argc > 1 && rg_completion_words(argv[1], argv + 2, &text) == 0)
        return rg_print(rg_buf_text(&text));
    n = rg_args_parse(argc, argv, &(struct rg_arg){ NULL }, 1);
    if (n < 0)
        return -1 - n;
    if (n == 0)
        return rg_fail_usage("completion", "completion needs the shell's name: bash, zsh or fish");
    if (rg_completion_print(&text, argv[1]) == -ENOENT)
        return rg_fail_usage("completion", "completion %.80s: give bash, zsh or fish%s", argv[1],
                             rg_args_guess(argv[1], shells, guess));
    return rg_print(rg_buf_text(&text));
}
