#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build Horovod 0.28.1 from PyPI, the peer, for Debian's PyTorch with gloo and Open MPI.
#
# usage: bench/horovod.sh [MINUTES]
#
# Takes 5 to 15 minutes of two cores, once: the wheel is kept in build/peers, and unpacked into
# build/peers/horovod, which goes into PYTHONPATH. After a failure, or after MINUTES (25), a note in
# build/peers/horovod.failed keeps later runs from trying again.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/progress.sh
. tools/progress.sh
peers=$(pwd)/build/peers
limit=${1:-25}
mkdir -p "$peers"
[ ! -e "$peers/horovod/horovod/torch/__init__.py" ] || exit 0
if [ -e "$peers/horovod.failed" ]; then
    echo "horovod: not built: $(cat "$peers/horovod.failed")"
    echo "horovod: remove build/peers/horovod.failed to try again"
    exit 1
fi

python=/usr/bin/python3
wheel=$(ls "$peers"/horovod-0.28.1-*.whl 2>/dev/null || true)
if [ -z "$wheel" ]; then
    progress "horovod: building 0.28.1 from PyPI, at most $limit minutes, once" \
        "$peers/horovod.log" env HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 \
        HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 \
        HOROVOD_CPU_OPERATIONS=MPI MAKEFLAGS=-j2 CMAKE_BUILD_PARALLEL_LEVEL=2 \
        timeout "$((limit * 60))" nice -n 19 "$python" -m pip wheel --no-deps \
        --no-build-isolation --no-binary :all: --wheel-dir "$peers" horovod==0.28.1 || {
        echo "pip wheel ended with $? after at most $limit minutes, see build/peers/horovod.log" \
            >"$peers/horovod.failed"
        echo "horovod: $(cat "$peers/horovod.failed")"
        exit 1
    }
    wheel=$(ls "$peers"/horovod-0.28.1-*.whl)
fi
rm -rf "$peers/horovod.new" "$peers/horovod"
"$python" -m pip install --quiet --no-deps --root-user-action ignore \
    --target "$peers/horovod.new" "$wheel"
mv "$peers/horovod.new" "$peers/horovod"
