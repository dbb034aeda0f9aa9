# SPDX-License-Identifier: Apache-2.0
"""The shells' completion, out of the tables that src/cmd/tables.c prints.

An option's "completes" says what its value may be: words; after "@list" several of them with
commas; "@file", "@dir", "@var", "@host" (with commas), "@net" (an interface), "@profile"; for
commands "@job", and "@render" (what is left of a line of reigen render). All but the first three
are asked for by `reigen completion --hosts` and the like while a person types.
"""
import re
from typing import Any, Dict, Iterator, List

Tables = Dict[str, Any]
Row = Dict[str, Any]

#: doctor's options, beside those of run.
DOCTOR_OWN = '--planes --clean'

#: What all of bash's completion uses. Readline takes ':' and '=' for words of their own.
BASH = r'''# words: the arguments as the shell will see them; at: where each begins in COMP_WORDS.
_reigen_words() {
    local i w glue=
    words=() at=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        w=${COMP_WORDS[i]}
        case $w in :|=) sign=1 ;; *) sign= ;; esac
        if [ "$i" -gt 1 ] && [ -n "$sign$glue" ]; then
            words[${#words[@]}-1]+=$w
        else
            words+=("$w") at+=("$i")
        fi
        glue=$sign
    done
    last=${COMP_WORDS[COMP_CWORD]}
    case $last in :|=) last= ;; esac
}
# Offer what fits to the value $1: words, and what @file and the like stand for.
_reigen_offer() {
    local value=$1 head= tail=$1 strip kind i found=() list=()
    shift
    case " $* " in
    *' @list '*|*' @host '*) case $tail in *,*) head=${tail%,*}, tail=${tail##*,} ;; esac ;;
    esac
    for kind in "$@"; do
        case $kind in
        @list) continue ;;
        @file) mapfile -t found < <(compgen -f -- "$tail") ;;
        @dir) mapfile -t found < <(compgen -d -- "$tail") ;;
        @var) mapfile -t found < <(compgen -e -- "$tail") ;;
        @host)
            case $tail in *@*) head+=${tail%%@*}@ tail=${tail#*@} ;; esac
            mapfile -t found < <(compgen -W "$(reigen completion --hosts \
                ${hostfile:+"$hostfile"} 2>/dev/null)" -- "$tail")
            compopt -o nospace 2>/dev/null ;;
        @job) mapfile -t found < <(compgen -W "$(reigen completion --jobs 2>/dev/null)" \
            -- "$tail") ;;
        @profile) mapfile -t found < <(compgen -W "$(reigen completion --profiles 2>/dev/null)" \
            -- "$tail") ;;
        @render)
            mapfile -t found < <(compgen -W "$(reigen completion --render \
                "${words[@]:2:${#words[@]}-3}" 2>/dev/null)" -- "$tail")
            [ "${#found[@]}" -gt 0 ] || mapfile -t found < <(compgen -f -- "$tail") ;;
        @net) mapfile -t found < <(compgen -W \
            "$(reigen completion --interfaces 2>/dev/null)" -- "$tail") ;;
        *) mapfile -t found < <(compgen -W "$kind" -- "$tail") ;;
        esac
        list+=("${found[@]}")
    done
    strip=${value%"$last"}
    for ((i = 0; i < ${#list[@]}; i++)); do
        value=$head${list[i]}
        COMPREPLY[i]=${value#"$strip"}
    done
}
# The command that begins at word $1: its own completion, where it has one.
_reigen_command() {
    local word=${words[${#words[@]}-1]}
    if [ "$1" -eq $((${#words[@]} - 1)) ]; then
        mapfile -t COMPREPLY < <(compgen -c -f -- "$word" | sort -u)
    elif declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "${at[$1]}"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "${at[$1]}"
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$last")
    fi
}
# Options from word $1 on, then a command. $2 says what an option's value is; $3: options.
_reigen_line() {
    local i=$1 n=$((${#words[@]} - 1)) kind command= hostfile= word=${words[${#words[@]}-1]}
    while [ "$i" -lt "$n" ]; do
        case ${words[i]} in
        --) i=$((i + 1)) command=1; break ;;
        -*) if "$2" "${words[i]}"; then i=$((i + 1)); fi
            case ${words[i-1]} in -*hostfile|-*machinefile) hostfile=${words[i]} ;; esac ;;
        *) command=1; break ;;
        esac
        i=$((i + 1))
    done
    if [ -n "$command" ]; then
        _reigen_command "$i"
    elif [ "$i" -gt "$n" ]; then
        "$2" "${words[n-1]}" && _reigen_offer "$word" $kind
    else
        case $word in
        -*=*) "$2" "${word%%=*}" && _reigen_offer "${word#*=}" $kind ;;
        -*) mapfile -t COMPREPLY < <(compgen -W "$3" -- "$word") ;;
        *) _reigen_command "$i" ;;
        esac
    fi
    return 0
}
'''


