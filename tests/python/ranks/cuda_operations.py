# SPDX-License-Identifier: Apache-2.0
"""Every operation on CUDA tensors, against NumPy. Arguments: the device of each rank, `own` (NCCL)
or `same` (through the host)."""
import gc
import sys
import threading
import time

import numpy as np

import gpu
import torch

import checks
import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError
from reigen.torch import _device

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def ramp(shape, rank, high=11):
    """Small whole numbers, other ones on each rank."""
    count = int(np.prod(shape))
    return (np.arange(count) * 7 + rank * 3).reshape(shape) % high


def put(array, dtype):
    return torch.from_numpy(np.ascontiguousarray(array)).to(dtype).cuda()


def mine(shape, dtype, high=11):
    return put(ramp(shape, hvd.rank(), high), dtype)


def everyones(shape, high=11, ranks=None):
    return [ramp(shape, r, high) for r in (range(hvd.size()) if ranks is None else ranks)]


def same(tensor, array, exact=True):
    assert tensor.is_cuda and tensor.device == torch.device('cuda', gpu.current_device()), tensor
    expected = torch.from_numpy(np.ascontiguousarray(array)).to(tensor.dtype)
    found = tensor.cpu()
    assert found.shape == expected.shape, (found.shape, expected.shape)
    if exact:
        assert torch.equal(found, expected), (found, expected)
    else:
        torch.testing.assert_close(found, expected)


def check_reductions_of_all_types():
    for dtype in INTEGERS + FLOATS + [torch.bool]:
        high = 2 if dtype is torch.bool else 4
        for shape in [(), (0,), (100, 33)]:
            parts = np.stack(everyones(shape, high))
            wanted = {hvd.Sum: parts.sum(0), hvd.Min: parts.min(0), hvd.Max: parts.max(0),
                      hvd.Product: parts.prod(0)}
            for op, result in wanted.items():
                tensor = mine(shape, dtype, high)
                same(hvd.allreduce(tensor, op=op), result)
                same(hvd.synchronize(hvd.allreduce_async(tensor, op=op, name='a')), result)
                same(tensor, ramp(shape, hvd.rank(), high))
                assert hvd.allreduce_(tensor, op=op, name='in place') is tensor
                same(tensor, result)


