#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Open MPI's defaults, so that they need not be typed with each mpirun.
set -eu
cat >>/etc/openmpi/openmpi-mca-params.conf <<'END'

# -bind-to none -map-by slot: a rank has threads, and they want cores of their own.
hwloc_base_binding_policy = none
rmaps_base_mapping_policy = slot
# Docker's seccomp profile forbids cross-memory attach, and then every message between ranks of a
# container would be tried that way, refused, and complained about ("Read -1, expected ..., errno =
# 1"). A container with --cap-add=SYS_PTRACE may use it: -mca btl_vader_single_copy_mechanism cma
btl_vader_single_copy_mechanism = none
# With --network=host every host has a docker0 of the same address, which leads nowhere.
btl_tcp_if_exclude = lo,docker0
oob_tcp_if_exclude = docker0
END
# -x NCCL_DEBUG=INFO, read by NCCL itself, with every launcher. (mca_base_env_list would do it too,
# but mpirun refuses -x beside it.)
grep -qs '^NCCL_DEBUG' /etc/nccl.conf || echo NCCL_DEBUG=INFO >>/etc/nccl.conf
