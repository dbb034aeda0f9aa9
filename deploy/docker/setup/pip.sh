#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install Python packages for the system's python: an image is one environment.
set -eu
export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
exec python3 -m pip install -q --no-cache-dir "$@"
