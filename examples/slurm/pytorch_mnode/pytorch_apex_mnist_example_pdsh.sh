#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch in mixed precision, started by pdsh: no MPI is needed.
#
#     salloc -N 2
#     srun srun_docker.sh --container=IMAGE --epochs=5 \
#         --script=./pytorch_mnode/pytorch_apex_mnist_example_pdsh.sh
#
# On each node of $hostlist (node1:2,node2:2) pdsh runs this script again, which starts that node's
# ranks. MASTER_ADDR and MASTER_PORT, where they meet, are srun_docker.sh's if it has set them.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../needs.sh"
need pdsh
tell_options "$here/pytorch_apex_mnist.py" "$@"
IFS=, read -ra hosts <<<"$hostlist"
export MASTER_ADDR=${MASTER_ADDR:-${hosts[0]%%:*}} MASTER_PORT=${MASTER_PORT:-29500}

# Start the ranks of the node of this number, and wait: the first code that is not 0.
start_ranks() {
    local node=$1 base=0 i pids=() code=0
    shift
    for ((i = 0; i < node; i++)); do
        base=$((base + ${hosts[i]##*:}))
    done
    for ((i = 0; i < ${hosts[node]##*:}; i++)); do
        RANK=$((base + i)) LOCAL_RANK=$i "$python" "$here/pytorch_apex_mnist.py" "$@" &
        pids+=($!)
    done
    for _ in "${pids[@]}"; do
        # One that fails leaves the others waiting for it.
        wait -n || { code=$?; kill "${pids[@]}" 2>/dev/null; wait; break; }
    done
    return $code
}

if [ "$1" = --node ]; then
    shift
    start_ranks "$@"
    exit
fi

# pdsh puts the node's number in the place of %n, and a % in that of %%.
words=$(printf ' %q' "${@//%/%%}")
variables=$(printf ' %q' "hostlist=$hostlist" "WORLD_SIZE=$np" "MASTER_ADDR=$MASTER_ADDR" \
    "MASTER_PORT=$MASTER_PORT")
exec pdsh -S -R ssh -f "${#hosts[@]}" -w "$(printf '%s\n' "${hosts[@]%%:*}" | paste -sd,)" \
    "cd $(printf %q "$PWD") && env$variables bash $(printf %q "$here/${0##*/}") --node %n$words"
