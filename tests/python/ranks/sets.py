# SPDX-License-Identifier: Apache-2.0
"""Process sets from PyTorch, on four ranks."""
import os
import sys

import torch

import checks
import horovod.torch as hvd
import reigen
from horovod.common.process_sets import get_process_set_ids_and_ranks

LOWER, ENDS = hvd.ProcessSet([0, 1, 2]), hvd.ProcessSet(range(0, 4, 3))
MIDDLE = hvd.ProcessSet([2, 1])
SETS = [LOWER, ENDS, MIDDLE]


def mine():
    """The sets that this rank is in, on every rank in another order where it may be."""
    return [s for s in SETS if s.included()]


def check_before_anything_else_sets_are_numbered_and_described():
    assert [s.process_set_id for s in SETS] == [1, 2, 3]
    assert [s.size() for s in SETS] == [3, 2, 2]
    assert MIDDLE.ranks == [1, 2] and MIDDLE == hvd.ProcessSet([1, 2]) and MIDDLE != LOWER
    assert str(ENDS) == 'ProcessSet(process_set_id=2, ranks=[0, 3], mpi_comm=None)', str(ENDS)
    for s in SETS:
        assert s.included() == (hvd.rank() in s.ranks)
        if s.included():
            assert s.rank() == s.ranks.index(hvd.rank())
        else:
            checks.raises(ValueError, s.rank, 'not a member')
    numbered = {0: [0, 1, 2, 3], 1: [0, 1, 2], 2: [0, 3], 3: [1, 2]}
    assert get_process_set_ids_and_ranks() == numbered
    assert hvd.mpi_ops._basics._get_process_set_ids_and_ranks() == numbered
    assert hvd.mpi_ops._basics._process_set_size(2) == 2
    assert 'process set 2: ranks [0, 3]' in reigen.describe()


def check_operations_are_among_the_members():
    for s in mine():
        n, me = s.size(), s.rank()
        x = torch.full((5,), float(hvd.rank() + 1))
        total = float(sum(s.ranks) + n)
        for _ in range(3):
            torch.testing.assert_close(hvd.allreduce(x, op=hvd.Sum, process_set=s),
                                       torch.full((5,), total))
            torch.testing.assert_close(hvd.allreduce(x, name='x', process_set=s),
                                       torch.full((5,), total / n))
        y = x.clone()
        assert hvd.allreduce_(y, op=hvd.Max, process_set=s) is y
        assert float(y[0]) == s.ranks[-1] + 1
        gathered = hvd.allgather(x[:me + 1], process_set=s)
        assert gathered.tolist() == [float(r + 1) for i, r in enumerate(s.ranks)
                                     for _ in range(i + 1)]
        root = s.ranks[-1]
        assert float(hvd.broadcast(x, root, process_set=s)[0]) == root + 1
        out, received = hvd.alltoall(x[:n], [1] * n, process_set=s)
        assert out.tolist() == [float(r + 1) for r in s.ranks] and received.tolist() == [1] * n
        assert hvd.reducescatter(x[:n], op=hvd.Sum, process_set=s).tolist() == [total]
        a, b = hvd.grouped_allreduce([x, x.double()], op=hvd.Sum, process_set=s)
        assert float(a[0]) == total and float(b[0]) == total and b.dtype == torch.float64
        assert len(hvd.grouped_allgather([x, x], process_set=s)[1]) == 5 * n
        assert hvd.grouped_reducescatter([x[:n]], op=hvd.Sum, process_set=s)[0].tolist() == [total]
        assert hvd.allgather_object(('rank', hvd.rank()), process_set=s) == \
            [('rank', r) for r in s.ranks]
        assert hvd.broadcast_object(hvd.rank(), root, process_set=s) == root
        hvd.barrier(process_set=s)


def check_sets_do_not_wait_for_each_other():
    """Asynchronous, in another order on every rank, between operations of all ranks."""
    order = mine()[::-1] if hvd.rank() % 2 else mine()
    handles = [hvd.allreduce_async(torch.ones(9), op=hvd.Sum, process_set=s) for s in order]
    assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum)) == 4
    for s, handle in zip(order[::-1], handles[::-1]):
        assert float(hvd.synchronize(handle)[0]) == s.size()


def check_gradients_flow_within_the_set():
    for s in mine():
        x = torch.full((2,), float(hvd.rank()), requires_grad=True)
        hvd.allreduce(x, op=hvd.Sum, process_set=s).sum().backward()
        assert x.grad.tolist() == [float(s.size())] * 2
        x.grad = None
        weights = torch.arange(2.0 * s.size())
        (hvd.allgather(x, process_set=s) * weights).sum().backward()
        assert x.grad.tolist() == weights[2 * s.rank():2 * s.rank() + 2].tolist()
        x.grad = None
        hvd.broadcast(x, s.ranks[0], process_set=s).sum().backward()
        assert x.grad.tolist() == [1.0 if s.rank() == 0 else 0.0] * 2
        z = torch.ones(s.size(), requires_grad=True)
        hvd.reducescatter(z, op=hvd.Sum, process_set=s).sum().backward()
        assert z.grad.tolist() == [float(s.size())] * s.size()


