# SPDX-License-Identifier: Apache-2.0
"""Every operation of torch.distributed over the backend "reigen", against what each rank can
compute by itself; run on two ranks or more. Reigen is not imported: PyTorch finds the backend.

Tensors are small, of one piece and of several, in the order of their elements and across it.
"""
import datetime
import sys
import time

import torch
import torch.distributed as dist

OPS = {dist.ReduceOp.SUM: torch.add, dist.ReduceOp.PRODUCT: torch.mul,
       dist.ReduceOp.MIN: torch.minimum, dist.ReduceOp.MAX: torch.maximum}
BITS = {dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or,
        dist.ReduceOp.BXOR: torch.bitwise_xor}
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
#: Below and above what goes the short way; 0 and 1 are special.
COUNTS = [0, 1, 7, 5000, 100003]


def part(rank, count, dtype, seed=0):
    """What rank has: small whole numbers, so that sums are exact in every type."""
    numbers = torch.randint(0, 4, (count,), generator=torch.Generator().manual_seed(
        rank * 1000 + count + seed))
    if dtype.is_complex:
        return torch.complex(numbers.double(), numbers.flip(0).double()).to(dtype)
    return numbers.to(dtype)


def same(found, wanted, *what):
    assert torch.equal(found, wanted), (*what, found, wanted)


def reduced(function, count, dtype, ranks):
    total = part(ranks[0], count, dtype)
    for rank in ranks[1:]:
        total = function(total, part(rank, count, dtype))
    return total


def allreduces(me, ranks, group=None):
    for dtype in INTEGERS + FLOATS:
        for count in COUNTS:
            for op, function in OPS.items():
                tensor = part(me, count, dtype)
                dist.all_reduce(tensor, op, group)
                same(tensor, reduced(function, count, dtype, ranks), op, dtype)
    for dtype in INTEGERS:
        for op, function in BITS.items():
            tensor = part(me, 77, dtype)
            dist.all_reduce(tensor, op, group)
            same(tensor, reduced(function, 77, dtype, ranks), op, dtype)
    tensor = part(me, 9, torch.bool)
    dist.all_reduce(tensor, group=group)
    same(tensor, reduced(torch.logical_or, 9, torch.bool, ranks))
    for dtype in (torch.complex64, torch.complex128):
        tensor = part(me, 33, dtype)
        dist.all_reduce(tensor, group=group)
        same(tensor, reduced(torch.add, 33, dtype, ranks))
    wanted = reduced(torch.add, 1000, torch.float32, ranks)
    tensor = part(me, 1000, torch.float32)
    dist.all_reduce(tensor, dist.ReduceOp.AVG, group)
    torch.testing.assert_close(tensor, wanted / len(ranks))
    tensor = part(me, 1000, torch.float32)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(2.0), group)
    same(tensor, wanted * 2)
    crooked = part(me, 1000, torch.float32).reshape(10, 100).t()
    dist.all_reduce(crooked, group=group)
    same(crooked, wanted.reshape(10, 100).t())
    for root in ranks:
        tensor = part(me, 50, torch.int32)
        dist.reduce(tensor, root, group=group)
        same(tensor, reduced(torch.add, 50, torch.int32, ranks) if me == root
             else part(me, 50, torch.int32))


def moves(me, ranks, group=None):
    size, place = len(ranks), ranks.index(me)
    types = [torch.bool, *INTEGERS, *FLOATS, torch.complex64, torch.uint32, torch.float8_e5m2]
    for dtype in types:
        for count in COUNTS:
            for root in ranks:
                tensor = part(me, count, dtype)
                dist.broadcast(tensor, root, group)
                same(tensor.view(torch.uint8), part(root, count, dtype).view(torch.uint8), dtype)
            if dtype is torch.float8_e5m2:
                continue  # PyTorch itself has no cat for it
            rows = [part(rank, count, dtype) for rank in ranks]
            outputs = [torch.empty(count, dtype=dtype) for _ in ranks]
            dist.all_gather(outputs, rows[place], group)
            for output, row in zip(outputs, rows):
                same(output, row, dtype)
            whole = torch.empty(size * count, dtype=dtype)
            dist.all_gather_into_tensor(whole, rows[place], group)
            same(whole, torch.cat(rows), dtype)
            if dtype.is_complex:
                continue
            # In its own place.
            whole = torch.zeros(size * count, dtype=dtype)
            own = whole[place * count:(place + 1) * count]
            own.copy_(rows[place])
            dist.all_gather_into_tensor(whole, own, group, async_op=True).wait()
            same(whole, torch.cat(rows), dtype)
    outputs = [torch.empty(rank + 1) for rank in ranks]
    dist.all_gather(outputs, torch.full((me + 1,), float(me)), group)
    assert all((output == rank).all() for output, rank in zip(outputs, ranks))
    for root in ranks:
        outputs = [torch.empty(5, 3) for _ in ranks] if me == root else None
        dist.gather(torch.full((5, 3), float(me)), outputs, root, group)
        assert me != root or all((o == rank).all() for o, rank in zip(outputs, ranks))
        output = torch.empty(3, 4).t()
        dist.scatter(output, [torch.full((4, 3), float(rank)) for rank in ranks]
                     if me == root else None, root, group)
        assert (output == me).all()


