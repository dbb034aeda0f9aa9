#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make demo: four ranks of an ordinary Horovod script train on handwritten digits.
set -eu
cd "$(dirname "$0")/.."
tools/deps.sh demo
tools/build.sh --quiet
mkdir -p build/demo
exec .venv/bin/reigen run -np 4 -- .venv/bin/python examples/pytorch_mnist.py --out build/demo "$@"
