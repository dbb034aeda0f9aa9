#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch's own distributed training; mpirun only starts the ranks.
#
#     salloc -N 2
#     srun srun_docker.sh --container=IMAGE --epochs=5 \
#         --script=./pytorch_mnode/pytorch_dist_mnist_example.sh
#
# hostlist (node1:2,node2:2) and np come from srun_docker.sh, and so do all options that it does not
# know; they are handed to the program.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../needs.sh"
need mpirun
tell_options "$here/pytorch_dist_mnist.py" "$@"

# Open MPI asks for the shell of the other nodes' users, and remarks on one it does not know.
export SHELL=/bin/bash

exec mpirun -H "$hostlist" -np "$np" -x SHELL -bind-to none -x hostlist \
    "$python" "$here/pytorch_dist_mnist.py" "$@"