def check_an_optimizer_averages_within_its_set():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         named_parameters=model.named_parameters(),
                                         process_set=LOWER)
    alone = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 1))
    alone.load_state_dict(model.state_dict())
    plain = torch.optim.SGD(alone.parameters(), lr=0.1)
    torch.manual_seed(2)
    data = torch.randn(4, 3, 4)
    for _ in range(3):
        for m, o, batch in ((model, optimizer, data[hvd.rank()]),
                            (alone, plain, data[:3].reshape(9, 4) if LOWER.included()
                             else data[hvd.rank()])):
            o.zero_grad()
            m(batch).pow(2).mean().backward()
            o.step()
    for p, q in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(p, q)


def check_normalisation_is_over_the_set():
    if not MIDDLE.included():
        return
    torch.manual_seed(3)
    data = torch.randn(4, 5, 3)
    layer = hvd.SyncBatchNorm(3, process_set=MIDDLE)
    plain = torch.nn.BatchNorm1d(3)
    both = plain(data[1:3].reshape(10, 3))
    place = MIDDLE.rank()
    torch.testing.assert_close(layer(data[hvd.rank()]), both[5 * place:5 * place + 5])


def check_who_is_not_a_member_is_told():
    for s in SETS:
        if not s.included():
            error = checks.raises(ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=s),
                                  f'Rank {hvd.rank()} is not a member of the provided process set.')
            assert isinstance(error, hvd.HorovodInternalError)
        else:
            stranger = next(r for r in range(4) if r not in s.ranks)
            checks.raises(ValueError,
                          lambda: hvd.broadcast(torch.ones(1), stranger, process_set=s),
                          'broadcast received invalid root rank')
    checks.raises(ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=hvd.ProcessSet([0])),
                  'Process set provided does not exist')


def check_a_mismatch_names_the_ranks_of_the_world():
    if ENDS.included():
        error = checks.raises(hvd.HorovodInternalError, lambda: hvd.allreduce(
            torch.ones(1 + hvd.rank()), name='m', process_set=ENDS), 'process set 2: ')
        assert 'rank 0' in str(error) and 'rank 3' in str(error), error


def check_sets_are_static_until_told_otherwise():
    checks.raises(ValueError, lambda: hvd.add_process_set([0, 2]), 'dynamic')
    checks.raises(ValueError, lambda: hvd.remove_process_set(ENDS), 'dynamic')


def check_life_after_shutdown():
    hvd.shutdown()
    assert all(s.process_set_id is None and s.included() is None for s in SETS)
    checks.raises(ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=ENDS))
    hvd.init(process_sets='dynamic')
    assert os.environ['HOROVOD_DYNAMIC_PROCESS_SETS'] == '1'
    for turn in range(3):
        made = hvd.add_process_set([1, 3])
        assert made.process_set_id == turn + 1
        checks.raises(ValueError, lambda: hvd.add_process_set(hvd.ProcessSet([3, 1])),
                      'Attempted to add a duplicate process set')
        if made.included():
            assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=made)) == 2
        assert hvd.remove_process_set(made) and not hvd.remove_process_set(made)
        assert made.process_set_id is None and made.size() is None
    basics = hvd.mpi_ops._basics
    number = basics._add_process_set_impl([0, 3])
    assert basics._get_process_set_ids_and_ranks() == {0: [0, 1, 2, 3], number: [0, 3]}
    assert basics._remove_process_set_impl(number) == number
    assert basics._remove_process_set_impl(number) is None
    assert not hvd.remove_process_set(hvd.global_process_set)
    checks.raises(ValueError, lambda: hvd.add_process_set([0, hvd.rank() // 2]),
                  'process set with')
    checks.raises(ValueError, lambda: hvd.add_process_set(range(4)), 'duplicate')
    hvd.add_process_set(LOWER)
    assert float(hvd.allreduce(torch.ones(1), op=hvd.Sum)) == 4
    hvd.shutdown()
    checks.raises(ValueError, lambda: hvd.init(process_sets=SETS[:1 + hvd_rank() % 2]),
                  'mismatching numbers of process sets')
    assert not hvd.is_initialized()


def hvd_rank():
    return int(os.environ['RANK'])


def check_some_of_the_ranks_are_a_world():
    rank = hvd_rank()
    hvd.init(comm=[3, 1] if rank % 2 else [0, 2])
    assert hvd.size() == 2 and hvd.rank() == (rank == 2 or rank == 1)
    assert float(hvd.allreduce(torch.tensor([float(rank)]), op=hvd.Sum)) == (4 if rank % 2 else 2)
    hvd.shutdown()
    hvd.init(comm=[])
    assert hvd.size() == 4


if __name__ == '__main__':
    hvd.init(process_sets=SETS)
    checks.run(sys.modules[__name__])
    hvd.shutdown()
