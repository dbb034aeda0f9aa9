# SPDX-License-Identifier: Apache-2.0
"""Horovod's operations on tensors, without gradients (see autograd.py for those).

An `_async` form gives a handle for poll() and synchronize(); a trailing underscore means in place.
`name` matches an operation between ranks; without one, the n-th unnamed operation of each rank
belongs together. `average` is the old form of `op`. Failures raise HorovodInternalError.
"""
from typing import Any, List, Optional, Sequence

import torch

from horovod.common.basics import (HorovodBasics, ccl_built, cross_rank, cross_size, cuda_built,
                                   ddl_built, diagnose, gloo_built, gloo_enabled, init,
                                   is_homogeneous, is_initialized, local_rank, local_size,
                                   mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, rank,
                                   rocm_built, shutdown, size, start_timeline, stop_timeline)
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import (ProcessSet, add_process_set, check, global_process_set,
                                         remove_process_set)
from horovod.common.util import (check_installed_version, get_average_backwards_compatibility_fun,
                                 gpu_available, num_rank_is_power_2)
from reigen import torch as _core
from reigen._handles import poll, synchronize
from reigen.torch import _allreduce
from reigen.torch._tensor import like

_basics = HorovodBasics()

Average, Sum, Adasum = _basics.Average, _basics.Sum, _basics.Adasum
Min, Max, Product = _basics.Min, _basics.Max, _basics.Product

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)
check_num_rank_power_of_2 = num_rank_is_power_2

#: For sparse tensors that are right: PyTorch 2 warns where nobody says whether it is to check them.
UNCHECKED = ({'check_invariants': False}
             if hasattr(torch.sparse, 'check_sparse_tensor_invariants') else {})


def _choose(op: Optional[int], average: Optional[bool]) -> int:
    """The reduction that `op` and the old `average` mean; ValueError for what is not offered."""
    if average is None:
        return Average if op is None else op
    return handle_average_backwards_compatibility(op, average)


# ---------------------------------------------------------------------------- allreduce

