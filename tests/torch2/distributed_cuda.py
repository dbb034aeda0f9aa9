# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors over the backend "reigen", on the stand-in driver of tests/python/ranks/gpu.py. Two
ranks.

PyTorch's C++ knows nothing of the stand-in. So what it has for streams is missing: the futures here
are those of the CPU, and DDP cannot run.
"""
import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'python/ranks'))

import gpu  # noqa: E402  before the others
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from reigen.distributed import _stream, _work  # noqa: E402
from reigen.torch import _device  # noqa: E402

_device._raw_stream = None  # of the stand-in's streams it knows nothing
_work.new_future = lambda outputs: torch.futures.Future()
torch.cuda.get_device_capability = lambda device=None: (8, 0)


def on_gpu(*numbers, dtype=torch.float32):
    return gpu.to_device(torch.tensor(numbers, dtype=dtype))


def holds(tensor, *numbers):
    found = tensor.cpu().reshape(-1).tolist()
    assert tensor.is_cuda and found == list(numbers), (found, numbers)


def fails(call, *words):
    try:
        call()
    except (ValueError, RuntimeError) as error:
        assert all(word in str(error) for word in words), str(error)
        return
    raise AssertionError(f'this was to fail with {words}')


def reductions(me):
    for op, wanted in ((dist.ReduceOp.SUM, 3), (dist.ReduceOp.AVG, 1.5), (dist.ReduceOp.MAX, 2)):
        tensor = on_gpu(me + 1, me + 1)
        dist.all_reduce(tensor, op)
        holds(tensor, wanted, wanted)
    tensor = on_gpu(me + 1, dtype=torch.int32)
    dist.all_reduce(tensor, dist.ReduceOp.BOR)
    holds(tensor, 3)
    tensor = on_gpu(me + 1)
    dist.reduce(tensor, 1)
    holds(tensor, 3 if me else 1)
    big = gpu.to_device(torch.full((100000,), me + 1.0))
    dist.all_reduce(big)
    assert (big.cpu() == 3).all()
    out = on_gpu(0)
    dist.reduce_scatter_tensor(out, on_gpu(me, 10 + me))
    holds(out, 21 if me else 1)
    out = gpu.to_device(torch.zeros(50000))
    dist.reduce_scatter_tensor(out, big)
    assert (out.cpu() == 6).all()


def moves(me):
    tensor = on_gpu(me, me)
    dist.broadcast(tensor, 1)
    holds(tensor, 1, 1)
    out = on_gpu(9, 9, 9, 9)
    dist.all_gather_into_tensor(out, on_gpu(me, me + 1))
    holds(out, 0, 1, 1, 2)
    places = [on_gpu(9), on_gpu(9)]
    dist.all_gather(places, on_gpu(me + 5))
    holds(places[0], 5), holds(places[1], 6)
    out = on_gpu(9, 9)
    dist.all_to_all_single(out, on_gpu(10 * me, 10 * me + 1))
    holds(out, me, 10 + me)
    dist.scatter(out, [on_gpu(1, 2), on_gpu(3, 4)] if me == 0 else None, 0)
    holds(out, *([3, 4] if me else [1, 2]))
    dist.barrier()


def messages(me):
    """They are staged through the host's memory."""
    tensor = on_gpu(7, 8) if me == 0 else on_gpu(0, 0)
    if me == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
    holds(tensor, 7, 8)


def streams(me):
    """The order is that of the streams that submit and that wait."""
    one, other = (gpu.Stream(gpu.current_device()) for _ in range(2))
    for _ in range(20):
        with gpu.stream(one):
            tensor = gpu.to_device(torch.zeros(1000, dtype=torch.uint8))
            one.fill(tensor, me + 1)
            work = dist.all_reduce(tensor, async_op=True)
        with gpu.stream(other):
            work.wait()
            assert (tensor.cpu() == 3).all()
        with gpu.stream(one):
            work.wait()  # again, where another stream has ended it
            assert (tensor.cpu() == 3).all()
        parts = []
        with gpu.stream(one):
            source = gpu.to_device(torch.full((3000,), float(me)))
            parts = [gpu.to_device(torch.zeros(3000)) for _ in range(2)]
            work = dist.all_gather(parts, source, async_op=True)
            del source
        with gpu.stream(other):
            work.wait()
        with gpu.stream(one):
            work.wait()
            assert [part.cpu().mean().item() for part in parts] == [0, 1]
    works = [dist.all_reduce(gpu.to_device(torch.ones(5)), async_op=True) for _ in range(70)]
    del works  # nobody waits, and their names are used again
    tensor = gpu.to_device(torch.ones(5))
    for _ in range(70):
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
    holds(tensor, 1, 1, 1, 1, 1)


def futures(me):
    tensor = on_gpu(me + 1)
    work = dist.all_reduce(tensor, async_op=True)
    told = threading.Event()
    future = work.get_future().then(lambda done: told.set() or done.value())
    assert future.wait()[0] is not None and told.is_set()
    assert work.wait() and work.is_completed() and work.is_success()
    holds(tensor, 3)
    # What fails in the thread that completes a future is told by it.
    _stream._streams.clear()
    made, torch.cuda.Stream = torch.cuda.Stream, no_stream
    future = dist.all_reduce(tensor, async_op=True).get_future()
    fails(future.wait, 'the GPU has failed')
    torch.cuda.Stream = made


def no_stream(device):
    raise RuntimeError(f'the GPU has failed: {device}')


def refusals(me):
    fails(lambda: dist.all_gather_into_tensor(torch.zeros(2), on_gpu(1)), 'different places')
    fails(lambda: dist.all_reduce(torch.ones(2).to('meta')), 'CUDA devices')
    fails(lambda: dist.all_reduce(on_gpu(1) if me else torch.ones(1)))  # in different places
    tensor = on_gpu(me + 1)
    dist.all_reduce(tensor)
    holds(tensor, 3)
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert (tensor == 2).all()


def main():
    gpu.set_device(int(os.environ['LOCAL_RANK']))
    dist.init_process_group('reigen')
    me = dist.get_rank()
    assert dist.get_backend() == 'reigen'
    assert str(dist.get_backend_config()) == 'cpu:reigen,cuda:reigen'
    for check in (reductions, moves, messages, streams, futures, refusals):
        check(me)
        print(f'{check.__name__} passed', flush=True)
    dist.destroy_process_group()
    if me == 0:
        print('all good on GPUs', flush=True)


if __name__ == '__main__':
    main()
