#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Intel MPI from PyPI in /opt/impi, and what its libfabric and UCX need for RDMA devices. No file
# of a licence is asked for.
#
# usage: impi.sh VERSION    an empty one: the latest
set -eu
version=${1-}
sh "${0%/*}/apt.sh" python3-venv ibverbs-providers libibverbs1 librdmacm1 libucx0
python3 -m venv /opt/impi
/opt/impi/bin/pip install -q --no-cache-dir --disable-pip-version-check \
    "impi-rt${version:+==$version}"
# /opt/impi/bin comes first in PATH, as Intel's mpirun runs the mpiexec.hydra of PATH; its python is
# not the image's.
rm -f /opt/impi/bin/python* /opt/impi/bin/pip* /opt/impi/bin/[Aa]ctivate*
echo /opt/impi/lib >/etc/ld.so.conf.d/impi.conf
ldconfig