def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None,
                    name: Optional[str] = None, op: Optional[int] = None,
                    prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> int:
    """Reduce over all ranks into a new tensor. Do not change `tensor` until synchronize()."""
    op = _choose(op, average)
    return _allreduce.allreduce_async(tensor, None, name, op, prescale_factor, postscale_factor,
                                      check(process_set))


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None,
                     name: Optional[str] = None, op: Optional[int] = None,
                     prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> int:
    """Reduce over all ranks, in place."""
    op = _choose(op, average)
    return _allreduce.allreduce_async(tensor, tensor, name, op, prescale_factor, postscale_factor,
                                      check(process_set))


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
               op: Optional[int] = None, prescale_factor: float = 1.0,
               postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Reduce over all ranks, in place, and wait."""
    op = _choose(op, average)
    return _allreduce.allreduce(tensor, tensor, name, op, prescale_factor, postscale_factor,
                                check(process_set))


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                            name: Optional[str] = None, op: Optional[int] = None,
                            prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> int:
    """Allreduces that are carried out together, into new tensors: one handle, a list as result."""
    op = _choose(op, average)
    return _core.grouped_allreduce_async(tensors, name, op, prescale_factor, postscale_factor,
                                         process_set=check(process_set))


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                             name: Optional[str] = None, op: Optional[int] = None,
                             prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> int:
    """Allreduces that are carried out together, in place."""
    op = _choose(op, average)
    return _core.grouped_allreduce_async(tensors, name, op, prescale_factor, postscale_factor,
                                         tensors, check(process_set))


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                       name: Optional[str] = None, op: Optional[int] = None,
                       prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """Allreduces that are carried out together, in place, and wait."""
    return synchronize(grouped_allreduce_async_(tensors, average, name, op, prescale_factor,
                                                postscale_factor, process_set))


def _kind(thing: Any) -> str:
    return (f'one of the layout {thing.layout}' if isinstance(thing, torch.Tensor)
            else type(thing).__name__)


def sparse_allreduce_async(tensor: torch.Tensor, name: Optional[str], op: int,
                           process_set: ProcessSet = global_process_set):
    """Sum or average a sparse tensor by gathering its indices and values.

    Gives a function that waits and returns the sparse result (not a handle), as Horovod does.
    """
    if op not in (Average, Sum):
        raise ValueError('Sparse tensors can be summed and averaged only.')
    if not getattr(tensor, 'is_sparse', False):
        raise ValueError(f'A sparse tensor (torch.sparse_coo) is required, not {_kind(tensor)}; '
                         'allreduce_async() takes dense ones.')
    tensor = tensor.coalesce()
    base = None if name is None else str(name)
    indices = allgather_async(tensor.indices().transpose(0, 1).contiguous(),
                              base and f'{base}.indices', process_set)
    values = allgather_async(tensor.values(), base and f'{base}.values', process_set)

    def wait() -> torch.Tensor:
        all_values = synchronize(values)
        all_indices = synchronize(indices)
        if op == Average:
            all_values = all_values / process_set.size()
        return torch.sparse_coo_tensor(all_indices.transpose(0, 1), all_values, tensor.size(),
                                       **UNCHECKED)

    return wait


# ---------------------------------------------------------------------------- other operations

def allgather_async(tensor: torch.Tensor, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> int:
    """Concatenate along the first dimension, in the order of ranks; the first may differ."""
    return _core.allgather_async(tensor, name, check(process_set))


def grouped_allgather_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                            process_set: ProcessSet = global_process_set) -> int:
    """Allgathers that are carried out together: one handle, a list as result."""
    return _core.grouped_allgather_async(tensors, name, check(process_set))


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> int:
    """root_rank's tensor, as a new tensor on every rank."""
    return _core.broadcast_async(tensor, like(tensor), root_rank, name, check(process_set))


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> int:
    """root_rank's tensor into every rank's tensor."""
    return _core.broadcast_async(tensor, tensor, root_rank, name, check(process_set))


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """root_rank's tensor into every rank's tensor, and wait."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def alltoall_async(tensor: torch.Tensor, splits: Any = None, name: Optional[str] = None,
                   process_set: ProcessSet = global_process_set) -> int:
    """Send splits[r] rows to rank r, or equal parts. The result is (tensor, received splits)."""
    return _core.alltoall_async(tensor, splits, name, check(process_set))


def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average,
                        process_set: ProcessSet = global_process_set,
                        prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> int:
    """Reduce, then keep this rank's part of the first dimension."""
    return _core.reducescatter_async(tensor, name, op, prescale_factor, postscale_factor,
                                     check(process_set))


def grouped_reducescatter_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                                op: int = Average, process_set: ProcessSet = global_process_set,
                                prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> int:
    """Reducescatters that are carried out together: one handle, a list as result."""
    return _core.grouped_reducescatter_async(tensors, name, op, prescale_factor, postscale_factor,
                                             check(process_set))


def join(device: int = -1) -> int:
    """This rank has no more data: it supplies zeros to the others' allreduces.

    Blocks until all ranks have said so, and gives the rank that joined last. `device`: the GPU for
    these zeros; it matters only where this rank has had no CUDA tensor yet.
    """
    return _core.join(device)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until all ranks have come here."""
    _core.barrier(check(process_set))


__all__ = ['Adasum', 'Average', 'HorovodInternalError', 'Max', 'Min', 'Product', 'Sum',
           'add_process_set', 'allgather_async', 'allreduce_', 'allreduce_async',
           'allreduce_async_', 'alltoall_async', 'barrier', 'broadcast_', 'broadcast_async',
           'broadcast_async_', 'ccl_built', 'check_installed_version', 'cross_rank', 'cross_size',
           'cuda_built', 'ddl_built', 'global_process_set', 'gloo_built', 'gloo_enabled',
           'gpu_available', 'grouped_allgather_async',
           'grouped_allreduce_', 'grouped_allreduce_async', 'grouped_allreduce_async_',
           'grouped_reducescatter_async', 'init', 'is_homogeneous', 'is_initialized', 'join',
           'local_rank', 'local_size', 'mpi_built', 'mpi_enabled', 'mpi_threads_supported',
           'nccl_built', 'poll', 'rank', 'reducescatter_async', 'remove_process_set', 'rocm_built',
           'shutdown', 'size', 'sparse_allreduce_async', 'start_timeline', 'stop_timeline',
           'synchronize', 'ProcessSet']
