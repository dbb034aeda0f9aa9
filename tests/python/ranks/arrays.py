# SPDX-License-Identifier: Apache-2.0
"""The package reigen on NumPy's arrays: all operations with all element types, and their errors."""
import array
import sys
import threading

import checks
import numpy as np
import reigen

INTEGERS = ['uint8', 'int8', 'uint16', 'int16', 'int32', 'int64']
FLOATS = ['float16', 'float32', 'float64']
SHAPES = [(), (1,), (17,), (3, 4, 5), (0,), (2, 0, 3), (1000, 33)]


def ramp(shape, dtype, seed):
    """Small whole numbers, other ones for each seed."""
    count = int(np.prod(shape, dtype=np.int64))
    return ((np.arange(count) * 7 + seed * 3) % 11).reshape(shape).astype(dtype)


def everyones(shape, dtype):
    return [ramp(shape, dtype, r) for r in range(reigen.size())]


def same(a, b):
    assert isinstance(a, np.ndarray), type(a)
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
    assert np.array_equal(a, b), (a, b)


def check_allreduce_of_all_types_and_shapes():
    for dtype in INTEGERS + FLOATS:
        for shape in SHAPES:
            parts = everyones(shape, dtype)
            mine, kept = parts[reigen.rank()].copy(), parts[reigen.rank()].copy()
            wide = np.stack([p.astype(np.float64) for p in parts])
            same(reigen.allreduce(mine, op=reigen.Sum), wide.sum(0).astype(dtype))
            same(reigen.allreduce(mine, op=reigen.Min), wide.min(0).astype(dtype))
            same(reigen.allreduce(mine, op=reigen.Max), wide.max(0).astype(dtype))
            same(mine, kept)
            small = [np.asarray(p % 3, dtype) for p in parts]
            product = np.stack(small).prod(0).astype(dtype)
            same(reigen.allreduce(small[reigen.rank()], op=reigen.Product), product)
    both = reigen.allreduce(np.array([True, False, reigen.rank() == 0]), op=reigen.Max)
    same(both, np.array([True, False, True]))


def check_average_divides_and_scales():
    for dtype in FLOATS:
        parts = everyones((40,), dtype)
        mean = sum(p.astype(np.float64) for p in parts) / reigen.size()
        np.testing.assert_allclose(reigen.allreduce(parts[reigen.rank()]), mean, rtol=1e-3)
    mine = np.full(3, 2.0, np.float32)
    same(reigen.allreduce(mine, op=reigen.Sum, prescale=0.5, postscale=3),
         np.full(3, 3.0 * reigen.size(), np.float32))


def check_out_may_be_the_array_itself_or_have_gaps():
    mine = np.ones((4, 6), np.float32)
    assert reigen.allreduce(mine, op=reigen.Sum, out=mine) is mine
    assert (mine == reigen.size()).all()
    wide = np.zeros((4, 12), np.float32)
    gaps = wide[:, ::2]
    assert reigen.allreduce(mine, op=reigen.Max, out=gaps) is gaps
    assert (wide[:, ::2] == reigen.size()).all() and (wide[:, 1::2] == 0).all()
    turned = np.arange(12, dtype=np.int32).reshape(3, 4).T
    same(reigen.allreduce(turned, op=reigen.Max), turned.copy())
    checks.raises(ValueError, lambda: reigen.allreduce(mine, out=np.zeros(3, np.float32)), 'out is')
    checks.raises(ValueError, lambda: reigen.allreduce(mine, out=[1]), 'numpy.ndarray', 'list')
    fixed = np.zeros((4, 6), np.float32)
    fixed.flags.writeable = False
    checks.raises(ValueError, lambda: reigen.allreduce(mine, out=fixed), 'read-only')
    same(reigen.allreduce(fixed), fixed)