def flags(tables: Tables) -> List[Row]:
    """Those of horovodrun that its command line has."""
    return [flag for flag in tables['flags'] if not flag['key'] or '.' in flag['key']]


def scripts(tables: Tables) -> Iterator[Row]:
    """The commands that have a table of options, some of which stand in for scripts."""
    return (command for command in tables['commands'] if command['script'])


def named(tables: Tables) -> Iterator[Row]:
    """Those that stand in for scripts, and are called by their names, too."""
    return (command for command in scripts(tables) if command['script']['name'])


def function(command: Row) -> str:
    return '_reigen_' + command['name'].replace('-', '_')


def kind_of(option: Row) -> str:
    return option['completes'] or ''


def is_list(option: Row) -> bool:
    return (option['arg'] or '').endswith(',...')


def asked(words: str, before: str, behind: str) -> str:
    """Words, of which @host and @job are asked for in the shell's way of running a command."""
    return ' '.join(f'{before}--{word[1:]}s{behind}' if word[0] == '@' else word
                    for word in words.split(' '))


# --- bash -------------------------------------------------------------------------------------

def bash_kinds(options: List[Row]) -> str:
    text = ''
    for option in options:
        if option['arg']:
            names = '|'.join('-{0}|--{0}'.format(name.lstrip('-')) for name in option['names'])
            text += f"    {names}) kind='{kind_of(option)}' ;;\n"
    return text


def bash_names(options: List[Row]) -> str:
    return ''.join(f'{name} ' for option in options for name in option['names'])


def bash_value(option: Row) -> str:
    """What compgen is to offer for the value of a script's option."""
    kind = {'@file': '-f', '@dir': '-d', '@var': '-e'}.get(kind_of(option))
    text = f'    --{option["name"]}) '
    if is_list(option) and kind:
        text += ('list=${cur%"${cur##*,}"}; mapfile -t COMPREPLY < <(compgen -P "$list" '
                 f'{kind} -- "${{cur##*,}}"); ')
    elif kind:
        text += f'mapfile -t COMPREPLY < <(compgen {kind} -- "$cur"); '
    elif is_list(option) and kind_of(option):
        text += ('list=${cur%"${cur##*,}"}; mapfile -t COMPREPLY < <(compgen -P "$list" '
                 f'-W \'{kind_of(option)}\' -- "${{cur##*,}}"); ')
    elif kind_of(option):
        text += f'''COMPREPLY=($(compgen -W '{kind_of(option)}' -- "$cur")); '''
    return text + 'return ;;\n'


