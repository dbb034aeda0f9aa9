# SPDX-License-Identifier: Apache-2.0
"""Reigen's runtime for Python: the collectives inside a data-parallel job.

    import reigen

    reigen.init()
    total = reigen.allreduce(array, op=reigen.Sum)      # numpy arrays and the like: reigen.arrays

    import reigen.torch
    total = reigen.torch.allreduce(tensor, op=reigen.Sum)

The operations on arrays load NumPy when the first of them is used, not before. Most scripts want
`import horovod.torch as hvd` or a sister of it, which is this with Horovod's names and semantics.
"""
from typing import TYPE_CHECKING, Any, List

from reigen._core import (Adasum, Average, Max, Min, Product, Sum, add_process_set, cross_rank,
                          cross_size, describe, deterministic, init, is_homogeneous,
                          is_initialized, local_rank, local_size, rank, shutdown, size, stats,
                          step, version)
from reigen._handles import poll, synchronize
from reigen._objects import allgather_object, broadcast_object
from reigen._observe import Diagnosis, diagnose, planes, start_timeline, stop_timeline
from reigen._sets import (process_set_ids, process_set_included, process_set_rank,
                          process_set_ranks, process_set_size, remove_process_set)
from reigen.errors import HorovodInternalError, InvalidOperationError, OperationError

if TYPE_CHECKING:
    from reigen._run import JobFailed, run
    from reigen.arrays import (allgather, allgather_async, allreduce, allreduce_async, alltoall,
                               alltoall_async, barrier, barrier_async, broadcast, broadcast_async,
                               grouped_allgather, grouped_allgather_async, grouped_allreduce,
                               grouped_allreduce_async, grouped_reducescatter,
                               grouped_reducescatter_async, join, join_async, reducescatter,
                               reducescatter_async)

__version__ = '0.1.0'

#: Of reigen.arrays, on first use.
_ARRAYS = ['allgather', 'allgather_async', 'allreduce',
           'allreduce_async', 'alltoall', 'alltoall_async', 'barrier', 'barrier_async', 'broadcast',
           'broadcast_async', 'grouped_allgather', 'grouped_allgather_async', 'grouped_allreduce',
           'grouped_allreduce_async', 'grouped_reducescatter', 'grouped_reducescatter_async',
           'join', 'join_async', 'reducescatter', 'reducescatter_async']

#: Of reigen._run, on first use: ranks do without.
_RUN = ['JobFailed', 'run']

__all__ = ['Adasum', 'Average', 'Diagnosis', 'HorovodInternalError', 'InvalidOperationError', 'Max',
           'Min', 'OperationError', 'Product', 'Sum', 'add_process_set', 'allgather_object',
           'broadcast_object', 'cross_rank', 'cross_size', 'describe', 'deterministic', 'diagnose',
           'init', 'is_homogeneous', 'is_initialized', 'local_rank', 'local_size', 'planes', 'poll',
           'process_set_ids', 'process_set_included', 'process_set_rank', 'process_set_ranks',
           'process_set_size', 'rank', 'remove_process_set', 'shutdown', 'size', 'start_timeline',
           'stats', 'step', 'stop_timeline', 'synchronize', 'version', *_ARRAYS, *_RUN]


def __getattr__(name: str) -> Any:
    if name in _RUN:
        from reigen import _run
        return getattr(_run, name)
    if name not in _ARRAYS:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from reigen import arrays
    for each in _ARRAYS:
        globals()[each] = getattr(arrays, each)
    return globals()[name]


def __dir__() -> List[str]:
    return sorted({*globals(), *_ARRAYS, *_RUN})
