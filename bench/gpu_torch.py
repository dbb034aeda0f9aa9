# SPDX-License-Identifier: Apache-2.0
"""What a call costs the host, in Python: hvd.allreduce_async beside torch.distributed's all_reduce
on NCCL, on the same CUDA tensors, in turns. One JSON object per size on rank 0's standard output.

usage: gpu_torch.py ROUNDS        with the variables that torchrun sets; bench/gpu.py runs it
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import horovod.torch as hvd

SIZES = [4, 4096, 65536, 1 << 20]
CALLS = 200


def timed(call, wait):
    """Microseconds of a call until the host is free; what it has begun is waited for later."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    pending = [call(i) for i in range(CALLS)]
    took = time.perf_counter() - began
    for one in pending:
        wait(one)
    torch.cuda.synchronize()
    return took / CALLS * 1e6


def main():
    rounds = int(sys.argv[1])
    torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
    dist.init_process_group('nccl')
    hvd.init()
    for nbytes in SIZES:
        tensors = [torch.zeros(nbytes // 4, device='cuda') for _ in range(CALLS)]

        def by_nccl(i):
            return dist.all_reduce(tensors[i], async_op=True)

        def by_hvd(i):
            return hvd.allreduce_async_(tensors[i], op=hvd.Sum, name=f'b{i}')

        found = []
        for turn in range(rounds + 2):
            pair = {}
            for name in ('nccl', 'hvd')[::1 if turn % 2 else -1]:
                if name == 'nccl':
                    pair[name] = timed(by_nccl, lambda work: work.wait())
                else:
                    pair[name] = timed(by_hvd, hvd.synchronize)
            if turn > 1:
                found.append([pair['nccl'], pair['hvd']])
        if dist.get_rank() == 0:
            print(json.dumps({'bytes': nbytes, 'rounds': found}), flush=True)
    hvd.shutdown()
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
