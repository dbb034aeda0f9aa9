#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make check-gpu, and the figures of make bench ARGS=--gpu: on a machine with a GPU, with one rank
# by NCCL and several on the first GPU by staging. Nothing is fetched or installed.
#
# usage: tools/gpu.sh check           every operation and type against the host's results
#        tools/gpu.sh bench [ARG...]  figures, as bench/gpu.py says; writes docs/benchmarks-gpu.md
#
# Needs a C compiler, the GPU's driver (libcuda.so.1) and NCCL 2.18 or newer (libnccl.so.2: the
# system's, that of a PyTorch that `python3` finds, or REIGEN_NCCL=FILE), and what builds the
# library: meson, ninja and its dependencies. Ends with 69 and a line for each of them that is
# missing. PYTHON=FILE is another python with PyTorch. REIGEN_BUILD=FOLDER has the library built,
# and REIGEN_GPU_OUT=FOLDER takes the programs.
set -eu
cd "$(dirname "$0")/.."
case ${1-} in
check | bench) ;;
*)
    sed -n 's/^# usage: /usage: /p; s/^#        tools/       tools/p' "$0" >&2
    exit 64
    ;;
esac
what=$1
shift
out=${REIGEN_GPU_OUT:-build-gpu}
mkdir -p "$out"
flags='-O2 -g -Wall -Wextra -D_GNU_SOURCE -Iinclude -Itests/gpu'
cc=${CC:-cc}

missing=
lacks() {
    echo "gpu: $1 is missing${2:+ (Debian, Ubuntu: apt-get install $2)}" >&2
    missing=1
}

command -v "$cc" >/dev/null || lacks 'a C compiler' 'gcc libc6-dev'
if [ -z "$missing" ]; then
    # shellcheck disable=SC2086
    "$cc" $flags -o "$out/look" tests/gpu/look.c tests/gpu/device.c -ldl
    "$out/look" || exit 69
fi

# The library: where REIGEN_BUILD says, in build/ if `make` has been there, else on its own.
build=${REIGEN_BUILD:-build}
if [ -z "${REIGEN_BUILD-}" ]; then
    for command in meson ninja pkg-config python3; do
        case $command in
        ninja) package=ninja-build ;;
        *) package=$command ;;
        esac
        command -v $command >/dev/null || lacks "$command" $package
    done
    if command -v pkg-config >/dev/null; then
        for package in libsodium libfyaml jansson; do
            case $package in
            jansson) debian=libjansson-dev ;;
            *) debian=$package-dev ;;
            esac
            pkg-config --exists $package || lacks $package $debian
        done
    fi
    if command -v "$cc" >/dev/null; then
        echo '#include <uthash.h>' | "$cc" -E - >/dev/null 2>&1 || lacks uthash uthash-dev
    fi
    [ -z "$missing" ] || exit 69
    if [ ! -e build/build.ninja ]; then
        build=$out/build
        [ -e "$build/build.ninja" ] ||
            meson setup "$build" . -Dtests=disabled >"$out/setup.log" || {
            cat "$out/setup.log" >&2
            exit 69
        }
    fi
    ninja -C "$build" src/coll/libreigen.so >"$out/ninja.log" || {
        cat "$out/ninja.log" >&2
        exit 1
    }
fi
[ -z "$missing" ] || exit 69
library=$(cd "$build/src/coll" && pwd)

# compile NAME SOURCE...
compile() {
    name=$1
    shift
    # shellcheck disable=SC2086
    "$cc" $flags -o "$out/$name" "$@" tests/gpu/device.c "-L$library" -lreigen \
        "-Wl,-rpath,$library" -ldl
}

python=${PYTHON:-python3}
# PyTorch that reaches this GPU; it also tells where its NCCL is.
has_torch=
nccl=$("$python" -c 'import torch, pathlib
assert torch.cuda.is_available()
found = [f for f in pathlib.Path(torch.__file__).parents[1].glob("nvidia/nccl/lib/libnccl.so.2")]
print(found[0] if found else "")' 2>/dev/null) && has_torch=1
[ -z "$nccl" ] || export REIGEN_NCCL="${REIGEN_NCCL:-$nccl}"

# try NAME TARGET PROGRAM CONDITION: the framework's program on one rank and on two, where `python3`
# has the framework and it reaches this GPU. TARGET is built for it.
try() {
    if ! "$python" -c "$4" >/dev/null 2>&1; then
        echo "$1: not tried, as $python has none that reaches this GPU"
        return
    fi
    if [ -z "${REIGEN_BUILD-}" ]; then
        ninja -C "$build" "$2" >"$out/ninja.log" || {
            cat "$out/ninja.log" >&2
            exit 1
        }
    fi
    for ranks in 1 2; do
        # Ranks that share a GPU must not take all of its memory.
        PYTHONPATH=$PWD/bindings/python REIGEN_LIBRARY="$library/libreigen.so" \
            XLA_PYTHON_CLIENT_PREALLOCATE=false "$python" "$3" $ranks
    done
}

if [ "$what" = check ]; then
    compile check tests/gpu/check.c
    "$out/check" "$@"
    if [ -n "$has_torch" ]; then
        for ranks in 1 2; do
            PYTHONPATH=$PWD/bindings/python REIGEN_LIBRARY="$library/libreigen.so" \
                "$python" tests/gpu/check_torch.py $ranks
        done
    else
        echo "hvd.torch: not tried, as $python has no PyTorch that reaches this GPU"
    fi
    try horovod.jax bindings/jax/libreigen_jax.so tests/gpu/check_jax.py \
        'import jax; assert jax.devices("cuda")'
    try horovod.tensorflow bindings/tensorflow/libreigen_tensorflow.so tests/gpu/check_tf.py \
        'import tensorflow; assert tensorflow.config.list_physical_devices("GPU")'
    exit
fi
compile bench -Isrc bench/gpu.c
exec python3 bench/gpu.py --program "$out/bench" ${has_torch:+--torch "$python"} \
    --library "$library/libreigen.so" "$@"