def scatters(me, ranks, group=None):
    size, place = len(ranks), ranks.index(me)
    for dtype in INTEGERS + FLOATS:
        for count in (0, 1, 900, 40001):
            for op, function in OPS.items():
                total = reduced(function, size * count, dtype, ranks)
                wanted = total[place * count:(place + 1) * count]
                for async_op in (False, True):
                    output = torch.empty(count, dtype=dtype)
                    work = dist.reduce_scatter_tensor(output, part(me, size * count, dtype), op,
                                                      group, async_op)
                    assert work is None or work.wait()
                    same(output, wanted, op, dtype)
    output = torch.empty(6)
    mine = [part(me, 6, torch.float32, i) for i in range(size)]
    dist.reduce_scatter(output, mine, group=group)
    same(output, sum(part(rank, 6, torch.float32, place) for rank in ranks))
    output = torch.empty(place + 1)
    dist.reduce_scatter(output, [torch.full((i + 1,), 1.0) for i in range(size)], group=group)
    assert (output == size).all()
    whole = part(me, 8 * size, torch.float32)
    dist.reduce_scatter_tensor(whole[place * 8:(place + 1) * 8], whole.clone(), group=group)


def exchanges(me, ranks, group=None):
    size, place = len(ranks), ranks.index(me)
    for dtype in (torch.bool, torch.int64, torch.bfloat16, torch.float32, torch.complex64):
        for count in (1, 3000):
            inputs = [part(me, count, dtype, i) for i in range(size)]
            outputs = [torch.empty(count, dtype=dtype) for _ in ranks]
            dist.all_to_all(outputs, inputs, group)
            for output, rank in zip(outputs, ranks):
                same(output, part(rank, count, dtype, place))
            output = torch.empty(size * count, dtype=dtype)
            dist.all_to_all_single(output, torch.cat(inputs), group=group)
            same(output, torch.cat([part(rank, count, dtype, place) for rank in ranks]))
    splits = [i + place for i in range(size)]
    output = torch.empty(sum(place + i for i in range(size)), 2)
    dist.all_to_all_single(output, torch.full((sum(splits), 2), float(me)),
                           [place + i for i in range(size)], splits, group)
    same(output, torch.cat([torch.full((place + i, 2), float(rank))
                            for i, rank in enumerate(ranks)]))


def objects_and_coalesced(me, ranks, group=None):
    size = len(ranks)
    found = [None] * size
    dist.all_gather_object(found, {'rank': me, 'text': 'x' * me}, group)
    assert found == [{'rank': rank, 'text': 'x' * rank} for rank in ranks]
    found = [me, 'a'] if me == ranks[1] else [None, None]
    dist.broadcast_object_list(found, ranks[1], group)
    assert found == [ranks[1], 'a']
    found = [None]
    dist.scatter_object_list(found, [('to', rank) for rank in ranks] if me == ranks[0] else None,
                             ranks[0], group)
    assert found == [('to', me)]
    found = [None] * size if me == ranks[0] else None
    dist.gather_object(me, found, ranks[0], group)
    assert me != ranks[0] or found == ranks
    with dist._coalescing_manager(group):
        a, b = torch.ones(3), torch.ones(40000)
        dist.all_reduce(a, group=group)
        dist.all_reduce(b, group=group)
    assert (a == size).all() and (b == size).all()
    with dist._coalescing_manager(group, async_ops=True) as manager:
        a, b = torch.empty(size), torch.empty(2 * size)
        dist.all_gather_into_tensor(a, torch.tensor([float(me)]), group)
        dist.all_gather_into_tensor(b, torch.tensor([float(me)] * 2), group)
    manager.wait()
    same(a, torch.tensor(ranks, dtype=torch.float32))
    with dist._coalescing_manager(group, async_ops=True) as manager:
        a, b = torch.empty(1), torch.empty(2)
        dist.reduce_scatter_tensor(a, torch.ones(size), group=group)
        dist.reduce_scatter_tensor(b, torch.ones(2 * size), group=group)
    manager.wait()
    assert a[0] == size and (b == size).all()


