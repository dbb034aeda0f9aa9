#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A worker: an sshd, through which mpirun or reigen starts ranks.
trap 'exit 143' TERM INT # a process 1 ignores what it does not handle
. /horovod/generated/ssh.sh
prepare_ssh worker
find_sshd
echo "reigen: sshd listens on port $(own_port worker)"
run_sshd worker exec -D -e
