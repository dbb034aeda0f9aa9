# SPDX-License-Identifier: Apache-2.0
"""What goes wrong is an error on every rank, and the job can go on."""
import sys
import time

import torch

import checks
import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError


def goes_on():
    assert hvd.allreduce(torch.ones(3), name='goes_on', op=hvd.Sum)[0] == hvd.size()


def odd():
    return hvd.rank() == hvd.size() - 1


def check_mismatched_shapes():
    checks.raises(HorovodInternalError,
                  lambda: hvd.allreduce(torch.ones(4 if odd() else 5), name='shape'), 'shape')
    goes_on()
    checks.raises(HorovodInternalError, lambda: hvd.allreduce(
        torch.ones(2, 2) if odd() else torch.ones(4), name='dimensions'), 'ismatch')
    goes_on()


def check_mismatched_types():
    checks.raises(HorovodInternalError, lambda: hvd.allreduce(
        torch.ones(4, dtype=torch.float64 if odd() else torch.float32), name='type'),
        'float32', 'float64')
    goes_on()


def check_mismatched_reductions_and_factors():
    checks.raises(HorovodInternalError, lambda: hvd.allreduce(
        torch.ones(4), name='reduction', op=hvd.Max if odd() else hvd.Sum), 'ismatch')
    goes_on()
    checks.raises(HorovodInternalError, lambda: hvd.allreduce(
        torch.ones(4), name='factor', prescale_factor=2.0 if odd() else 1.0), 'ismatch')
    goes_on()


def check_mismatched_roots_and_bad_roots():
    checks.raises(HorovodInternalError,
                  lambda: hvd.broadcast(torch.ones(4), 1 if odd() else 0, name='root'), 'root')
    goes_on()
    checks.raises(HorovodInternalError,
                  lambda: hvd.broadcast(torch.ones(4), hvd.size(), name='no_root'), 'root')
    goes_on()


def check_mismatched_allgather_and_scalars():
    checks.raises(HorovodInternalError,
                  lambda: hvd.allgather(torch.ones(2, 3 if odd() else 4), name='rows'), 'ismatch')
    goes_on()
    checks.raises((HorovodInternalError, ValueError),
                  lambda: hvd.allgather(torch.tensor(1.0), name='scalar'))
    goes_on()


def check_a_failed_name_can_be_used_again():
    for _ in range(2):
        checks.raises(HorovodInternalError,
                      lambda: hvd.allreduce(torch.ones(4 if odd() else 5), name='shape'))
        assert hvd.allreduce(torch.ones(5), name='shape', op=hvd.Sum)[0] == hvd.size()


def check_a_name_in_use_is_refused():
    # The others come later, so it is in flight here for certain.
    if hvd.rank() == 0:
        for shape in (5, 6):
            first = hvd.allreduce_async(torch.ones(5), name='in_use', op=hvd.Sum)
            error = checks.raises(HorovodInternalError,
                                  lambda: hvd.allreduce_async(torch.ones(shape), name='in_use'))
            assert isinstance(error, ValueError)
            checks.raises(HorovodInternalError,
                          lambda: hvd.allreduce(torch.ones(shape), name='in_use'))
            hvd.barrier()
            assert hvd.synchronize(first)[0] == hvd.size()
    else:
        for _ in range(2):
            hvd.barrier()
            assert hvd.allreduce(torch.ones(5), name='in_use', op=hvd.Sum)[0] == hvd.size()
    goes_on()


#: Each submits under the name 'taken'.
ASYNC = {
    'allreduce': lambda t: hvd.allreduce_async(t, name='taken'),
    'allreduce_': lambda t: hvd.allreduce_async_(t, name='taken'),
    'allgather': lambda t: hvd.allgather_async(t, name='taken'),
    'broadcast': lambda t: hvd.broadcast_async(t, root_rank=0, name='taken'),
    'alltoall': lambda t: hvd.alltoall_async(t, name='taken'),
    'reducescatter': lambda t: hvd.reducescatter_async(t, name='taken'),
    'group': lambda t: hvd.grouped_allreduce_async([t, t], name='taken'),
    'sparse': lambda t: hvd.sparse_allreduce_async(t.to_sparse(), 'taken', hvd.Sum),
}


def check_a_name_is_taken_on_every_rank_until_its_end_is_seen():
    for kind, start in ASYNC.items():
        for rows in (1, 400):
            tensor = torch.ones(rows * hvd.size(), 17)
            for turn in range(2):
                handle = start(tensor)
                if turn:  # it may have ended, which changes nothing
                    time.sleep(0.01)  # patient: for its end, most often
                for _ in range(2):
                    error = checks.raises(HorovodInternalError, lambda: start(tensor), 'same name')
                    assert isinstance(error, ValueError), kind
                if callable(handle):
                    handle()
                    continue
                if turn:
                    while not hvd.poll(handle):
                        pass
                    second = start(tensor)
                    hvd.synchronize(second)
                hvd.synchronize(handle)
    goes_on()


def check_a_refusal_tells_its_own_name():
    """Also where it stands behind others of its name that have not been started yet."""
    starts = {f'{kind}.{kind}': lambda kind=kind: getattr(hvd, f'{kind}_async')(
        torch.ones(hvd.size()), *((0,) if kind == 'broadcast' else ()), name=kind)
        for kind in ('allreduce', 'allgather', 'broadcast', 'alltoall', 'reducescatter')}
    starts['allreduce.group'] = lambda: hvd.grouped_allreduce_async(
        [torch.ones(3)] * 2, name='group')
    handles = []
    for _ in range(2):
        if hvd.rank() == 0:  # ahead: the second ones wait for the first, which wait for the others
            handles += [start() for start in starts.values()]
            for name, start in starts.items():
                checks.raises(ValueError, start, 'same name', f'({name}')
        goes_on()
    for _ in range(2 if hvd.rank() else 1):
        for handle in handles or [start() for start in starts.values()]:
            hvd.synchronize(handle)
    goes_on()


