#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `make wheel` does: build, link once more against an old glibc, and write build/dist/*.whl.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/progress.sh
. tools/progress.sh
tools/build.sh --quiet
python=$(tools/frameworks.sh zig)
step 'wheel' "$python" tools/pack.py "$@"
