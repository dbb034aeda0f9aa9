#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Print where musl's start files for a static position-independent program are: rcrt1.o, crti.o and
# crtn.o, one per line.
#
# usage: tools/musl-crt.sh MUSL_GCC
#
# The wrapper's -print-file-name answers with the host's libc; the directory is therefore taken from
# the link command that it would run.
set -eu
dir=$("$1" -static '-###' -x c /dev/null 2>&1 | tr ' ' '\n' | tr -d '"' | sed -n 's|/crti\.o$||p' |
    head -n 1)
for name in rcrt1.o crti.o crtn.o; do
    [ -r "$dir/$name" ] || { echo "$1 has no $name (looked in '$dir')" >&2; exit 1; }
    echo "$dir/$name"
done
