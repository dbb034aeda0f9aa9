#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which python Reigen's .venv stands on: the user's own python3 where that one can import torch,
# else Debian's. An interpreter of .venv itself is never the answer, though PATH may have it
# first: .venv is made anew from the answer.
#
# usage: tools/python.sh               print the interpreter's real path
#        tools/python.sh --has-torch   exit 0 if the user's own python3 brings a torch of its own
#
# Importing torch takes seconds, so the answer is kept in build/.python with all that it depends on.
set -eu
cache=build/.python

# Whether $1, or what it points to, lies in .venv.
in_venv() {
    at=$1
    while dir=$(cd -P "${at%/*}/" 2>/dev/null && pwd); do
        case $dir/ in
        "$venv"/*) return 0 ;;
        esac
        link=$(readlink "$dir/${at##*/}" 2>/dev/null) || return 1
        case $link in
        /*) at=$link ;;
        *) at=$dir/$link ;;
        esac
    done
    return 1
}

# The first python3 in PATH that does not.
find_own() (
    venv=$(cd -P .venv 2>/dev/null && pwd) || venv=$(pwd -P)/.venv
    IFS=:
    set -f
    for dir in $PATH; do
        own=${dir:-.}/python3
        if [ -f "$own" ] && [ -x "$own" ] && ! in_venv "$own"; then
            echo "$own"
            return
        fi
    done
)

own=$(find_own)
debian=/usr/bin/python3
key="$own ${VIRTUAL_ENV-} ${PYTHONPATH-} $(stat -Lc '%Y' "${own:-/}" 2>/dev/null || true)"

where=
if [ -r "$cache" ]; then
    { read -r old && read -r answer && read -r where; } <"$cache" || where=
    [ "$old" = "$key" ] && [ -x "$answer" ] || where=
fi
if [ -z "$where" ]; then
    # Prints the interpreter, then where its torch is.
    found=$("$own" -c 'import sys, torch; print(sys.executable); print(torch.__file__)' \
        2>/dev/null) || found="$debian
none"
    answer=$(echo "$found" | head -n 1)
    where=$(echo "$found" | tail -n 1)
    if [ -x "$answer" ]; then
        mkdir -p build
        printf '%s\n%s\n%s\n' "$key" "$answer" "$where" >"$cache.new"
        mv "$cache.new" "$cache"
    fi
fi

if [ "${1-}" = --has-torch ]; then
    case $where in
    none | /usr/lib/python3/*) exit 1 ;;
    esac
else
    echo "$answer"
fi
