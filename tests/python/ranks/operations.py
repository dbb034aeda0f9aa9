# SPDX-License-Identifier: Apache-2.0
"""Every operation, with every element type."""
import sys

import torch

import checks
import horovod.torch as hvd

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SHAPES = [(), (1,), (17,), (3, 4, 5), (0,), (2, 0, 3), (1000, 33)]


def ramp(shape, dtype, seed):
    """Small whole numbers, other ones for each seed."""
    count = int(torch.Size(shape).numel())
    return ((torch.arange(count) * 7 + seed * 3) % 11).reshape(shape).to(dtype)


def everyones(shape, dtype):
    return [ramp(shape, dtype, r) for r in range(hvd.size())]


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
    assert torch.equal(a, b), (a, b)


def check_sum_min_max_product_of_all_types():
    for dtype in INTEGERS + FLOATS:
        for shape in SHAPES:
            parts = everyones(shape, dtype)
            mine, kept = parts[hvd.rank()].clone(), parts[hvd.rank()].clone()
            wide = torch.stack([p.to(torch.float64) for p in parts])
            same(hvd.allreduce(mine, op=hvd.Sum), wide.sum(0).to(dtype))
            if dtype not in (torch.int8, torch.uint8):
                small = [p % 5 for p in parts]
                product = torch.stack([p.to(torch.float64) for p in small]).prod(0).to(dtype)
                same(hvd.allreduce(small[hvd.rank()], op=hvd.Product), product)
            same(hvd.allreduce(mine, op=hvd.Min), wide.amin(0).to(dtype))
            same(hvd.allreduce(mine, op=hvd.Max), wide.amax(0).to(dtype))
            same(mine, kept)


