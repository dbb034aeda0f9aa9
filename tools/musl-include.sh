#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Give the musl build the few headers of the host that do not depend on a libc.
#
# usage: tools/musl-include.sh CC DIR
#
# musl's compiler wrapper searches its own headers only, and adding /usr/include would mix two
# libcs. DIR gets links to libev, libsodium, uthash and the kernel's headers, and to nothing else.
set -eu
cc=$1
dir=$2
mkdir -p "$dir"

# The path by which the host's compiler finds header $1.
where() {
    echo "#include <$1>" | $cc -E -x c - 2>/dev/null |
        sed -n "s|^# [0-9]* \"\(/.*/$1\)\".*|\1|p" | head -n 1
}

for header in ev.h sodium.h uthash.h utlist.h linux/types.h asm/types.h asm-generic/types.h; do
    path=$(where "$header")
    [ -n "$path" ] || { echo "$cc does not find <$header>" >&2; exit 1; }
    case $header in
    */*) path=${path%/*} header=${header%/*} ;;
    esac
    ln -sfn "$path" "$dir/$header"
done
ln -sfn "$(dirname "$(where sodium/version.h)")" "$dir/sodium"