def check_what_is_like_an_array_is_one():
    total = reigen.size()
    same(reigen.allreduce(array.array('d', [1, 2]), op=reigen.Sum),
         np.array([total, 2 * total], np.float64))
    same(reigen.allreduce(memoryview(bytearray(b'\1\2')), op=reigen.Max),
         np.array([1, 2], np.uint8))
    same(reigen.allreduce([1.5, 2.0], op=reigen.Max), np.array([1.5, 2.0]))
    same(reigen.allreduce(3, op=reigen.Sum), np.array(3 * total))
    big = np.array([1, 2], '>i4')
    same(reigen.allreduce(big, op=reigen.Max), np.array([1, 2], np.int32))
    for bad in (None, 'text', b'text', [object()], [[1], [1, 2]]):
        checks.raises(ValueError, lambda bad=bad: reigen.allreduce(bad), 'rray')
        checks.raises(ValueError, lambda bad=bad: reigen.broadcast(bad, 0), 'rray')
    checks.raises(ValueError, lambda: reigen.allreduce(np.zeros(2), op=9), 'not a reduction')
    checks.raises(ValueError, lambda: reigen.allreduce(np.zeros(2), process_set='x'), 'Process set')


def check_allgather_and_broadcast():
    rank, size = reigen.rank(), reigen.size()
    for dtype in INTEGERS + FLOATS + ['bool']:
        rows = [ramp((r + 1, 3), dtype, r) for r in range(size)]
        same(reigen.allgather(rows[rank]), np.concatenate(rows))
        last = size - 1
        same(reigen.broadcast(rows[rank][:1], last), rows[last][:1])
    mine = np.full((2, 3), rank)
    assert reigen.broadcast(mine, 0, out=mine) is mine and (mine == 0).all()
    empty = reigen.allgather(np.zeros((0, 5), np.float32))
    assert empty.shape == (0, 5)


def records(rows, rank):
    made = np.zeros(rows, [('id', '<i4'), ('name', 'S3'), ('at', '<f8')])
    made['id'], made['name'], made['at'] = rank, b'r%d' % rank, np.arange(rows) + rank / 2
    return made


def of_other_types(rank):
    """Arrays of types that are moved and not reduced."""
    numbers = np.arange(6) + rank
    return [numbers.astype(name) for name in ('uint32', 'uint64', 'longdouble', 'M8[s]', 'm8[ms]',
                                              'U5', 'S7', '>u4')] + [records(6, rank)]


def check_every_type_is_moved():
    rank, size = reigen.rank(), reigen.size()
    everyones = [of_other_types(r) for r in range(size)]
    for i, mine in enumerate(everyones[rank]):
        native = mine.dtype.newbyteorder('=')
        parts = [everyone[i].astype(native) for everyone in everyones]
        same(reigen.broadcast(mine, size - 1), parts[-1])
        same(reigen.allgather(mine[:rank + 1]),
             np.concatenate([part[:r + 1] for r, part in enumerate(parts)]))
        got, _ = reigen.alltoall(mine[:5], [1] * size)
        same(got, np.concatenate([part[rank:rank + 1] for part in parts]))
        for call in (reigen.allreduce, reigen.reducescatter):
            checks.raises(ValueError, lambda: call(mine), 'cannot be reduced, only moved')
    # In a group each type goes by its name: its number is each rank's own.
    mixed = reigen.grouped_allgather([everyones[rank][i] for i in (8, 1, 3, 0)])
    same(mixed[2], np.concatenate([everyone[3] for everyone in everyones]))


def check_complex_numbers_are_summed():
    total = sum(range(reigen.size()))
    for dtype in ('complex64', 'complex128'):
        mine = np.full((3, 2), reigen.rank() - 1j, dtype)
        same(reigen.allreduce(mine, op=reigen.Sum),
             np.full((3, 2), total - 1j * reigen.size(), dtype))
        assert reigen.reducescatter(mine, op=reigen.Average).dtype == dtype
        checks.raises(ValueError, lambda: reigen.allreduce(mine, op=reigen.Max), 'no max')


def check_types_that_differ_are_told():
    if reigen.size() == 1:
        return
    odd = reigen.rank() == 1
    for a, b in (('complex64', 'float64'), ('U2', 'U4'), ('M8[s]', 'M8[ms]'), ('uint32', 'int32')):
        mine = np.zeros(2, a if odd else b)
        error = checks.raises(reigen.HorovodInternalError, lambda: reigen.broadcast(mine, 0),
                              'data types')
        for name in (a, b):
            told = {'U2': '<U2', 'U4': '<U4'}.get(name, name.replace('M8', 'datetime64'))
            assert told in str(error), (told, error)


