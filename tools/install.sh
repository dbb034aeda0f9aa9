#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make install PREFIX=/usr/local [DESTDIR=] [PYTHONDIR=]: copy what .venv got to PREFIX.
# make uninstall PREFIX=/usr/local [DESTDIR=]: remove what make install has put there.
#
# PREFIX/share/reigen/installed lists each file and each folder that was made. It is written before
# the files are, so that an installation that was interrupted can be removed as well. Installing
# over another version removes what only that one had.
#
# Nothing that is installed has its prefix compiled in (a test checks that), so the files are the
# same everywhere and nothing is compiled again for another place.
set -eu
cd "$(dirname "$0")/.."

command=install
if [ "${1-}" = --uninstall ]; then
    command=uninstall
fi
case ${PREFIX-} in
/*) ;;
'')
    echo "usage: make $command PREFIX=/usr/local [DESTDIR=] [PYTHONDIR=]" >&2
    exit 2
    ;;
*)
    echo "$command: PREFIX must be an absolute path, not '$PREFIX'" >&2
    exit 2
    ;;
esac
DESTDIR=${DESTDIR-}
manifest=$PREFIX/share/reigen/installed

# Remove the files that the list in $1 names and the list in $2 does not, then the folders that
# `make install` has made, where nothing else lies in them.
remove() {
    local kind path
    grep -vxF -f "$2" "$1" | while read -r kind path; do
        [ "$kind" != file ] || rm -f "$DESTDIR$path"
    done
    # What lies in a folder comes before it.
    grep -vxF -f "$2" "$1" | sed -n 's/^dir //p' | LC_ALL=C sort -r | while read -r path; do
        # Python keeps what it has compiled beside the sources.
        [ "${path##*/}" = bin ] || rm -rf "$DESTDIR$path/__pycache__"
        rmdir "$DESTDIR$path" 2>/dev/null || true
    done
}

if [ "$command" = uninstall ]; then
    if [ ! -f "$DESTDIR$manifest" ]; then
        echo "uninstall: nothing to remove: $DESTDIR$manifest, which make install writes, is not" \
            "there; was PREFIX another one?" >&2
        exit 1
    fi
    list=$(mktemp "${TMPDIR:-/tmp}/reigen-uninstall.XXXXXX")
    trap 'rm -f "$list"' EXIT
    cp "$DESTDIR$manifest" "$list"
    remove "$list" /dev/null
    echo "uninstalled: $(grep -c '^file' "$list") files below $DESTDIR$PREFIX"
    exit 0
fi
# shellcheck source=tools/progress.sh
. tools/progress.sh
tools/build.sh --quiet

python=$(tools/python.sh)
version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
# Debian's own python looks for packages of the administrator's under this name.
if [ -z "${PYTHONDIR-}" ]; then
    case $python:$PREFIX in
    /usr/bin/*:/usr/local) PYTHONDIR=$PREFIX/lib/$version/dist-packages ;;
    /usr/bin/*:/usr) PYTHONDIR=$PREFIX/lib/python3/dist-packages ;;
    *) PYTHONDIR=$PREFIX/lib/$version/site-packages ;;
    esac
fi

stage=$(mktemp -d "${TMPDIR:-/tmp}/reigen-install.XXXXXX")
trap 'rm -rf "$stage"' EXIT
step 'install: collecting the files' \
    meson install -C build --no-rebuild --quiet --strip --destdir "$stage"
from=$stage$(pwd)/.venv
to=$DESTDIR$PREFIX
to_python=$DESTDIR$PYTHONDIR

site=$from/$(.venv/bin/python -c 'import os, sys, sysconfig
print(os.path.relpath(sysconfig.get_path("purelib"), sys.prefix))')
mkdir -p "$stage/prefix" "$stage/python"
if [ -d "$site" ]; then
    # meson strips what it linked, not the copies beside the Python package.
    cp "$from/lib/"libreigen*.so "$site/reigen/"
    cp -R --preserve=mode "$site/." "$stage/python/"
    rm -rf "$site"
    rmdir -p "${site%/*}" 2>/dev/null || true
fi
cp -R --preserve=mode "$from/." "$stage/prefix/"
# Agents for hosts of another architecture, where `make agents` has built some.
for agent in build/agents/reigen-agent-*; do
    [ ! -x "$agent" ] || install -m 755 "$agent" "$stage/prefix/bin/${agent##*/}"
done
# The examples, with the part of MNIST that they train on, but nothing that running them has made.
mkdir -p "$stage/prefix/share/reigen"
cp -R --preserve=mode examples "$stage/prefix/share/reigen/"
find "$stage/prefix/share/reigen/examples" -name __pycache__ -type d -prune -exec rm -rf {} +

# The folders down to $1 that are not there yet, the outermost first.
missing_above() {
    local path=$1 found=
    while [ "$path" != / ] && [ ! -d "$DESTDIR$path" ]; do
        found="dir $path
$found"
        path=$(dirname "$path")
    done
    printf %s "$found"
}

# One line "$1 PATH" for each folder (dir), or for everything else (file), below $2 of the stage, as
# it is called below $3.
below() {
    local test=
    [ "$1" = dir ] || test=!
    # shellcheck disable=SC2086  # nothing, or one word
    find "$2" -mindepth 1 $test -type d -printf '%P\n' | while IFS= read -r path; do
        printf '%s %s/%s\n' "$1" "$3" "$path"
    done
}

: >"$stage/old"
[ ! -f "$DESTDIR$manifest" ] || cp "$DESTDIR$manifest" "$stage/old"
{
    missing_above "$PREFIX"
    missing_above "$PYTHONDIR"
    below dir "$stage/prefix" "$PREFIX" | while read -r kind path; do
        [ -d "$DESTDIR$path" ] || echo "$kind $path"
    done
    below dir "$stage/python" "$PYTHONDIR"
    grep '^dir ' "$stage/old" || true
    below file "$stage/prefix" "$PREFIX"
    below file "$stage/python" "$PYTHONDIR"
    echo "file $manifest"
} | LC_ALL=C sort -u >"$stage/new"

mkdir -p "$to" "$to_python" "$DESTDIR${manifest%/*}"
# Until everything is there, the list holds what was there before, too.
LC_ALL=C sort -u "$stage/new" "$stage/old" >"$DESTDIR$manifest"
cp -R --preserve=mode "$stage/python/." "$to_python/"
cp -R --preserve=mode "$stage/prefix/." "$to/"
remove "$stage/old" "$stage/new"
cp "$stage/new" "$DESTDIR$manifest"
echo "installed: $to/bin/reigen, $to_python/horovod, $to/share/reigen/examples"
"$python" -c 'import sys; sys.exit(sys.argv[1] not in sys.path)' "$PYTHONDIR" ||
    echo "python: export PYTHONPATH=$PYTHONDIR"
