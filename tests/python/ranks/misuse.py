# SPDX-License-Identifier: Apache-2.0
"""What scripts do wrong, or in unusual ways: an exception or the right result, and the job goes
on. Nothing hangs and nothing crashes."""
import copy
import gc
import sys
import threading

import torch

import checks
import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError
from reigen import _handles

CALLS = {
    'allreduce': hvd.allreduce, 'allreduce_': hvd.allreduce_,
    'allreduce_async': hvd.allreduce_async, 'allreduce_async_': hvd.allreduce_async_,
    'grouped_allreduce': lambda t: hvd.grouped_allreduce([torch.ones(2), t]),
    'grouped_allreduce_': lambda t: hvd.grouped_allreduce_([torch.ones(2), t]),
    'allgather': hvd.allgather, 'grouped_allgather': lambda t: hvd.grouped_allgather([t]),
    'allgather_async': hvd.allgather_async, 'alltoall_async': hvd.alltoall_async,
    'broadcast_async': lambda t: hvd.broadcast_async(t, 0),
    'broadcast_async_': lambda t: hvd.broadcast_async_(t, 0),
    'reducescatter_async': hvd.reducescatter_async,
    'broadcast': lambda t: hvd.broadcast(t, 0), 'broadcast_': lambda t: hvd.broadcast_(t, 0),
    'alltoall': hvd.alltoall, 'reducescatter': hvd.reducescatter,
    'grouped_reducescatter': lambda t: hvd.grouped_reducescatter([t]),
}


def total(name='total'):
    return hvd.allreduce(torch.ones(3), name=name, op=hvd.Sum)[0].item()


def check_what_is_no_tensor_is_refused_on_this_rank_alone():
    """With the value, and what to give."""
    numpy = __import__('numpy')
    things = [(numpy.ones(3, dtype='float32'), 'numpy.ndarray of the type float32', 'as_tensor'),
              (7, 'int (7): give torch.tensor(7)'), (1.5, 'float (1.5): give torch.tensor(1.5)'),
              (True, 'bool (True)'), ('x', 'str; allgather_object()'), (None, 'NoneType'),
              ([1.0, 2.0], 'list of 2', 'torch.tensor()')]
    small = {f'{name} fp16': call for name, call in (
        ('allreduce', lambda t: hvd.allreduce(t, compression=hvd.Compression.fp16)),
        ('grouped', lambda t: hvd.grouped_allreduce([t], compression=hvd.Compression.fp16)),
        ('scatter', lambda t: hvd.reducescatter(t, compression=hvd.Compression.fp16)))}
    for name, call in {**CALLS, **small}.items():
        for thing, *texts in things:
            for grad in (True, False):
                with torch.set_grad_enabled(grad):
                    error = checks.raises(ValueError, lambda: call(thing), 'A tensor is required',
                                          *texts)
                assert type(error) is ValueError, (name, thing, error)
    for thing in (torch.ones(3), 1.5):
        checks.raises(ValueError, lambda: hvd.sparse_allreduce_async(thing, 's', hvd.Sum),
                      'A sparse tensor')
    assert total() == hvd.size()


def check_tensors_that_the_runtime_cannot_take_are_refused():
    sparse = torch.eye(3).to_sparse()
    for name, call in CALLS.items():
        checks.raises(ValueError, lambda: call(torch.ones(4, device='meta')),
                      'on the CPU and on CUDA devices')
        checks.raises(ValueError, lambda: call(torch.quantize_per_tensor(torch.ones(4), 1, 0,
                                                                         torch.qint8)),
                      'int_repr()')
        checks.raises(ValueError, lambda: call(sparse), 'not supported')
    checks.raises(ValueError, lambda: hvd.allreduce(torch.ones(2), op=77), 'not a reduction')
    checks.raises(HorovodInternalError, lambda: hvd.reducescatter(torch.ones(4), op=hvd.Max),
                  'AVERAGE and SUM')
    checks.raises(ValueError, lambda: hvd.sparse_allreduce_async(sparse, 's', hvd.Max))
    assert total() == hvd.size()