def messages(me, ranks, group=None):
    size, place = len(ranks), ranks.index(me)
    after, before = ranks[(place + 1) % size], ranks[(place - 1) % size]
    for count in (0, 1, 3000, 1000003):
        output = torch.empty(count)
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, torch.full((count,), float(me)), after, group),
            dist.P2POp(dist.irecv, output, before, group)])
        assert [work.wait() for work in works] == [True, True]
        assert (output == before).all()
    # Tags, not the order of the calls, say which is which; and a message may come unexpected.
    first = dist.isend(torch.tensor([1.0]), after, group, tag=1)
    second = dist.isend(torch.tensor([2.0]), after, group, tag=2)
    output = torch.empty(2, 2).t()
    two, one = torch.empty(1), torch.empty(1)
    dist.recv(two, before, group, tag=2)
    dist.recv(one, before, group, tag=1)
    assert (one[0], two[0]) == (1, 2) and first.wait() and second.wait()
    dist.isend(torch.arange(4.0).reshape(2, 2), after, group)
    dist.recv(output, before, group)
    same(output, torch.arange(4.0).reshape(2, 2))
    if me == ranks[0]:
        for _ in ranks[1:]:
            source = dist.recv(one, group=group)
            assert one[0] == source and source in ranks[1:]
    else:
        dist.send(torch.tensor([float(me)]), ranks[0], group)
    try:
        dist.send(torch.empty(1), me, group)
        raise AssertionError('a message to myself')
    except ValueError:
        pass


def works_and_futures(me, ranks, group=None):
    size = len(ranks)
    tensors = [torch.full((n,), float(me)) for n in (1, 500, 70000) for _ in range(40)]
    works = [dist.all_reduce(t, group=group, async_op=True) for t in tensors]
    for work in reversed(works):
        assert work.wait() and work.is_completed() and work.is_success()
        assert work.exception() is None
    assert all((t == sum(ranks)).all() for t in tensors)
    # Nobody waits for these, and their memory is used again.
    for _ in range(200):
        dist.all_reduce(torch.ones(3000), group=group, async_op=True)
    futures = [dist.all_reduce(t, group=group, async_op=True).get_future() for t in tensors]
    doubled = [future.then(lambda f: f.value()[0] * 2) for future in futures]
    for future, tensor in zip(doubled, tensors):
        same(future.wait(), tensor * 2)
    assert (tensors[0] == sum(ranks) * size).all()
    work = dist.all_reduce(tensors[1], group=group, async_op=True)
    future = work.get_future()
    assert work.wait() and future.done() and future.wait()[0] is not None
    work = dist.barrier(group, async_op=True)
    while not work.is_completed():
        pass
    dist.barrier(group)
    if not torch.__version__.startswith('2.13'):  # which has it for gloo alone
        dist.monitored_barrier(group)


def waits_and_handles_mix(me, ranks, group=None):
    """Whether a call waits is each rank's own affair."""
    size, place = len(ranks), ranks.index(me)
    for turn in range(6):
        async_op = (place + turn) % 2 == 0
        for count in (0, 3, 30000):
            works, mine = [], torch.full((count,), float(me))
            tensor, whole, own = mine.clone(), torch.empty(count * size), torch.empty(count)
            for work in (
                    dist.all_reduce(tensor, group=group, async_op=async_op),
                    dist.all_gather_into_tensor(whole, mine, group, async_op),
                    dist.reduce_scatter_tensor(own, torch.ones(count * size), group=group,
                                               async_op=async_op)):
                works.append(work)
            assert all(work is None or work.wait() for work in works)
            assert (tensor == sum(ranks)).all() and (own == size).all()
            same(whole, torch.tensor(ranks, dtype=torch.float32).repeat_interleave(count))
    # Nor does a call that gives a handle wait.
    bits, parts = torch.tensor([1 << place]), torch.ones(place + 1)
    works = [dist.all_reduce(bits, dist.ReduceOp.BOR, group, True),
             dist.reduce_scatter(parts, [torch.ones(i + 1) for i in range(size)], group=group,
                                 async_op=True)] if place == 0 else []
    token = torch.zeros(1)
    dist.send(token, ranks[1], group) if place == 0 else None
    dist.recv(token, ranks[0], group) if place == 1 else None
    works = works or [
        dist.all_reduce(bits, dist.ReduceOp.BOR, group),
        dist.reduce_scatter(parts, [torch.ones(i + 1) for i in range(size)], group=group)]
    assert all(work is None or work.wait() for work in works)
    assert bits.item() == (1 << size) - 1 and (parts == size).all()