def bash_script(command: Row) -> str:
    script = command['script']
    names = ' '.join(f'--{o["name"]}{"=" if o["arg"] and not o["optional"] else ""}'
                     for o in script['options'])
    return (function(command) + '''() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local list
    COMPREPLY=()
    # Readline takes '=' for a word of its own.
    if [ "$cur" = = ]; then
        cur=
    elif [ "$prev" = = ]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    case $prev in
''' + ''.join(bash_value(o) for o in script['options'] if o['arg'] and not o['optional']) + f'''\
    esac
    case $cur in
    -*) COMPREPLY=($(compgen -W '{names}' -- "$cur"))
        [ "${{COMPREPLY[0]%=}}" = "${{COMPREPLY[0]}}" ] ||
            compopt -o nospace 2>/dev/null ;;
''' + ('    *) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;\n' if script['operands'] else '') +
            '    esac\n}\n' +
            (f'complete -o filenames -F {function(command)} {script["name"]}\n'
             if script['name'] else ''))


def bash(tables: Tables) -> str:
    commands = tables['commands']
    return ('# bash completion for reigen\n' + BASH +
            '_reigen_kind() {\n    kind=\n    case $1 in\n' + bash_kinds(tables['options']) + '''\
    *) return 1 ;;
    esac
}
_reigen() {
    local words at last sign own=
    COMPREPLY=()
    _reigen_words
    local cur=${words[${#words[@]}-1]}
    if [ "${#words[@]}" -eq 2 ]; then
        _reigen_offer "$cur" ''' + ' '.join(c['name'] for c in commands) + ''' --help --version
        return
    fi
    case ${words[1]} in
''' + ''.join(f'    {c["name"]}) _reigen_offer "$cur" {c["completes"]}; return ;;\n'
              for c in commands if c['completes']) +
            ''.join(f'    {c["name"]}) {function(c)}; return ;;\n' for c in scripts(tables)) + f'''\
    horovodrun) _horovodrun; return ;;
    run|plan) ;;
    doctor) own='{DOCTOR_OWN} ' ;;
    *) return ;;
    esac
    _reigen_line 2 _reigen_kind "$own"'{bash_names(tables["options"])}'
}}
complete -o filenames -F _reigen reigen
_horovodrun_kind() {{
    kind=
    case $1 in
''' + bash_kinds(flags(tables)) + f'''\
    *) _reigen_kind "$1" ;;
    esac
}}
_horovodrun() {{
    local words at last sign first=1
    COMPREPLY=()
    _reigen_words
    case ${{words[0]}} in *horovodrun) ;; *) first=2 ;; esac
    _reigen_line "$first" _horovodrun_kind '{bash_names(flags(tables))}'
}}
complete -o filenames -F _horovodrun horovodrun
''' + ''.join(map(bash_script, scripts(tables))))


# --- zsh --------------------------------------------------------------------------------------

def zsh_quoted(words: str) -> str:
    """Within single quotes, where specifications give brackets and colons a meaning."""
    return re.sub(r'([][:\\])', r'\\\1', words).replace("'", "'\\''")


def zsh_options(options: List[Row]) -> str:
    """A line of _arguments for each name of an option."""
    kinds = {'@file': ':_files', '@dir': ':_files -/', '@var': ':_parameters -g "*export*"',
             '@host': ':_reigen_hosts', '@net': ':_reigen_nets',
             '@profile': ':_reigen_profiles', '': ': '}
    text = ''
    for option in options:
        value, kind = '', kind_of(option)
        if option['arg']:
            value = ':' + zsh_quoted(option['arg'])
            if kind.startswith('@list '):
                value += ':_values -s , WHAT ' + kind[len('@list '):]
            else:
                value += kinds.get(kind, f':({kind})')
        if option['arg2']:
            value += f':{option["arg2"]}: '
        for name in option['names']:
            text += f"        '*{name}[{zsh_quoted(option['help'])}]{value}' \\\n"
    return text


