#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make check, check-all and soak: packages, build, then tools/check.py.
#
# usage: tools/check.sh check|check-all [PART...]
#        tools/check.sh soak [TIME] [--since=COMMIT] [PART...]
set -eu
cd "$(dirname "$0")/.."
tools/deps.sh "$1"
tools/build.sh --quiet
if [ ! -e build/.tests ]; then
    meson configure build -Dtests=enabled
    : >build/.tests
    tools/build.sh --quiet
fi
# A test in Python runs this one, too (tests/behaviour/test_tree.py); tools/build.sh makes none.
ninja -C build tests/test_coll_tree >build/ninja-tests.log 2>&1 || {
    cat build/ninja-tests.log >&2
    exit 1
}
# Tests keep Python from writing down what it compiles, and start thousands of ranks.
.venv/bin/python -m compileall -q bindings/python/reigen bindings/python/horovod \
    .venv/lib/python3*/site-packages/reigen .venv/lib/python3*/site-packages/horovod
exec /usr/bin/python3 tools/check.py "$@"
