#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make install PREFIX=/usr/local [DESTDIR=] [PYTHONDIR=]: copy what .venv got to PREFIX.
#
# Nothing that is installed has its prefix compiled in (a test checks that), so the files are the
# same everywhere and nothing is compiled again for another place.
set -eu
cd "$(dirname "$0")/.."

case ${PREFIX-} in
/*) ;;
'')
    echo 'usage: make install PREFIX=/usr/local [DESTDIR=] [PYTHONDIR=]' >&2
    exit 2
    ;;
*)
    echo "install: PREFIX must be an absolute path, not '$PREFIX'" >&2
    exit 2
    ;;
esac
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
meson install -C build --no-rebuild --quiet --strip --destdir "$stage"
from=$stage$(pwd)/.venv
to=${DESTDIR-}$PREFIX
to_python=${DESTDIR-}$PYTHONDIR

mkdir -p "$to" "$to_python"
site=$from/$(.venv/bin/python -c 'import os, sys, sysconfig
print(os.path.relpath(sysconfig.get_path("purelib"), sys.prefix))')
if [ -d "$site" ]; then
    # meson strips what it linked, not the copies beside the Python package.
    cp "$from/lib/"libreigen*.so "$site/reigen/"
    cp -R --preserve=mode "$site/." "$to_python/"
    rm -rf "$site"
    rmdir -p "${site%/*}" 2>/dev/null || true
fi
cp -R --preserve=mode "$from/." "$to/"
# Agents for hosts of another architecture, where `make agents` has built some.
for agent in build/agents/reigen-agent-*; do
    [ ! -x "$agent" ] || install -m 755 "$agent" "$to/bin/${agent##*/}"
done
echo "installed: $to/bin/reigen, $to_python/horovod"
"$python" -c 'import sys; sys.exit(sys.argv[1] not in sys.path)' "$PYTHONDIR" ||
    echo "python: export PYTHONPATH=$PYTHONDIR"
