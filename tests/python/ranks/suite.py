# SPDX-License-Identifier: Apache-2.0
"""What a test suite does in one process: init, a few calls, some of them wrong on purpose, and
shutdown, a hundred times. Handles are dropped, and whoever comes last differs from turn to turn;
the ranks never fall out of step.

    suite.py [TURNS]
"""
import random
import sys
import time

import torch

import checks
import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError


def odd():
    return hvd.rank() == hvd.size() - 1


def fails(call, *texts):
    checks.raises(HorovodInternalError, call, *texts)


def duplicate_of(start):
    """The handle of the first is dropped; every rank hears of the second."""
    def call(turn):
        tensor = torch.ones(17 * hvd.size(), 1 + turn % 40)
        start(tensor)
        if turn % 2:
            time.sleep(0.001)  # patient: for its end, most often
        for _ in range(10):
            fails(lambda: start(tensor), 'same name')
    return call


def mismatch_of_shapes(turn):
    fails(lambda: hvd.allreduce(torch.ones(17 + turn % 2 * 4000 + hvd.rank())), 'shape')
    fails(lambda: hvd.allgather(torch.ones(2, 3 + hvd.rank())), 'shape')


def mismatch_of_types(turn):
    dtype = torch.int32 if odd() else torch.float32
    fails(lambda: hvd.allreduce(torch.ones(5, dtype=dtype), name='type'), 'type')
    fails(lambda: hvd.broadcast(torch.ones(5, dtype=dtype), 0, name='type'), 'type')


def mismatch_of_operations(turn):
    op = hvd.Max if odd() else hvd.Min
    fails(lambda: hvd.allreduce(torch.ones(5), op=op, name='operation'), 'reduction')


def mismatch_of_roots(turn):
    fails(lambda: hvd.broadcast(torch.ones(3), hvd.rank()), 'root')


def join_of_one(turn):
    first = turn % hvd.size()
    if hvd.rank() != first:
        handles = [hvd.allreduce_async(torch.ones(n), name=f'joined.{n}', op=hvd.Sum)
                   for n in (5, 5000)]
        for handle in handles:
            assert hvd.synchronize(handle)[0] == hvd.size() - 1
        if turn % 2:
            fails(lambda: hvd.allgather(torch.ones(3), name='joined'), 'Join')
        hvd.join()
    else:
        hvd.join()


def unnamed(size, joined):
    """One operation of each kind, all without a name, over as many ranks."""
    assert hvd.allreduce(torch.ones(5), op=hvd.Sum)[0] == size
    assert hvd.grouped_allreduce([torch.ones(2), torch.ones(3)], op=hvd.Sum)[1][0] == size
    hvd.barrier()
    for call in (lambda: hvd.allgather(torch.ones(3)), lambda: hvd.reducescatter(torch.ones(9)),
                 lambda: hvd.alltoall(torch.ones(hvd.size())),
                 lambda: hvd.grouped_allgather([torch.ones(3)] * 2),
                 lambda: hvd.broadcast(torch.ones(3), root_rank=0)):
        if joined:
            fails(call, 'Join')
        else:
            call()


def join_while_others_go_on_without_names(turn):
    for first in range(hvd.size()):
        hvd.allreduce_async(torch.ones(5))
        for step in range(turn % 3 + 1 if hvd.rank() != first else 0):
            unnamed(hvd.size() - 1, True)
        hvd.join()
        unnamed(hvd.size(), False)


def unnamed_handle_dropped(turn):
    """The names that operations without one share come round while nobody has seen its end."""
    hvd.allreduce_async(torch.ones(5))
    for size in range(130):
        assert hvd.allreduce(torch.ones(6 + size % 3), op=hvd.Sum)[5] == hvd.size()


def join_with_handles_dropped(turn):
    hvd.allreduce_async(torch.ones(5), name='dropped')
    hvd.allgather_async(torch.ones(5), name='dropped')
    last = hvd.join()
    assert len(set(hvd.allgather_object(last))) == 1


def right(turn):
    assert hvd.allreduce(torch.ones(3 + turn), op=hvd.Sum, name='right')[0] == hvd.size()
    assert hvd.allgather_object(turn) == [turn] * hvd.size()
    handles = [hvd.allreduce_async(torch.full((n,), 2.0)) for n in (3, 300, 30000)]
    assert not all([hvd.poll(handle) for handle in handles])
    assert all(hvd.synchronize(handle)[-1] == 2 for handle in handles)


CALLS = [
    duplicate_of(lambda t: hvd.allreduce_async(t, name='duplicate')),
    duplicate_of(lambda t: hvd.allgather_async(t, name='duplicate')),
    duplicate_of(lambda t: hvd.broadcast_async(t, root_rank=0, name='duplicate')),
    duplicate_of(lambda t: hvd.alltoall_async(t, name='duplicate')),
    duplicate_of(lambda t: hvd.grouped_allreduce_async([t, t], name='duplicate')),
    mismatch_of_shapes, mismatch_of_types, mismatch_of_operations, mismatch_of_roots,
    join_of_one, join_with_handles_dropped, join_while_others_go_on_without_names,
    unnamed_handle_dropped, right, right, right,
]


def main(turns):
    for turn in range(turns):
        hvd.init()
        chosen = random.Random(turn).sample(CALLS, 5)
        if hvd.rank() == turn % hvd.size():
            time.sleep(0.002)  # patient: it comes last
        for call in chosen:
            call(turn)
            assert hvd.allreduce(torch.ones(1), op=hvd.Sum, name='step')[0] == hvd.size(), call
        hvd.shutdown()
        assert not hvd.is_initialized()
    print(f'{turns} turns', flush=True)


if __name__ == '__main__':
    torch.set_num_threads(1)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