def check_a_handle_that_nobody_waits_for_keeps_no_name_beyond_the_next_wait():
    """As in a loop that drops the handles of its metrics: what it waits for is something else."""
    for start in ASYNC.values():
        for rows in (1, 4000):
            tensor = torch.ones(rows * hvd.size(), 17)
            for step in range(12):
                if odd() and step % 3 == 0:  # the others are ahead: theirs are in flight still
                    time.sleep(0.003)  # patient: the others are ahead
                start(tensor)
                checks.raises(ValueError, lambda: start(tensor), 'same name')
                if step % 2:
                    assert hvd.allreduce(torch.ones(2), name='waited')[0] == 1
                else:
                    hvd.barrier()
    handles = []
    for step in range(10):
        handles.append((hvd.allreduce_async(torch.full((3,), float(step)), name='taken'),
                        hvd.allgather_async(torch.full((2,), float(step)), name='taken')))
        goes_on()
    assert all(hvd.poll(handle) for handle, _ in handles[:-1])
    for step, (reduced, gathered) in enumerate(handles):
        assert hvd.synchronize(reduced).tolist() == [step] * 3
        assert hvd.synchronize(gathered).tolist() == [step] * 2 * hvd.size()
    goes_on()


def check_an_operation_abandoned_by_an_exception_can_be_repeated():
    for turn in range(5):
        try:
            hvd.grouped_allreduce_async([torch.ones(5), torch.ones(5, dtype=torch.int32)],
                                        name='abandoned')
            hvd.broadcast_async_(torch.ones(50000), 0, name='abandoned')
            raise KeyError
        except KeyError:
            goes_on()
    # The unseen ones are of another shape; and one of them has failed.
    hvd.allreduce_async(torch.ones(5 if odd() else 6), name='abandoned')
    hvd.barrier()
    assert hvd.allreduce(torch.ones(7), name='abandoned', op=hvd.Sum)[0] == hvd.size()
    goes_on()


def check_poll_is_false_right_after_a_submission():
    for rows in (1, 5000):
        for turn in range(3):
            hvd.barrier()
            assert not hvd.poll(hvd.allreduce_async(torch.ones(2), name=f'polled.{rows}.{turn}'))
            hvd.barrier()
            # Last of all ranks: it could be carried out at once.
            handles = [hvd.allreduce_async(torch.ones(rows)) for _ in range(3)]
            while not all([hvd.poll(handle) for handle in handles]):
                pass
            assert hvd.synchronize(handles[2])[0] == 1
            # The runtime's own thread, or a rank that comes later, may carry it out meanwhile.
            handle = hvd.reducescatter_async(torch.ones(hvd.size() * rows))
            time.sleep(0.05)  # patient: it must not be seen to end
            assert not hvd.poll(handle)
            while not hvd.poll(handle):
                pass
            hvd.synchronize(handle)


def check_unnamed_operations_need_no_synchronize():
    for _ in range(300):
        hvd.allreduce_async_(torch.ones(3))
        hvd.grouped_allreduce_async_([torch.ones(3), torch.ones(2)])
        hvd.allgather_async(torch.ones(1))
    goes_on()


def check_group_fails_as_a_whole():
    tensors = [torch.ones(3), torch.ones(4 if odd() else 5), torch.ones(6)]
    checks.raises(HorovodInternalError, lambda: hvd.grouped_allreduce(tensors, name='bad_group'))
    goes_on()


def check_splits_that_do_not_fit():
    ones = torch.ones(hvd.size() * 2 + 1)
    for splits in ([1] * (hvd.size() + 1), [100] * hvd.size()):
        checks.raises((HorovodInternalError, ValueError),
                      lambda: hvd.alltoall(ones, splits=splits))
    checks.raises((HorovodInternalError, ValueError),
                  lambda: hvd.alltoall(ones, splits=[[1] * hvd.size()]), '1D')
    if hvd.size() > 1:
        checks.raises((HorovodInternalError, ValueError), lambda: hvd.alltoall(ones))
    goes_on()


def check_what_is_not_offered_says_so():
    checks.raises(HorovodInternalError,
                  lambda: hvd.allreduce(torch.ones(1, dtype=torch.int32), op=hvd.Adasum), 'Adasum')
    checks.raises(ValueError, lambda: hvd.allreduce(torch.ones(1, dtype=torch.complex64),
                                                    op=hvd.Max), 'complex64', 'no max')
    checks.raises(ValueError, lambda: hvd.allreduce(torch.ones(1, device='meta')), 'CPU')
    for module, text in (('spark.torch', 'pip install pyspark'), ('ray', 'pip install ray'),
                         ('spark.keras', 'pip install pyspark'), ('mxnet', 'archived')):
        checks.raises(ImportError, lambda: __import__(f'horovod.{module}'), text,
                      module.partition('.')[0])
    goes_on()


if __name__ == '__main__':
    checks.raises(ValueError, hvd.rank, 'hvd.init()')
    checks.raises(HorovodInternalError, lambda: hvd.allreduce(torch.ones(1)), 'hvd.init()')
    hvd.init()
    checks.run(sys.modules[__name__])
    hvd.shutdown()
    checks.raises(ValueError, hvd.size, 'hvd.init()')