def zsh_script_option(option: Row) -> str:
    text = "        '*--" + option['name']
    text += '' if not option['arg'] else '=-' if option['optional'] else '='
    text += f'[{zsh_quoted(option["help"])}]'
    kind = kind_of(option)
    if option['arg']:
        text += ('::' if option['optional'] else ':') + zsh_quoted(option['arg'])
        if kind == '@var':
            text += ':_sequence _parameters -g "*export*"'
        elif kind == '@dir':
            text += ':_sequence _files -/' if is_list(option) else ':_files -/'
        elif is_list(option) and kind:
            text += f':_values -s , WHAT {kind}'
        else:
            text += ':_files' if kind[:1] == '@' else f':({kind})' if kind else ': '
    return text + "' \\\n"


def zsh_script(command: Row) -> str:
    script = command['script']
    return (f'{function(command)}() {{\n    _arguments -S \\\n' +
            ''.join(map(zsh_script_option, script['options'])) +
            '        ' + ("'*:argument:_files'" if script['operands'] else '&& return') + '\n}\n')


def zsh_command(command: Row) -> str:
    """What follows a command that has no options of its own."""
    words = command['completes']
    if words == '@dir':
        return f'    {command["name"]}) _files -/; return ;;\n'
    if words == '@render':
        return (f'    {command["name"]}) compadd -- $(reigen completion --render '
                '${words[3,CURRENT-1]} 2>/dev/null) || _files; return ;;\n')
    return (f'    {command["name"]}) compadd -- ' +
            asked(words, '$(reigen completion ', ' 2>/dev/null)') + '; return ;;\n')


def zsh(tables: Tables) -> str:
    commands = tables['commands']
    links = ''.join(f' {c["script"]["name"]}' for c in named(tables))
    return (f'#compdef reigen horovodrun{links}\n' +
            ''.join(map(zsh_script, scripts(tables))) + '''\
_reigen_hosts() {
    compset -P '*,'
    compset -P '*@'
    compadd -q -S '' -- $(reigen completion --hosts 2>/dev/null)
}
_reigen_profiles() {
    compadd -- $(reigen completion --profiles 2>/dev/null)
}
_reigen_nets() {
    compadd -- $(reigen completion --interfaces 2>/dev/null)
}
_reigen() {
    if [ "$service" = horovodrun ]; then
    _arguments -S \\
''' + zsh_options(flags(tables)) + '''\
        '(-):command:_command_names -e' \\
        '*::arguments:_normal'
        return
    fi
    case $service in
''' + ''.join(f'    {c["script"]["name"]}) {function(c)}; return ;;\n'
              for c in named(tables)) + '''\
    esac
    local -a commands own
    commands=(
''' + ''.join(f"        '{c['name']}:{zsh_quoted(c['brief'])}'\n" for c in commands) + '''\
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    case $words[2] in
''' + ''.join(zsh_command(c) for c in commands if c['completes']) +
            ''.join(f'    {c["name"]}) shift words; (( CURRENT-- )); {function(c)}; return ;;\n'
                    for c in scripts(tables)) + f'''\
    run|plan) ;;
    doctor) own=({DOCTOR_OWN}) ;;
    *) return ;;
    esac
    shift words
    (( CURRENT-- ))
    _arguments -S $own \\
''' + zsh_options(tables['options']) + f'''\
        '(-):command:_command_names -e' \\
        '*::arguments:_normal'
}}
if [ "$funcstack[1]" = _reigen ]; then
    _reigen "$@"
else
    compdef _reigen reigen horovodrun{links}
fi
''')


# --- fish -------------------------------------------------------------------------------------

def fish_quoted(words: str) -> str:
    """Within single quotes."""
    return re.sub(r"(['\\])", r'\\\1', words)


def fish_name(name: str) -> str:
    kind = '-l' if name.startswith('--') else '-s' if len(name) == 2 else '-o'
    return f'{kind} {name.lstrip("-")}'


