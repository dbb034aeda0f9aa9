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
exec /usr/bin/python3 tools/check.py "$@"
