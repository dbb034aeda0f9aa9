#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whether the static agent's relocations can be packed, and who unpacks them.
#
# usage: musl-relr.sh MUSL_GCC SOURCE DIR START...
#   SOURCE: src/programs/agent/relocate.c; DIR: for what is tried; START: the start files of
#   musl-crt.sh.
# Prints the linker's options: none, those that musl itself is made for, or those with SOURCE.
set -u
gcc=$1 source=$2 dir=$3
shift 3
mkdir -p "$dir" || exit 1
cat >"$dir/relr.c" <<'END'
static const char *const names[] = { "a", "b" };
int main(int argc, char **argv)
{
    return argv[argc] || *names[argc] != 'b';
}
END
try()
{
    "$gcc" -Os -fPIE -nostartfiles -static -o "$dir/relr" "$@" "$dir/relr.c" \
        -Wl,-pie,--no-dynamic-linker,-z,text,-z,pack-relative-relocs >"$dir/relr.log" 2>&1 &&
        "$dir/relr" 2>/dev/null
}
if try "$@"; then
    echo -Wl,-z,pack-relative-relocs
elif try "$@" "$source" -Wl,-e,rg_start; then
    echo -Wl,-z,pack-relative-relocs,-e,rg_start
fi
exit 0
