#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make demo: four ranks of an ordinary Horovod script train on handwritten digits.
set -eu
cd "$(dirname "$0")/.."
tools/deps.sh demo
tools/build.sh --quiet
# The list of the user's jobs gets no entry: the demo leaves nothing outside of this folder.
XDG_STATE_HOME=$(pwd)/build/state
export XDG_STATE_HOME
exec .venv/bin/python examples/demo.py -np 4 --out build/demo "$@"
