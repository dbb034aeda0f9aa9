#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A virtual environment with PyTorch 2 from PyPI, for CPUs, in build/torch2/venv. Downloads 0.6 GB
# once; a second run does nothing.
set -eu
cd "$(dirname "$0")/../.."
where=$(pwd)/build/torch2
[ ! -e "$where/ready" ] || exit 0
rm -rf "$where/venv"
mkdir -p "$where"
/usr/bin/python3 -m venv "$where/venv"
pip="$where/venv/bin/pip --quiet --disable-pip-version-check --no-cache-dir"
# nvidia's packages, which torch names, are several GB that a CPU has no use for.
$pip install --no-deps 'torch>=2'
$pip install numpy typing_extensions filelock sympy networkx jinja2 fsspec setuptools
site=$("$where/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$where/venv/bin/python" tests/torch2/stubs.py "$site/torch"
"$where/venv/bin/python" -c 'import torch; print("torch", torch.__version__)'
touch "$where/ready"