def check_average_divides_and_truncates_integers():
    for dtype in FLOATS:
        parts = everyones((40,), dtype)
        mean = (torch.stack([p.double() for p in parts]).sum(0) / hvd.size()).to(dtype)
        torch.testing.assert_close(hvd.allreduce(parts[hvd.rank()]), mean)
    for dtype in INTEGERS:
        parts = everyones((40,), dtype)
        total = torch.stack([p.long() for p in parts]).sum(0)
        truncated = torch.div(total, hvd.size(), rounding_mode='trunc').to(dtype)
        same(hvd.allreduce(parts[hvd.rank()], op=hvd.Average), truncated)
    negative = torch.tensor([-1 - hvd.rank(), -7], dtype=torch.int32)
    total = torch.tensor([-hvd.size() * (hvd.size() + 1) // 2, -7 * hvd.size()])
    if hvd.size() == 2:
        mine = torch.tensor([-37 - hvd.rank()], dtype=torch.int32)
        assert hvd.allreduce(mine).item() == -37  # of -75
    same(hvd.allreduce(negative),
         torch.div(total, hvd.size(), rounding_mode='trunc').to(torch.int32))


def check_bool_is_or_and_and():
    mine = torch.tensor([hvd.rank() == 0, True, False])
    same(hvd.allreduce(mine, op=hvd.Sum), torch.tensor([True, True, False]))
    same(hvd.allreduce(mine, op=hvd.Max), torch.tensor([True, True, False]))
    last = torch.tensor([hvd.size() == 1, True, False])
    same(hvd.allreduce(mine, op=hvd.Min), last)
    same(hvd.allreduce(mine, op=hvd.Product), last)
    checks.raises((hvd.HorovodInternalError, ValueError), lambda: hvd.allreduce(mine))


def check_scales_and_old_average_argument():
    mine = torch.full((5,), float(hvd.rank() + 1))
    total = hvd.size() * (hvd.size() + 1) / 2
    result = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    torch.testing.assert_close(result, torch.full((5,), 2 * total))
    torch.testing.assert_close(hvd.allreduce(mine, average=False), torch.full((5,), total))
    torch.testing.assert_close(hvd.allreduce(mine, average=True),
                               torch.full((5,), total / hvd.size()))
    checks.raises(ValueError, lambda: hvd.allreduce(mine, average=True, op=hvd.Sum))


def check_in_place_works_on_strided_tensors():
    base = torch.zeros(6, 8)
    view = base.t()[1:5, ::2]
    assert not view.is_contiguous()
    view.fill_(hvd.rank() + 1.0)
    result = hvd.allreduce_(view, op=hvd.Sum, name='strided')
    assert result is view
    total = hvd.size() * (hvd.size() + 1) / 2
    assert torch.equal(view, torch.full_like(view, total))
    assert base.sum() == total * view.numel()
    image = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
    torch.testing.assert_close(hvd.allreduce(hvd.broadcast(image, 0)), hvd.broadcast(image, 0))


def check_many_in_flight_with_and_without_names():
    tensors = [torch.full((n % 7 + 1,), float(n + hvd.rank())) for n in range(300)]
    ranks = sum(range(hvd.size()))
    for named in (True, False, True, False):
        order = list(range(300))
        if named and hvd.rank() % 2:
            order.reverse()
        handles = {n: hvd.allreduce_async(tensors[n], op=hvd.Sum,
                                          name=f'many.{n}' if named else None) for n in order}
        for n, handle in handles.items():
            result = hvd.synchronize(handle)
            assert torch.equal(result, torch.full((n % 7 + 1,), float(n * hvd.size() + ranks)))
        assert hvd.synchronize(handles[0]) is None


def check_unnamed_ones_do_not_block_what_the_others_wait_for():
    """More unnamed ones than there are names, against a rank that does something else first."""
    ones = torch.ones(1)
    if hvd.rank() == 0:
        handles = [hvd.allreduce_async(ones, op=hvd.Sum) for _ in range(300)]
        hvd.allreduce(ones, name='between')
    else:
        hvd.allreduce(ones, name='between')
        handles = [hvd.allreduce_async(ones, op=hvd.Sum) for _ in range(300)]
    for handle in reversed(handles):
        assert hvd.synchronize(handle).item() == hvd.size()


def check_poll_becomes_true():
    handle = hvd.allreduce_async(torch.ones(10), name='polled')
    while not hvd.poll(handle):
        pass
    again = hvd.allreduce_async(torch.zeros(10), name='polled')
    assert hvd.synchronize(handle)[0] == 1
    assert hvd.synchronize(again)[0] == 0
    checks.raises(ValueError, lambda: hvd.poll(handle))


def check_grouped_allreduce():
    for inplace in (False, True):
        tensors = [torch.full((n + 1,), float(hvd.rank()), dtype=dtype)
                   for n, dtype in enumerate([torch.float32, torch.float32, torch.float64,
                                              torch.int32, torch.float32])]
        call = hvd.grouped_allreduce_ if inplace else hvd.grouped_allreduce
        for name in ('group', None, None):
            results = call([t.fill_(hvd.rank()) for t in tensors], name=name, op=hvd.Sum)
            for tensor, result in zip(tensors, results):
                assert (result is tensor) == inplace
                assert torch.equal(result, torch.full_like(result, sum(range(hvd.size()))))
    handles = [hvd.grouped_allreduce_async([torch.ones(2), torch.ones(3)], op=hvd.Sum)
               for _ in range(40)]
    for handle in handles:
        assert hvd.synchronize(handle)[1][0] == hvd.size()
    checks.raises(ValueError, lambda: hvd.grouped_allreduce([]))


def check_allgather_of_unequal_parts():
    for dtype in INTEGERS + FLOATS + [torch.bool]:
        mine = torch.full((hvd.rank() + 1, 3), hvd.rank() % 2, dtype=dtype)
        expected = torch.cat([torch.full((r + 1, 3), r % 2, dtype=dtype)
                              for r in range(hvd.size())])
        same(hvd.allgather(mine), expected)
    none_here = torch.ones(hvd.rank() * 2, 2)
    assert hvd.allgather(none_here, name='empty').shape == (hvd.size() * (hvd.size() - 1), 2)
    a, b = hvd.grouped_allgather([torch.ones(hvd.rank() + 1), torch.zeros(2, 2)], name='both')
    assert a.shape == (hvd.size() * (hvd.size() + 1) // 2,) and b.shape == (2 * hvd.size(), 2)


def check_broadcast_from_every_root():
    for root in range(hvd.size()):
        for dtype in INTEGERS + FLOATS + [torch.bool]:
            mine = ramp((5, 2), torch.int64, hvd.rank()).to(dtype)
            kept = mine.clone()
            same(hvd.broadcast(mine, root), ramp((5, 2), torch.int64, root).to(dtype))
            same(mine, kept)
            assert hvd.broadcast_(mine, root) is mine
            same(mine, ramp((5, 2), torch.int64, root).to(dtype))
    strided = torch.full((4, 6), float(hvd.rank())).t()
    assert torch.equal(hvd.broadcast_(strided, 0), torch.zeros(6, 4))


def check_alltoall_with_and_without_splits():
    n, r = hvd.size(), hvd.rank()
    mine = torch.arange(2 * n).reshape(n * 2, 1) + 100 * r
    expected = torch.cat([torch.arange(2 * r, 2 * r + 2).reshape(2, 1) + 100 * s
                          for s in range(n)])
    same(hvd.alltoall(mine), expected)
    splits = torch.tensor([s + 1 for s in range(n)], dtype=torch.int32)
    rows = torch.full((int(splits.sum()), 2), float(r))
    output, received = hvd.alltoall(rows, splits=splits)
    same(received, torch.full((n,), r + 1, dtype=torch.int32))
    assert torch.equal(output[:, 0], torch.arange(n).repeat_interleave(r + 1).float())
    checks.raises((hvd.HorovodInternalError, ValueError),
                  lambda: hvd.alltoall(rows, splits=splits.to(torch.int64)), '32-bit')


def check_reducescatter_of_uneven_rows():
    n, r = hvd.size(), hvd.rank()
    rows = 2 * n + 1
    mine = torch.arange(rows * 3, dtype=torch.float32).reshape(rows, 3) * (r + 1)
    total = torch.arange(rows * 3, dtype=torch.float32).reshape(rows, 3) * (n * (n + 1) / 2)
    parts = total.tensor_split(n)
    torch.testing.assert_close(hvd.reducescatter(mine, op=hvd.Sum), parts[r])
    torch.testing.assert_close(hvd.reducescatter(mine), parts[r] / n)
    a, b = hvd.grouped_reducescatter([mine, mine[:n]], op=hvd.Sum)
    torch.testing.assert_close(a, parts[r])
    torch.testing.assert_close(b, total[r:r + 1])


#: Types that are moved, where this PyTorch has them.
OTHERS = ['uint32', 'uint64', 'float8_e4m3fn', 'float8_e5m2', 'float8_e8m0fnu', 'float4_e2m1fn_x2',
          'complex32', 'complex64', 'complex128']


def of_bits(dtype, rank, rows=6):
    size = torch.empty(0, dtype=dtype).element_size()
    return (torch.arange(rows * size) % 50 + rank).to(torch.uint8).view(dtype)


def bits_of(tensor):
    return tensor.contiguous().view(torch.uint8)


def check_every_type_is_moved():
    rank, size = hvd.rank(), hvd.size()
    for dtype in [getattr(torch, name) for name in OTHERS if hasattr(torch, name)]:
        parts = [bits_of(of_bits(dtype, r)) for r in range(size)]
        mine = of_bits(dtype, rank)
        same(bits_of(hvd.broadcast(mine, size - 1)), parts[-1])
        hvd.broadcast_parameters({'w': mine}, root_rank=0)
        same(bits_of(mine), parts[0])
        mine = of_bits(dtype, rank)
        same(bits_of(hvd.allgather(mine)), torch.cat(parts))
        same(bits_of(hvd.grouped_allgather([mine, torch.ones(2)])[0]), torch.cat(parts))
        got, _ = hvd.alltoall(mine[:size], torch.ones(size, dtype=torch.int32))
        each = len(parts[0]) // 6
        same(bits_of(got), torch.cat([part[rank * each:][:each] for part in parts]))
        if not dtype.is_complex:
            for call in (hvd.allreduce, hvd.allreduce_, hvd.reducescatter):
                checks.raises(ValueError, lambda: call(of_bits(dtype, rank)),
                              'cannot be reduced, only moved')


def check_complex_tensors_are_summed_and_marks_of_views_are_seen():
    size, total = hvd.size(), sum(range(hvd.size()))
    for dtype in (torch.complex64, torch.complex128):
        mine = torch.full((3,), hvd.rank() + 2j, dtype=dtype)
        wanted = torch.full((3,), total + 2j * size, dtype=dtype)
        for name in (None, 'z', 'z'):
            same(hvd.allreduce(mine, op=hvd.Sum, name=name), wanted)
            same(hvd.allreduce(mine.conj(), op=hvd.Sum, name=name), wanted.conj().resolve_conj())
            same(hvd.allreduce(mine.conj().imag, op=hvd.Sum, name=name), wanted.conj().imag)
        same(hvd.grouped_allreduce([mine.conj(), mine.real], op=hvd.Sum)[0], wanted.conj())
        same(hvd.broadcast(mine.conj(), 0), torch.full((3,), -2j, dtype=dtype))
        placed = mine.clone().conj()
        hvd.allreduce_(placed, op=hvd.Sum)
        same(placed, wanted.conj())
        checks.raises(ValueError, lambda: hvd.allreduce(mine, op=hvd.Max), 'no max of them')
    if size > 1:
        checks.raises(hvd.HorovodInternalError, lambda: hvd.broadcast(
            torch.zeros(2, dtype=torch.complex64 if hvd.rank() else torch.float64), 0),
            'complex64', 'float64')


def check_complex_parameters_train():
    weight = torch.nn.Parameter(torch.full((4,), 1.0 + hvd.rank(), dtype=torch.complex64))
    hvd.broadcast_parameters([('w', weight)], root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0),
                                         named_parameters=[('w', weight)])
    (weight * torch.tensor(complex(0, hvd.rank())).conj()).real.sum().backward()
    optimizer.step()
    mean = (hvd.size() - 1) / 2
    same(weight.detach().imag.abs(), torch.full((4,), float(mean)))
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)


def check_sparse_tensors():
    n, r = hvd.size(), hvd.rank()
    mine = torch.sparse_coo_tensor(torch.tensor([[r, n]]), torch.tensor([1.0, 2.0]), (n + 2,))
    result = hvd.sparse_allreduce_async(mine, 'sparse', hvd.Average)().to_dense()
    torch.testing.assert_close(result, torch.tensor([1 / n] * n + [2.0, 0.0]))


def check_fp16_compression():
    mine = torch.full((100,), 0.5 + hvd.rank())
    result = hvd.allreduce(mine, compression=hvd.Compression.fp16)
    assert result.dtype is torch.float32
    torch.testing.assert_close(result, torch.full((100,), 0.5 + (hvd.size() - 1) / 2))
    whole = hvd.allreduce(torch.ones(3, dtype=torch.int32), op=hvd.Sum,
                          compression=hvd.Compression.fp16)
    same(whole, torch.full((3,), hvd.size(), dtype=torch.int32))


def adasum_of(a, b):
    """Of two float64 vectors."""
    dot, norm_a, norm_b = (a * b).sum(), (a * a).sum(), (b * b).sum()
    return ((1 - dot / (2 * norm_a) if norm_a else 1) * a
            + (1 - dot / (2 * norm_b) if norm_b else 1) * b)


def adasum_tree(vectors):
    vectors = [v.to(torch.float64) for v in vectors]
    power = 2 ** (len(vectors).bit_length() - 1)
    for i in range(len(vectors) - power):
        vectors[i] = adasum_of(vectors[i], vectors[power + i])
    vectors = vectors[:power]
    while len(vectors) > 1:
        vectors = [adasum_of(a, b) for a, b in zip(vectors[::2], vectors[1::2])]
    return vectors[0]


def check_adasum_is_the_tree_for_single_tensors_and_each_of_a_group():
    for dtype, close in ((torch.float16, 1e-2), (torch.bfloat16, 5e-2), (torch.float32, 1e-5),
                         (torch.float64, 1e-12)):
        for shape in SHAPES:
            parts = everyones(shape, dtype)
            mine, want = parts[hvd.rank()].clone(), adasum_tree(parts)
            got = [hvd.allreduce(mine, op=hvd.Adasum),
                   *hvd.grouped_allreduce([mine, torch.ones(5, dtype=dtype), mine],
                                          op=hvd.Adasum)[::2]]
            for tensor in got:
                assert tensor.dtype == dtype and tensor.shape == mine.shape
                assert torch.allclose(tensor.to(torch.float64), want, rtol=close, atol=close)


def check_objects():
    thing = {'rank': hvd.rank(), 'list': [1, (2, 'x')], 'tensor': torch.ones(2) * hvd.rank()}
    for root in range(hvd.size()):
        got = hvd.broadcast_object(thing if hvd.rank() == root else None, root, name='thing')
        assert got['rank'] == root and got['list'] == [1, (2, 'x')] and got['tensor'][0] == root
    everything = hvd.allgather_object('x' * hvd.rank())
    assert everything == ['x' * r for r in range(hvd.size())]


def check_who_am_i():
    assert 0 <= hvd.rank() < hvd.size() and hvd.is_initialized() and hvd.is_homogeneous()
    assert (hvd.local_rank(), hvd.local_size()) == (hvd.rank(), hvd.size())
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert hvd.mpi_built() and hvd.gloo_built() and hvd.nccl_built() >= 0
    assert hvd.gloo_enabled() and not hvd.mpi_enabled() and not hvd.mpi_threads_supported()
    assert hvd.global_process_set.size() == hvd.size()
    assert hvd.global_process_set.included() and hvd.global_process_set.process_set_id == 0
    checks.raises(ValueError, lambda: hvd.add_process_set([0]))
    checks.raises(ValueError, lambda: hvd.allreduce(torch.ones(1),
                                                    process_set=hvd.ProcessSet([0])))
    hvd.barrier()


if __name__ == '__main__':
    hvd.init()
    checks.run(sys.modules[__name__])
    hvd.shutdown()