def callbacks_may_wait(me, ranks, group=None):
    """For other operations, as PyTorch's PowerSGD does it."""
    def again(future):
        time.sleep(0.01 * (me % 2))  # patient: ranks come one after the other
        return dist.all_reduce(future.value()[0], group=group, async_op=True).get_future().wait()

    for count in (1, 20000):
        first = dist.all_reduce(torch.ones(count), group=group, async_op=True).get_future()
        assert (first.then(again).wait()[0] == len(ranks) ** 2).all()


def odd_tensors(me, ranks, group=None):
    numbers = part(me, 6, torch.complex64)
    wanted = reduced(torch.add, 6, torch.complex64, ranks)
    tensor = numbers.clone().conj().imag  # bits that say the opposite of what it is
    dist.all_reduce(tensor, group=group)
    same(tensor.resolve_neg(), -wanted.imag)
    parameter = torch.nn.Parameter(torch.full((2, 3), float(me)))
    dist.broadcast(parameter.t(), ranks[0], group)
    assert (parameter == ranks[0]).all()
    place, size = ranks.index(me), len(ranks)
    works = [dist.isend(torch.full((3, 2), float(me)), ranks[(place + 1) % size], group),
             dist.irecv(parameter.t(), ranks[place - 1], group)]
    assert all(work.wait() for work in works) and (parameter == ranks[place - 1]).all()


CHECKS = [waits_and_handles_mix, callbacks_may_wait, odd_tensors, allreduces, moves, scatters,
          exchanges, objects_and_coalesced, messages, works_and_futures]


def main():
    dist.init_process_group('reigen', timeout=datetime.timedelta(seconds=120))
    me, size = dist.get_rank(), dist.get_world_size()
    assert dist.get_backend() == 'reigen' and not [m for m in sys.modules if m == 'horovod']
    for check in CHECKS:
        check(me, list(range(size)))
    # Groups that overlap, made in one order everywhere, used in another one on each rank.
    lists = [[0, 1], list(range(size)), list(reversed(range(size))), [0, 1], [size - 1, 0]]
    groups = [(sorted(ranks), dist.new_group(ranks)) for ranks in lists]
    for ranks, group in groups[1:3]:
        objects_and_coalesced(me, ranks, group)
    for check in CHECKS:
        if me < 2:
            check(me, [0, 1], groups[0][1])
    works = [(ranks, tensor, dist.all_reduce(tensor, group=group, async_op=True))
             for ranks, group in groups[::1 if me % 2 else -1] if me in ranks
             for tensor in [torch.full((9,), float(me))]]
    for ranks, tensor, work in works:
        assert work.wait() and (tensor == sum(ranks)).all()
    for ranks, group in groups:
        if me in ranks:
            dist.destroy_process_group(group)
    if not torch.__version__.startswith(('2.13', '2.14')):  # where PyTorch splits GPUs' groups only
        group = dist.split_group(None, [list(range(size - 1, 0, -1)), [0]])
        objects = [None] * dist.get_world_size(group)
        dist.all_gather_object(objects, me, group)
        assert objects == (list(range(size - 1, 0, -1)) if me else [0])
        dist.destroy_process_group(group)
    # By its members alone, and again after its end; PyTorch names such groups by how many this rank
    # has made, so all make equally many.
    for _ in range(3):
        group = dist.new_group([me], use_local_synchronization=True)
        dist.all_reduce(torch.ones(2), group=group)
        dist.destroy_process_group(group)
    if size > 2 and me:
        others = list(range(1, size))
        for _ in range(3):
            group = dist.new_group(others, use_local_synchronization=True)
            messages(me, others, group)
            dist.destroy_process_group(group)
    dist.barrier()
    dist.destroy_process_group()
    # And once more from the start, over another store.
    for turn in range(2):
        dist.init_process_group('cpu:reigen', init_method=f'file://{sys.argv[1]}.{turn}',
                                rank=me, world_size=size)
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert (tensor == size).all()
        dist.destroy_process_group()
    if me == 0:
        print(f'all good on {size} ranks with torch {torch.__version__}')


if __name__ == '__main__':
    main()
