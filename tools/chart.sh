#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make chart: package deploy/chart into build/dist.
set -eu
cd "$(dirname "$0")/.."
helm=${HELM:-helm}
command -v "$helm" >/dev/null || {
    echo 'make chart: helm is not in PATH; install it, or name it in HELM' >&2
    exit 69
}
mkdir -p build/dist
"$helm" package deploy/chart -d build/dist
