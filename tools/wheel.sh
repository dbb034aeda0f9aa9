#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `make wheel` does: build, link once more against an old glibc, and write build/dist/*.whl.
set -eu
cd "$(dirname "$0")/.."
tools/build.sh --quiet
exec "$(tools/frameworks.sh zig)" tools/pack.py "$@"
