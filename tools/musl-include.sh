#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Give the musl build the few headers of the host that do not depend on a libc.
#
# usage: tools/musl-include.sh DIR CC...
#
# CC is the compiler's command, which has several words where meson has found ccache.
# musl's compiler wrapper searches its own headers only, and adding /usr/include would mix two
# libcs. DIR gets links to libsodium, uthash and the kernel's headers, to BearSSL's where
# they are, and to nothing else.
set -eu
dir=$1
shift
mkdir -p "$dir"

# where HEADER CC...: the path by which the host's compiler finds a header.
where() {
    wanted=$1
    shift
    echo "#include <$wanted>" | "$@" -E -x c - 2>/dev/null |
        sed -n "s|^# [0-9]* \"\(/.*/$wanted\)\".*|\1|p" | head -n 1
}

for header in sodium.h uthash.h utlist.h linux/types.h asm/types.h asm-generic/types.h; do
    path=$(where "$header" "$@")
    [ -n "$path" ] || { echo "$* does not find <$header>" >&2; exit 1; }
    case $header in
    */*) path=${path%/*} header=${header%/*} ;;
    esac
    ln -sfn "$path" "$dir/$header"
done
ln -sfn "$(dirname "$(where sodium/version.h "$@")")" "$dir/sodium"
bearssl=$(where bearssl.h "$@")
[ -z "$bearssl" ] || ln -sfn "${bearssl%/*}"/bearssl* "$dir/"