def check_alltoall():
    rank, size = reigen.rank(), reigen.size()
    splits = [[(a + b) % 3 for b in range(size)] for a in range(size)]
    sent = [np.arange(sum(splits[a]) * 2, dtype=np.float32).reshape(-1, 2) + 100 * a
            for a in range(size)]
    result, received = reigen.alltoall(sent[rank], splits[rank])
    want = [np.split(sent[a], np.cumsum(splits[a]))[rank] for a in range(size)]
    same(result, np.concatenate(want))
    same(received, np.array([splits[a][rank] for a in range(size)], np.int32))
    result, received = reigen.alltoall(np.arange(size) + 10 * rank)
    same(result, np.arange(size) * 10 + rank)
    checks.raises(ValueError, lambda: reigen.alltoall(sent[rank], [[1]]), '1D splits')
    checks.raises(ValueError, lambda: reigen.alltoall(sent[rank], [0.5] * size), 'integer')


def check_reducescatter():
    rank, size = reigen.rank(), reigen.size()
    rows = 2 * size + 1
    counts = [rows // size + (r < rows % size) for r in range(size)]
    starts = np.cumsum([0] + counts)
    parts = everyones((rows, 3), np.float64)
    want = sum(parts)[starts[rank]:starts[rank + 1]]
    same(reigen.reducescatter(parts[rank]), want)
    np.testing.assert_allclose(reigen.reducescatter(parts[rank], op=reigen.Average), want / size)


def check_groups_of_several_types_are_lists_in_order():
    rank, size = reigen.rank(), reigen.size()
    mine = [np.full(3, rank, np.float32), np.full((2, 2), rank, np.int64),
            np.full(1, rank, np.float32)]
    total = size * (size - 1) // 2
    for name in (None, 'mixed'):
        sums = reigen.grouped_allreduce(mine, name, op=reigen.Sum)
        for a, b in zip(sums, mine):
            same(a, np.full(b.shape, total, b.dtype))
    outs = [np.zeros_like(m) for m in mine]
    again = reigen.grouped_allreduce(mine, op=reigen.Sum, outs=outs)
    assert all(a is b for a, b in zip(again, outs)) and (outs[1] == total).all()
    for a, b in zip(reigen.grouped_allgather(mine[::2]), mine[::2]):
        assert a.shape == (size * b.shape[0],)
    parts = reigen.grouped_reducescatter([np.ones((size, 2)), np.ones((2 * size,))])
    assert [p.shape for p in parts] == [(1, 2), (2,)] and parts[0][0, 0] == size
    checks.raises(ValueError, lambda: reigen.grouped_allreduce([]), 'at least one')
    checks.raises(ValueError, lambda: reigen.grouped_allreduce(mine, outs=outs[:1]), '1 outs')


def check_handles_are_polled_and_waited_for_in_any_order():
    names = [f'h{i}' for i in range(40)]
    order = names if reigen.rank() % 2 == 0 else names[::-1]
    handles = {name: reigen.allreduce_async(np.full(5, int(name[1:])), name, op=reigen.Sum)
               for name in order}
    for name in names:
        same(reigen.synchronize(handles[name]), np.full(5, int(name[1:]) * reigen.size()))
    checks.raises(ValueError, lambda: reigen.poll(handles['h0']), 'not the handle')
    handle = reigen.barrier_async()
    while not reigen.poll(handle):
        pass
    assert reigen.synchronize(handle) is None


def check_two_threads_at_once():
    results = {}

    def work(name):
        results[name] = [reigen.allreduce(np.full(100, i), f'{name}.{i}', op=reigen.Sum)[0]
                         for i in range(20)]

    threads = [threading.Thread(target=work, args=(name,)) for name in 'ab']
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results['a'] == results['b'] == [i * reigen.size() for i in range(20)]


def check_objects():
    rank, size = reigen.rank(), reigen.size()
    thing = {'rank': rank, 'data': np.arange(rank + 3), 'text': 'ä' * rank}
    got = reigen.broadcast_object(thing, root_rank=size - 1)
    assert got['rank'] == size - 1 and len(got['data']) == size + 2
    assert (got is thing) == (rank == size - 1)
    everyone = reigen.allgather_object(thing, name='things')
    assert [t['rank'] for t in everyone] == list(range(size))
    assert [t['text'] for t in everyone] == ['ä' * r for r in range(size)]
    assert reigen.allgather_object(None) == [None] * size
    # What pickle does not take.
    assert [f(2) for f in reigen.allgather_object(lambda x: x + rank)] == [2 + r for r in
                                                                           range(size)]


def check_mismatches_are_errors_everywhere_and_the_job_goes_on():
    rank, size = reigen.rank(), reigen.size()
    if size > 1:
        error = checks.raises(reigen.HorovodInternalError,
                              lambda: reigen.allreduce(np.zeros(3 + (rank == 1)), 'odd'))
        assert 'shape' in str(error).lower(), error
        checks.raises(reigen.HorovodInternalError,
                      lambda: reigen.allreduce(np.zeros(3, FLOATS[1 + (rank == 1)]), 'kind'))
        checks.raises(reigen.HorovodInternalError,
                      lambda: reigen.broadcast(np.zeros(3), rank, 'root'))
    first = reigen.allreduce_async(np.zeros(2), 'twice') if rank == 0 else None
    if rank == 0 and size > 1:
        checks.raises(reigen.InvalidOperationError,
                      lambda: reigen.allreduce_async(np.zeros(2), 'twice'), 'twice')
    if rank == 0:
        reigen.synchronize(first) if size == 1 else None
    reigen.barrier()
    if rank != 0:
        first = reigen.allreduce_async(np.zeros(2), 'twice')
    if size > 1:
        same(reigen.synchronize(first), np.zeros(2))
    checks.raises(ValueError, lambda: reigen.allgather(np.float32(1)), '')


def check_process_sets():
    rank, size = reigen.rank(), reigen.size()
    if size < 3:
        return
    first, second = reigen.add_process_set([0, 2]), reigen.add_process_set([1, 2])
    for number, members in ((first, [0, 2]), (second, [1, 2])):
        if rank not in members:
            continue
        same(reigen.allreduce(np.full(3, rank), op=reigen.Sum, process_set=number),
             np.full(3, sum(members)))
        same(reigen.allgather(np.array([rank]), process_set=number), np.array(members))
        same(reigen.broadcast(np.array([rank]), 2, process_set=number), np.array([2]))
        rows, received = reigen.alltoall(np.arange(2) + 10 * rank, process_set=number)
        same(rows, np.array([10 * member + members.index(rank) for member in members]))
        same(received, np.ones(2, np.int32))
        groups = reigen.grouped_allreduce([np.ones(2), np.ones(3)], op=reigen.Sum,
                                          process_set=number)
        assert all((group == 2).all() for group in groups)
        assert reigen.allgather_object(rank, process_set=number) == members
        assert reigen.broadcast_object(rank, 2, process_set=number) == 2
        reigen.barrier(number)
    reigen.remove_process_set(first)
    reigen.remove_process_set(second)


def check_join_supplies_zeros():
    if reigen.rank() != 0:
        same(reigen.allreduce(np.ones(4), 'joined', op=reigen.Sum),
             np.full(4, float(reigen.size() - 1)))
    last = reigen.join()
    assert 0 <= last < reigen.size()


if __name__ == '__main__':
    checks.raises(ValueError, reigen.rank, 'init')
    checks.raises(reigen.InvalidOperationError, lambda: reigen.allreduce(np.zeros(1)),
                  'reigen.init()')
    for call in (reigen.rank, reigen.is_homogeneous, reigen.stats, reigen.stop_timeline):
        error = checks.raises(ValueError, call, 'reigen has not been initialized')
        assert 'orovod' not in str(error), error
    assert 'torch' not in sys.modules
    reigen.init()
    checks.run(sys.modules[__name__])
    reigen.shutdown()
    checks.raises(ValueError, lambda: reigen.allreduce(np.zeros(1)), 'reigen.init()')
