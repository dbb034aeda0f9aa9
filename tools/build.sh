#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `make` does: packages, .venv, meson, ninja, and the installation into .venv.
#
# Every step leaves its stamp when it is complete and not before, so that a run which was
# interrupted anywhere is finished by the next one.
set -eu
cd "$(dirname "$0")/.."
here=$(pwd)
mkdir -p build
exec 9>build/.lock
flock 9

now() { date +%s%N; }
start=$(now)
# The time since $1 in seconds, with one decimal.
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f s", (b - a) / 1e9 }'; }
did=
# shellcheck source=tools/progress.sh
. tools/progress.sh

tools/deps.sh build 9>&-
base=$(tools/python.sh)

# .venv: stands on $base and sees its packages.
make_venv() {
    rm -rf .venv build/.installed
    "$base" -m venv --system-site-packages .venv
    # The torch of another virtual environment is no site package of that one's base; a path file
    # in .venv comes before the system's packages.
    find_torch='import importlib.util as u, os
s = u.find_spec("torch")
print(os.path.dirname(os.path.dirname(s.origin)) if s else "")'
    site=$("$base" -c "$find_torch")
    if [ "$(.venv/bin/python -c "$find_torch")" != "$site" ]; then
        echo "$site" >"$(.venv/bin/python -c \
            'import sysconfig; print(sysconfig.get_path("purelib"))')/reigen-torch.pth"
    fi
    echo "$here $base" >.venv/.reigen
}
t=$(now)
if [ "$(cat .venv/.reigen 2>/dev/null)" != "$here $base" ] || [ ! -x .venv/bin/python ]; then
    progress 'python: making .venv' build/venv.log make_venv 9>&- || {
        cat build/venv.log >&2
        exit 1
    }
    echo "python: .venv from $base, $(since "$t")"
    did=1
fi

# The build directory, with .venv as its prefix. Options' defaults count at the first setup only, so
# another meson.build's defaults ask for another one.
# A run that was interrupted may have left a build.ninja that cannot even be read.
if [ -e build/.before ] && [ -e build/build.ninja ]; then
    ninja -C build -t targets >/dev/null 2>&1 9>&- || rm -f build/.configured
fi
setup="$here $base $(sed -n '/^project(/,/)$/p' meson.build | cksum)"
t=$(now)
if [ "$(cat build/.configured 2>/dev/null)" != "$setup" ] || [ ! -e build/build.ninja ]; then
    rm -rf build/.configured build/.installed build/.tests
    rm -rf build/meson-* build/build.ninja build/.ninja_*
    pythondir=$(.venv/bin/python -c 'import os, sys, sysconfig
print(os.path.relpath(sysconfig.get_path("purelib"), sys.prefix))')
    # ninja's `all` holds every test; tools/check.sh asks for them when it wants them.
    if ! progress 'build: configuring' build/setup.log meson setup build . --prefix "$here/.venv" \
        --libdir lib -Dpythondir="$pythondir" -Dtests=disabled 9>&-; then
        cat build/setup.log >&2
        exit 1
    fi
    echo "$setup" >build/.configured
fi
: >build/.before
# What is made where nobody asks for more, but for the tests in C: Meson counts these in, and who
# runs some of them makes those.
targets() {
    ninja -C build -t query all | sed -n '/^  outputs:/q; s/^    \([^| ]*\)$/\1/p' |
        grep -v 'prereq$'
}
compile() {
    ninja -C build build.ninja || return
    # shellcheck disable=SC2046 # names of files in the build directory, without a space
    ninja -C build $(targets)
}
if ! progress 'build: compiling' build/ninja.log compile 9>&-; then
    grep -v '^\[[0-9]*/[0-9]*\] ' build/ninja.log >&2 || true
    ninja -C build -t targets >/dev/null 2>&1 9>&- || rm -f build/.configured
    exit 1
fi
grep 'warning: ' build/ninja.log | head -n 20 || true
if [ build/.ninja_log -nt build/.before ]; then
    echo "build: $(since "$t")"
    did=1
fi

# Installed files follow what was built, and the sources that are installed as they are.
t=$(now)
# The time before the installation, so that what changes meanwhile is installed by the next run.
: >build/.before
if [ ! -e build/.installed ] ||
    [ -n "$(find src include bindings docs meson.build build/src build/bindings build/docs \
        build/meson-private/install.dat -name __pycache__ -prune -o \
        -type f -newer build/.installed -print -quit 2>/dev/null)" ]; then
    # By its time a file that was half copied looks like one that is up to date.
    changed=
    [ ! -e build/.installed ] || changed=--only-changed
    rm -f build/.installed
    if ! progress 'install: into .venv' build/install.log \
        meson install -C build --no-rebuild $changed 9>&-; then
        cat build/install.log >&2
        exit 1
    fi
    mv build/.before build/.installed
    echo "install: .venv, $(since "$t")"
    did=1
fi
rm -f build/.before

if [ -n "$did" ]; then
    echo "ready in $(since "$start"): .venv/bin/reigen, .venv/bin/python (try: make demo)"
elif [ "${1-}" != --quiet ]; then
    echo "up to date: .venv/bin/reigen, .venv/bin/python (try: make demo, make help)"
fi
