#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `make agents` does: build, and build the agent once more for the other architecture.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/progress.sh
. tools/progress.sh
tools/build.sh --quiet
tools/frameworks.sh zig >/dev/null
case $(uname -m) in
aarch64) other=x86_64 ;;
*) other=aarch64 ;;
esac
step "agents: for $other" /usr/bin/python3 tools/cross.py "$other"
