#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make bench: packages, build, the peers, then bench/bench.py with the arguments given here.
set -eu
cd "$(dirname "$0")/.."
tools/deps.sh bench
tools/build.sh --quiet
bench/horovod.sh || true
tools/frameworks.sh tf >/dev/null || true
exec /usr/bin/python3 bench/bench.py "$@"