def check_non_contiguous_and_empty_tensors_work_everywhere():
    n, r = hvd.size(), hvd.rank()
    whole = torch.arange(float(4 * n * 3)).reshape(3, 4 * n)
    turned = whole.t() * (r + 1)
    rows = whole.t() * (n * (n + 1) / 2)
    assert torch.equal(hvd.allreduce(turned, op=hvd.Sum), rows)
    assert torch.equal(hvd.grouped_allreduce([turned, torch.ones(0)], op=hvd.Sum)[0], rows)
    assert hvd.allgather(turned).shape == (4 * n * n, 3)
    assert torch.equal(hvd.broadcast(turned, 0), whole.t())
    assert torch.equal(hvd.reducescatter(turned, op=hvd.Sum), rows[4 * r:4 * r + 4])
    assert torch.equal(hvd.alltoall(turned)[:4], whole.t()[4 * r:4 * r + 4])
    for shape in ((0,), (0, 3), (2 * n, 0)):
        empty = torch.ones(*shape)
        assert hvd.allreduce(empty).shape == shape and hvd.allreduce_(empty) is empty
        assert hvd.broadcast(empty, 0).shape == shape
        assert hvd.allgather(empty).shape == (shape[0] * n, *shape[1:])
        assert hvd.alltoall(empty).shape == shape
        assert hvd.reducescatter(empty).shape == (shape[0] // n, *shape[1:])
    assert hvd.grouped_allgather([torch.ones(0), torch.ones(0, 2)])[1].shape == (0, 2)
    expanded = torch.ones(1).expand(5)
    assert torch.equal(hvd.allreduce(expanded, op=hvd.Sum), torch.full((5,), float(n)))


def check_tensors_may_be_dropped_while_they_travel():
    handles = []
    for turn in range(30):
        handles.append(hvd.allreduce_async_(torch.full((20000,), float(turn)), name=f'd.{turn}'))
        handles.append(hvd.allgather_async(torch.full((500,), float(turn)), name=f'g.{turn}'))
        handles.append(hvd.grouped_allreduce_async([torch.full((900,), float(turn))] * 3))
        gc.collect()
        torch.empty(20000).fill_(-1)
    for turn in range(30):
        assert hvd.synchronize(handles[3 * turn]).eq(turn).all()
        assert hvd.synchronize(handles[3 * turn + 1]).eq(turn).all()
        assert all(t.eq(turn).all() for t in hvd.synchronize(handles[3 * turn + 2]))


def check_threads_share_the_names_of_operations_without_one():
    """More than there are shared names, so that some wait for their turn; and threads that change
    as often as they can, so that they meet everywhere."""
    failures = []

    def work():
        try:
            for _ in range(4):
                handles = [hvd.allreduce_async(torch.ones(64), op=hvd.Sum) for _ in range(150)]
                assert all(hvd.synchronize(handle).eq(hvd.size()).all() for handle in handles)
        except BaseException as error:
            failures.append(error)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(before)
    assert not failures, failures
    assert total() == hvd.size()


def check_handles_that_do_not_exist():
    assert hvd.synchronize(10 ** 9) is None
    checks.raises(ValueError, lambda: hvd.poll(10 ** 9), 'handle')


def check_handles_that_nobody_asks_for_do_not_fill_the_runtime():
    old = _handles.TIDY_AFTER, _handles.TIDY_BUT, _handles._crowd
    _handles.TIDY_AFTER, _handles.TIDY_BUT = 16, 4
    try:
        _handles._crowd = len(_handles.table)
        handles = []
        for step in range(60):
            handles.append(hvd.allgather_async(torch.tensor([step])))
            handles.append(hvd.allreduce_async(torch.ones(3) * step, name='never', op=hvd.Sum))
            assert total() == hvd.size()
        over = []
        while len(over) <= 60:  # they end when the other rank comes to them
            _handles._crowd = 0
            _handles._tidy()
            over = [h for h in handles if isinstance(_handles.table[h][1], _handles.Finished)]
        assert all(hvd.poll(handle) for handle in over)
        for step, (gathered, reduced) in enumerate(zip(handles[::2], handles[1::2])):
            assert hvd.synchronize(gathered).tolist() == [step] * hvd.size()
            assert hvd.synchronize(reduced).tolist() == [step * hvd.size()] * 3
    finally:
        _handles.TIDY_AFTER, _handles.TIDY_BUT, _handles._crowd = old


def check_names_of_other_types_and_long_ones():
    assert hvd.allreduce(torch.ones(1), name=5, op=hvd.Sum).item() == hvd.size()
    assert hvd.allreduce(torch.ones(1), name='ü' * 100, op=hvd.Sum).item() == hvd.size()
    checks.raises(HorovodInternalError, lambda: hvd.allreduce(torch.ones(1), name='x' * 1000),
                  'longer')


def check_several_threads_at_once():
    failures = []

    def work(number):
        try:
            for turn in range(40):
                name = f'thread.{number}.{turn % 3}'
                result = hvd.allreduce(torch.full((257,), float(turn)), name=name, op=hvd.Sum)
                assert result.eq(turn * hvd.size()).all()
                part = hvd.allgather(torch.ones(number + 1), name=f'gather.{number}')
                assert part.numel() == (number + 1) * hvd.size()
        except BaseException as error:
            failures.append(error)
    order = range(4) if hvd.rank() % 2 else reversed(range(4))
    threads = [threading.Thread(target=work, args=(n,)) for n in order]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert total() == hvd.size()


def check_gradients_reach_a_rank_that_waits_for_something_else_first():
    """Rank 0 waits for an operation that the others submit only after their step()."""
    model = torch.nn.Linear(3, 2)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for wait in (lambda: hvd.allreduce(torch.ones(1), name='between'),
                 lambda: hvd.synchronize(hvd.allgather_async(torch.ones(1), name='between')),
                 lambda: spin(hvd.allreduce_async(torch.ones(1), name='between'))):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        if hvd.rank() == 0:
            wait()
            optimizer.step()
        else:
            optimizer.step()
            wait()


def spin(handle):
    while not hvd.poll(handle):
        pass
    hvd.synchronize(handle)


def check_loading_a_state_forgets_gradients_that_were_not_reduced():
    model = torch.nn.Linear(3, 2)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5))
    state = optimizer.state_dict()
    for _ in range(2):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.load_state_dict(state)
        optimizer.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()