def fish_options(command: str, options: List[Row], files: List[str], words: Dict[str, str]) -> str:
    """files: what a file's name stands for; words: by kind, what asks for the words."""
    text = ''
    for option in options:
        kind, rest = kind_of(option), ''
        if option['arg']:
            rest = ' -r -F' if kind in files else ' -x'
        if kind in words:
            rest += f" -a '({words[kind]})'"
        elif kind.startswith('@list ') and '@list' in words:
            rest += f" -a '({words['@list']})'".replace('WORDS', kind[6:].replace(' ', '/'))
        elif kind and kind[0] != '@':
            rest += f" -a '{kind}'"
        for name in option['names']:
            text += (f'complete -c {command} {fish_name(name)}{rest} '
                     f"-d '{fish_quoted(option['help'])}'\n")
    return text


def fish_script_option(command: str, option: Row) -> str:
    kind = kind_of(option)
    text = f'complete -c {command} -l {option["name"]}'
    if option['arg'] and not option['optional']:
        text += ' -r -F' if kind == '@file' else ' -x'
    if kind == '@dir':
        text += (" -a '(__fish_complete_list , __fish_complete_directories)'" if is_list(option)
                 else " -a '(__fish_complete_directories)'")
    elif kind == '@var':
        text += ''' -a '(__fish_complete_list , "set -nx")\''''
    elif is_list(option) and kind:
        words = kind.replace(' ', '/')
        text += f''' -a '(__fish_complete_list , "string split / {words}")\''''
    elif kind and kind[0] != '@':
        text += f" -a '{kind}'"
    return text + f" -d '{fish_quoted(option['help'])}'\n"


def fish_script(command: Row) -> str:
    script, under = command['script'], f"reigen -n '__fish_seen_subcommand_from {command['name']}'"
    name = script['name']
    text = f'complete -c {name} -f\n' if name and not script['operands'] else ''
    for option in script['options']:
        text += fish_script_option(name, option) if name else ''
        text += fish_script_option(under, option)
    return text


def fish_command(command: Row) -> str:
    text = (f'complete -c reigen -f -n __fish_use_subcommand -a {command["name"]} '
            f"-d '{fish_quoted(command['brief'])}'\n")
    words = command['completes']
    if not words:
        return text
    words = ('(__fish_complete_directories)' if words == '@dir'
             else '(reigen completion --render (commandline -opc)[3..-1])' if words == '@render'
             else asked(words, '(reigen completion ', ')'))
    return (text + f"complete -c reigen -f -n '__fish_seen_subcommand_from {command['name']}' "
            f"-a '{words}'\n")


def fish(tables: Tables) -> str:
    hosts = '__fish_complete_list , "reigen completion --hosts"'
    values = ''.join(f' -{bare} --{bare}' for option in tables['options'] if option['arg']
                     for bare in (name.lstrip('-') for name in option['names']))
    return ('# fish completion for reigen\n' +
            ''.join(map(fish_command, tables['commands'])) + f'''\
complete -c reigen -f -n '__fish_seen_subcommand_from doctor' -a '{DOCTOR_OWN}'
function __reigen_rest
    set -l words (commandline -opc)[3..-1]
    while set -q words[1]
        switch $words[1]
            case --
                set -e words[1]
                break
            case{values}
                set -q words[2]; or return
                set -e words[1..2]
            case '-*'
                set -e words[1]
            case '*'
                break
        end
    end
    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end
complete -c reigen -f -n '__fish_seen_subcommand_from run plan' -a '(__reigen_rest)'
''' + fish_options("reigen -n '__fish_seen_subcommand_from run plan doctor'", tables['options'],
                   ['@file'],
                   {'@dir': '__fish_complete_directories', '@var': 'set -nx', '@host': hosts,
                    '@net': 'reigen completion --interfaces',
                    '@profile': 'reigen completion --profiles',
                    '@list': '__fish_complete_list , "string split / WORDS"'}) +
            fish_options('horovodrun', flags(tables), ['@file', '@dir', '@var', '@net'],
                         {'@host': hosts}) + ''.join(map(fish_script, scripts(tables))))


def script(tables: Tables, shell: str) -> str:
    return {'bash': bash, 'zsh': zsh, 'fish': fish}[shell](tables)
