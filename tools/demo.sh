#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make demo: four ranks of an ordinary Horovod script train on handwritten digits.
set -eu
cd "$(dirname "$0")/.."
tools/deps.sh demo
tools/build.sh --quiet
exec .venv/bin/python examples/demo.py -np 4 --out build/demo "$@"