def linear(*sizes):
    layers = [torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
    model = torch.nn.Sequential(*layers)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return model


def train(model, optimizer, steps=2):
    for _ in range(steps):
        model.zero_grad()
        model(torch.ones(2, 3) * (hvd.rank() + 1)).pow(2).sum().backward()
        optimizer.step()
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    everyones = hvd.allgather(flat[None])
    assert everyones.eq(everyones[0]).all()


def check_a_model_may_get_another_optimizer():
    model = linear(3, 4, 2)
    for _ in range(3):
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01))
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        train(model, optimizer)
        del optimizer, scheduler
        gc.collect()
        for _ in range(3):
            model(torch.ones(2, 3)).sum().backward()


def check_parameters_that_are_added_later_are_reduced():
    for op in (hvd.Average, hvd.Adasum):
        model = linear(3, 4, 2)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model[0].parameters(), lr=0.01),
                                             model.named_parameters(), op=op)
        model[1].requires_grad_(False)
        train(model, optimizer)
        model[1].requires_grad_(True)
        optimizer.add_param_group({'params': list(model[1].parameters())})
        before = model[1].weight.detach().clone()
        train(model, optimizer)
        assert not torch.equal(model[1].weight, before)


def check_a_copied_optimizer_keeps_the_state_and_says_that_it_is_one():
    model = linear(3, 2)
    for op in (hvd.Average, hvd.Adasum):
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5), op=op)
        train(model, optimizer)
        copied = copy.deepcopy(optimizer)
        assert len(copied.state_dict()['state']) == 2
        checks.raises(RuntimeError, copied.step, 'copy')
        assert not copied._parameter_names
    assert copy.deepcopy(hvd.SyncBatchNorm(3)).process_set is hvd.global_process_set


def check_a_step_that_failed_leaves_nothing_in_flight():
    odd, even = torch.nn.Parameter(torch.ones(2 + hvd.rank())), torch.nn.Parameter(torch.ones(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([odd, even], lr=0.01),
                                         groups=[[odd], [even]])
    before = len(_handles.table)
    for _ in range(2):
        (odd.sum() + even.sum()).backward()
        checks.raises(HorovodInternalError, optimizer.step, 'ismatch')
        assert len(_handles.table) == before and total() == hvd.size()


def ends_early():
    """The last rank has fewer calls than the others, and simply ends."""
    for _ in range(3 if hvd.rank() == hvd.size() - 1 else 10):
        try:
            total('uneven')
        except HorovodInternalError as error:
            assert 'shut down' in str(error) or 'died' in str(error), error
            print('told', flush=True)
            break
    else:
        assert hvd.rank() == hvd.size() - 1
    hvd.shutdown()
    checks.raises(ValueError, hvd.rank, 'hvd.init()')
    checks.raises(HorovodInternalError, total, 'hvd.init()')
    checks.raises(ValueError, total, 'hvd.init()')


if __name__ == '__main__':
    for call in CALLS.values():
        checks.raises((HorovodInternalError, ValueError), lambda: call(torch.ones(4)), 'hvd.init()')
    for call in (hvd.rank, hvd.is_homogeneous, hvd.stop_timeline, hvd.global_process_set.size):
        checks.raises(ValueError, call, 'Horovod has not been initialized; use hvd.init()')
    checks.raises(ValueError, lambda: hvd.DistributedOptimizer(torch.optim.SGD(
        torch.nn.Linear(1, 1).parameters(), lr=1.0)), 'hvd.init()')
    hvd.init()
    torch.set_num_threads(1)
    checks.run(sys.modules[__name__])
    ends_early()
