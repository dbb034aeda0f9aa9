#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The same without a terminal:
#
#     sbatch -N 2 --output=slurm-%j-pytorch_hvd_mnist.out --wrap=./pytorch_mnode/sbatch_pytorch.sh
#
# IMAGE names the container; srun_docker.sh is taken from PATH. What --wrap adds goes to the script:
# --wrap='./pytorch_mnode/sbatch_pytorch.sh --epochs=5'.
here=$(cd "$(dirname "$0")" && pwd)

exec srun srun_docker.sh \
    --container="${IMAGE:-pytorch_hvd}" \
    --script="$here/pytorch_hvd_mnist_example.sh" \
    "$@"
