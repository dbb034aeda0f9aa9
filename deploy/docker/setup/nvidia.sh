#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Let the loader find the libraries of NVIDIA's packages, so that nobody needs LD_LIBRARY_PATH.
set -eu
site=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
for lib in "$site"/nvidia/*/lib /usr/local/lib/python3*/dist-packages/nvidia/*/lib; do
    [ ! -d "$lib" ] || echo "$lib"
done | sort -u >/etc/ld.so.conf.d/reigen-nvidia.conf
ldconfig