def check_averages_and_factors():
    for dtype in FLOATS:
        parts = np.stack(everyones((40,)))
        same(hvd.allreduce(mine((40,), dtype)), parts.mean(0), exact=False)
        same(hvd.allreduce(mine((40,), dtype), op=hvd.Sum, prescale_factor=0.5,
                           postscale_factor=4.0), parts.sum(0) * 2.0, exact=False)
    for dtype in INTEGERS:
        total = np.stack(everyones((40,))).sum(0)
        same(hvd.allreduce(mine((40,), dtype), op=hvd.Average), total // hvd.size())


def check_adasum_is_the_hosts():
    for dtype in FLOATS:
        tensor = torch.from_numpy(ramp((30,), hvd.rank())).to(dtype)
        here, there = (hvd.allreduce(t, op=hvd.Adasum) for t in (tensor.cuda(), tensor))
        assert torch.equal(here.cpu(), there), dtype


def check_groups_of_one_and_of_several_types():
    shapes = [(5,), (0,), (2, 3), (700,)]
    for dtypes in ([torch.float32] * 4, [torch.float64, torch.int32, torch.float64, torch.int64]):
        for name in (None, 'g'):
            tensors = [mine(shape, dtype) for shape, dtype in zip(shapes, dtypes)]
            sums = [np.stack(everyones(shape)).sum(0) for shape in shapes]
            for out, total in zip(hvd.grouped_allreduce(tensors, op=hvd.Sum, name=name), sums):
                same(out, total)
            gathered = hvd.grouped_allgather(tensors, name=name)
            for out, shape in zip(gathered, shapes):
                same(out, np.concatenate(everyones(shape)))
            parts = hvd.grouped_reducescatter(tensors, op=hvd.Sum, name=name)
            for out, total in zip(parts, sums):
                same(out, np.array_split(total, hvd.size())[hvd.rank()])
            hvd.grouped_allreduce_(tensors, op=hvd.Sum, name=name)
            for tensor, total in zip(tensors, sums):
                same(tensor, total)


def check_allgather_of_equal_and_unequal_parts():
    for dtype in INTEGERS + FLOATS + [torch.bool]:
        for rows in (lambda r: 4, lambda r: r, lambda r: 0 if r else 3, lambda r: 0):
            tensor = put(ramp((rows(hvd.rank()), 3), hvd.rank(), 2), dtype)
            everything = [ramp((rows(r), 3), r, 2) for r in range(hvd.size())]
            same(hvd.allgather(tensor, name='gather'), np.concatenate(everything))
            same(hvd.allgather(tensor), np.concatenate(everything))


def check_broadcast():
    for dtype in INTEGERS + FLOATS + [torch.bool]:
        for root in range(hvd.size()):
            tensor = mine((3, 5), dtype, 2)
            same(hvd.broadcast(tensor, root), ramp((3, 5), root, 2))
            same(tensor, ramp((3, 5), hvd.rank(), 2))
            hvd.broadcast_(tensor, root, name='b')
            same(tensor, ramp((3, 5), root, 2))
    assert hvd.broadcast_object({'rank': hvd.rank()}, 0) == {'rank': 0}


def check_alltoall_with_splits_and_without():
    size, rank = hvd.size(), hvd.rank()
    for dtype in INTEGERS + FLOATS:
        tensor = mine((2 * size, 3), dtype)
        expected = np.concatenate([part[2 * rank:2 * rank + 2]
                                   for part in everyones((2 * size, 3))])
        same(hvd.alltoall(tensor), expected)
        # rank r sends i rows to rank i
        splits = torch.arange(size, dtype=torch.int32)
        tensor = mine((size * (size - 1) // 2, 2), dtype)
        begin = rank * (rank - 1) // 2
        expected = np.concatenate([part[begin:begin + rank]
                                   for part in everyones((size * (size - 1) // 2, 2))])
        for given in (splits, splits.tolist(), splits.cuda()):
            result, received = hvd.alltoall(tensor, given, name='all')
            same(result, expected)
            assert received.tolist() == [rank] * size
            assert received.is_cuda == (isinstance(given, torch.Tensor) and given.is_cuda)


def check_reducescatter():
    for dtype in INTEGERS + FLOATS:
        for rows in (hvd.size(), 2 * hvd.size() + 1, 1):
            total = np.stack(everyones((rows, 3), 4)).sum(0)
            same(hvd.reducescatter(mine((rows, 3), dtype, 4), op=hvd.Sum),
                 np.array_split(total, hvd.size())[hvd.rank()])


def check_sparse_tensors():
    indices = torch.tensor([[0, hvd.rank()], [1, 2]]).cuda()
    tensor = torch.sparse_coo_tensor(indices, mine((2,), torch.float32), torch.Size([9, 9]))
    result = hvd.sparse_allreduce_async(tensor, 'sparse', hvd.Average)()
    same(result.values(), np.concatenate(everyones((2,))) / hvd.size(), exact=False)
    same(result.indices(), np.array([[i for r in range(hvd.size()) for i in (0, r)],
                                     [1, 2] * hvd.size()]))


def check_strided_tensors():
    tensor = mine((6, 4), torch.float32).t()
    total = np.stack(everyones((6, 4))).sum(0).T
    same(hvd.allreduce(tensor, op=hvd.Sum), total)
    hvd.allreduce_(tensor, op=hvd.Sum)
    same(tensor, total)
    tensor = mine((6, 4), torch.float32)[:, 1:3]
    hvd.broadcast_(tensor, 0)
    same(tensor, ramp((6, 4), 0)[:, 1:3])
    tensors = [mine((6, 4), torch.float32).t(), mine((3,), torch.float32)]
    hvd.grouped_allreduce_(tensors, op=hvd.Sum)
    same(tensors[0], total)


def check_compression():
    result = hvd.allreduce(mine((40,), torch.float32), op=hvd.Sum, compression=hvd.Compression.fp16)
    assert result.dtype is torch.float32
    same(result, np.stack(everyones((40,))).sum(0))


def check_process_sets():
    if hvd.size() == 1:
        return
    members = list(range(0, hvd.size(), 2))
    one = hvd.add_process_set(members)
    if one.included():
        parts = everyones((20,), ranks=members)
        tensor = mine((20,), torch.float32)
        same(hvd.allreduce(tensor, op=hvd.Sum, process_set=one), np.stack(parts).sum(0))
        same(hvd.allgather(tensor, process_set=one), np.concatenate(parts))
        same(hvd.broadcast(tensor, members[-1], process_set=one), parts[-1])
        same(hvd.allreduce(tensor, process_set=one), np.stack(parts).mean(0), exact=False)
    hvd.barrier()
    hvd.remove_process_set(one)


def check_a_rank_that_has_joined_gives_zeros():
    if hvd.rank() == hvd.size() - 1:
        last = hvd.join(gpu.current_device())
    else:
        for turn in range(3):
            total = np.stack(everyones((50,), ranks=range(hvd.size() - 1))).sum(0)
            same(hvd.allreduce(mine((50,), torch.float32), op=hvd.Sum, name=f'j{turn}'), total)
        last = hvd.join(gpu.current_device())
    assert 0 <= last < hvd.size()


# ---------------------------------------------------------------------------- streams

def check_an_operation_is_in_order_on_the_current_stream():
    one, other = gpu.Stream(gpu.current_device()), gpu.Stream(gpu.current_device())
    for turn in range(10):
        with gpu.stream(one):
            tensor = mine((3000,), torch.uint8)
            for byte in range(5, -1, -1):
                one.fill(tensor, byte + turn)
            handle = hvd.allreduce_async(tensor, op=hvd.Sum, name='s')
            gathered = hvd.allgather_async(tensor, name='s')
        with gpu.stream(other):
            same(hvd.synchronize(handle), np.full(3000, turn * hvd.size()))
            same(hvd.synchronize(gathered), np.full(3000 * hvd.size(), turn))
            # What is freed here was allocated for the other stream.
            assert other in tensor._memory.recorded
        del tensor, handle, gathered
    one.synchronize()
    other.synchronize()
    one.destroy()
    other.destroy()


def check_memory_may_be_dropped_once_it_has_been_waited_for():
    for turn in range(20):
        handles = [hvd.allreduce_async(mine((5000,), torch.float32), op=hvd.Sum, name=f'd{i}')
                   for i in range(4)]
        for handle in handles:
            hvd.synchronize(handle)
        mine((5000,), torch.float32)
    same(hvd.allreduce(mine((5,), torch.float32), op=hvd.Sum), np.stack(everyones((5,))).sum(0))


def check_poll_asks_the_device():
    stream = gpu.Stream(gpu.current_device())
    with gpu.stream(stream):
        tensor = mine((4000,), torch.float32)
        for _ in range(300):
            stream.fill(tensor, 0)
        handle = hvd.allreduce_async(tensor, op=hvd.Sum, name='poll')
        first = hvd.poll(handle)
        deadline = time.monotonic() + 30
        while not hvd.poll(handle):
            assert time.monotonic() < deadline
        assert not first
        # Nothing has been waited for, and yet the device is through.
        hvd.synchronize(handle)
        same(hvd.allreduce(tensor, op=hvd.Sum, name='poll'), np.zeros(4000))


def check_synchronize_does_not_wait_for_the_device():
    if sys.argv[1] != 'own':
        return
    stream = gpu.Stream(gpu.current_device())
    with gpu.stream(stream):
        tensor = mine((100,), torch.float32)
        hvd.allreduce(tensor, op=hvd.Sum, name='free')  # makes what is made once
        stream.synchronize()
        with stream.held():
            hvd.synchronize(hvd.allreduce_async(tensor, op=hvd.Sum, name='free'))
            assert not stream.idle(), 'the host has waited for the stream'
    hvd.barrier()


# ---------------------------------------------------------------------------- names and threads

def check_operations_without_a_name_that_nobody_waits_for():
    for turn in range(200):
        hvd.allreduce_async(mine((3,), torch.float32), op=hvd.Sum)
        if turn % 50 == 0:
            hvd.grouped_allreduce_async([mine((3,), torch.float32)], op=hvd.Sum)
    same(hvd.allreduce(mine((7,), torch.float32), op=hvd.Sum), np.stack(everyones((7,))).sum(0))


def check_an_outcome_that_is_asked_for_late():
    """The name is used again first, when something else has been waited for."""
    for make in (lambda n: hvd.allreduce_async(mine((n,), torch.float32), op=hvd.Sum, name='late'),
                 lambda n: hvd.allgather_async(mine((n,), torch.float32), name='late')):
        first = make(5)
        same(hvd.allreduce(mine((9,), torch.float32), op=hvd.Sum, name='other'),
             np.stack(everyones((9,))).sum(0))
        hvd.barrier()
        second = make(6)
        ways = (lambda n: np.stack(everyones((n,))).sum(0),
                lambda n: np.concatenate(everyones((n,))))
        results = hvd.synchronize(second), hvd.synchronize(first)
        way = ways[len(results[0]) != 6]
        same(results[0], way(6))
        same(results[1], way(5))


def check_one_name_on_the_gpu_and_on_the_cpu_in_turn():
    for turn in range(4):
        for name in ('both', None):
            tensor = torch.from_numpy(ramp((40,), hvd.rank())).float()
            total = np.stack(everyones((40,))).sum(0)
            same(hvd.allreduce(tensor.cuda(), op=hvd.Sum, name=name), total)
            assert np.array_equal(hvd.allreduce(tensor, op=hvd.Sum, name=name).numpy(), total)


def check_a_thread_goes_back_to_cpu_tensors():
    def work():
        with gpu.stream(stream):
            same(hvd.allreduce(mine((5,), torch.float32), op=hvd.Sum, name='t'),
                 np.stack(everyones((5,))).sum(0))
        # An empty tensor has no address to tell where it is.
        for shape in ((0,), (4,)):
            out = hvd.allreduce(torch.ones(shape), op=hvd.Sum, name=f't{shape}')
            assert out.is_cpu and out.shape == shape and (out == hvd.size()).all()
            out = hvd.allgather(torch.ones(shape), name='t')
            assert out.is_cpu and len(out) == shape[0] * hvd.size()
            hvd.broadcast_(torch.ones(shape), 0, name='t')
            assert hvd.grouped_allreduce([torch.ones(shape)], name='t')[0].is_cpu
        done.append(True)

    stream, done = gpu.Stream(gpu.current_device()), []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done


# ---------------------------------------------------------------------------- refusals

def goes_on():
    same(hvd.allreduce(mine((5,), torch.float32), op=hvd.Sum, name='on'),
         np.stack(everyones((5,))).sum(0))


def check_tensors_in_different_places_are_refused():
    here, there = torch.ones(3).cuda(), torch.ones(3)
    own = f'cuda:{gpu.current_device()}'
    for call in (lambda: hvd.grouped_allreduce([here, there]),
                 lambda: hvd.grouped_allreduce([there, here]),
                 lambda: hvd.grouped_allgather([here, there]),
                 lambda: hvd.grouped_allreduce_([here, there], name='mixed')):
        checks.raises(ValueError, call, 'different places', own, 'cpu')
    from reigen import torch as plain
    for tensor, out in ((here, there), (there, here)):
        checks.raises(ValueError, lambda: plain.allreduce(tensor, out=out), own, 'cpu')
        checks.raises(ValueError, lambda: plain.broadcast(tensor, out=out), own, 'cpu')
        checks.raises(ValueError, lambda: plain.grouped_allreduce_async([tensor], outs=[out]),
                      own, 'cpu')
    goes_on()


def check_two_gpus_are_refused():
    other = (gpu.current_device() + 1) % 4
    far = gpu.to_device(torch.ones(3), other)
    near = torch.ones(3).cuda()
    checks.raises(ValueError, lambda: hvd.grouped_allreduce([near, far]),
                  f'cuda:{gpu.current_device()}', f'cuda:{other}')
    checks.raises(ValueError, lambda: hvd.allreduce(far, name='far'), f'GPU {other}',
                  f'GPU {gpu.current_device()}', 'each rank uses one GPU')
    goes_on()


def check_a_tensor_on_another_rank_s_cpu_is_an_error_on_all():
    if hvd.size() == 1:
        return
    tensor = torch.ones(3) if hvd.rank() == 0 else torch.ones(3).cuda()
    for name in ('place', None):
        checks.raises(HorovodInternalError, lambda: hvd.allreduce(tensor, name=name),
                      'Mismatched ALLREDUCE CPU/GPU device selection')
    checks.raises(HorovodInternalError, lambda: hvd.allgather(tensor, name='place'), 'CPU/GPU')
    goes_on()


def check_mismatches_are_errors_and_the_job_goes_on():
    rows = 4 if hvd.rank() == 0 else 5
    if hvd.size() > 1:
        checks.raises(HorovodInternalError,
                      lambda: hvd.allreduce(mine((rows,), torch.float32), name='shape'),
                      'Mismatched')
    checks.raises(ValueError, lambda: hvd.allreduce(torch.ones(3).cuda(), op=17), '17')
    first = hvd.allreduce_async(torch.ones(3).cuda(), name='use')
    checks.raises(ValueError, lambda: hvd.allreduce_async(torch.ones(3).cuda(), name='use'),
                  'same name')
    hvd.synchronize(first)
    goes_on()


def check_a_capture_is_refused_with_what_to_do():
    stream = gpu.Stream(gpu.current_device())
    with gpu.stream(stream):
        tensor = mine((5,), torch.float32)
        stream.synchronize()
        stream.capture(True)
        for call in (lambda: hvd.allreduce(tensor, name='c'), lambda: hvd.allgather(tensor),
                     lambda: hvd.grouped_allreduce([tensor, tensor])):
            checks.raises(ValueError, call, 'captured into a CUDA graph', 'after the capture')
        stream.capture(False)
        same(tensor, ramp((5,), hvd.rank()))
        goes_on()


def check_a_stream_that_is_gone():
    stream = gpu.Stream(gpu.current_device())
    with gpu.stream(stream):
        handle = hvd.allreduce_async(mine((5,), torch.float32), op=hvd.Sum, name='gone')
        stream.synchronize()
    result = hvd.synchronize(handle)
    same(result, np.stack(everyones((5,))).sum(0))
    del result
    stream.destroy()
    goes_on()


def check_what_is_found_is_told():
    assert hvd.cuda_built() and hvd.nccl_built() == 22105
    for tensor, where in ((torch.ones(1).cuda(), gpu.current_device()), (torch.ones(1), -1)):
        assert _device.of(tensor) == where


def check_nothing_is_left():
    from reigen import _handles
    for handle in list(_handles.table):
        hvd.synchronize(handle)
    gc.collect()
    before = gpu.alive()
    for _ in range(30):
        hvd.allgather(mine((50,), torch.float32), name='left')
        hvd.allreduce(mine((50,), torch.float32), name='left')
        hvd.grouped_allreduce([mine((50,), torch.float32)], name='left')
    gc.collect()
    gpu.current_stream().synchronize()
    assert gpu.alive() <= before + 4, (before, gpu.alive())


if __name__ == '__main__':
    hvd.init(process_sets='dynamic')
    gpu.set_device(hvd.rank() % 4 if sys.argv[1] == 'own' else 0)
    checks.run(sys.modules[__name__], *sys.argv[2:])
    hvd.shutdown()
