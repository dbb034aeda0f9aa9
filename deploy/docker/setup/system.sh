#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Python under both of its names, Open MPI, OpenSSH, and what a person looks around with.
set -eu
sh "${0%/*}/apt.sh" python3 python3-pip python-is-python3 openmpi-bin openssh-client \
    openssh-server ca-certificates procps iproute2
