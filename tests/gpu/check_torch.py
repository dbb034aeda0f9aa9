# SPDX-License-Identifier: Apache-2.0
"""make check-gpu: `horovod.torch` on CUDA tensors, against the same calls on CPU tensors.

usage: check_torch.py RANKS        starts so many ranks on the first GPU, and waits for them
"""
import os
import socket
import subprocess
import sys

DTYPES = ['uint8', 'int8', 'int16', 'int32', 'int64', 'float16', 'bfloat16', 'float32', 'float64']


def check():
    import torch
    import horovod.torch as hvd
    hvd.init()
    torch.cuda.set_device(0)
    rank, size = hvd.rank(), hvd.size()
    compared = 0

    def both(call, tensor):
        nonlocal compared
        gpu, cpu = call(tensor.cuda()), call(tensor)
        assert gpu.is_cuda, call
        assert torch.equal(gpu.cpu(), cpu), (call, tensor.dtype, gpu, cpu)
        compared += 1

    for name in DTYPES:
        tensor = (torch.arange(1000) % 3 + rank % 2).to(getattr(torch, name))
        for op in (hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product):
            both(lambda t, op=op: hvd.allreduce(t, op=op, name='a'), tensor)
        both(lambda t: hvd.allgather(t[:10 + rank], name='g'), tensor)
        both(lambda t: hvd.broadcast(t, size - 1, name='b'), tensor)
        both(lambda t: hvd.reducescatter(t, op=hvd.Sum, name='s'), tensor)
        splits = torch.full((size,), 5, dtype=torch.int32)
        both(lambda t, s=splits: hvd.alltoall(t[:5 * size], s, name='t')[0], tensor)

    # A model's parameters after a few steps are the same on all ranks, and on the CPU.
    found = []
    for device in ('cuda', 'cpu'):
        torch.manual_seed(0)
        model = torch.nn.Linear(20, 5, dtype=torch.float64).to(device)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1),
                                             named_parameters=model.named_parameters())
        torch.manual_seed(1 + rank)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(8, 20, dtype=torch.float64).to(device)).square().mean().backward()
            optimizer.step()
        found.append(model.weight.detach().cpu())
    assert torch.allclose(found[0], found[1], rtol=1e-9), 'training on the GPU differs'
    hvd.shutdown()
    if rank == 0:
        print(f'hvd.torch, {size} rank{"s"[:size > 1]} on one GPU: {compared} operations as on the '
              'CPU, and five steps of training', flush=True)


def main():
    if 'RANK' in os.environ:
        check()
        return 0
    size = int(sys.argv[1])
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    env = {**os.environ, 'WORLD_SIZE': str(size), 'MASTER_ADDR': '127.0.0.1',
           'MASTER_PORT': str(port)}
    ranks = [subprocess.Popen([sys.executable, __file__],
                              env={**env, 'RANK': str(rank), 'LOCAL_RANK': str(rank)})
             for rank in range(size)]
    try:
        return max(rank.wait(300) != 0 for rank in ranks)
    finally:
        for rank in ranks:
            rank.kill()


if __name__ == '__main__':
    sys.exit(main())
