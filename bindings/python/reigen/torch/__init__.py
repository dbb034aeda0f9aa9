# SPDX-License-Identifier: Apache-2.0
"""The collectives on PyTorch's tensors, without autograd and without Horovod's history.

Every function has a form ending in _async that gives a handle (an int) for poll() and
synchronize(). Names match operations between ranks; without one, the n-th unnamed operation of each
rank belongs together. A failure raises reigen.OperationError; what cannot be submitted at all is
also a ValueError. process_set: the number that reigen.add_process_set() gave, or an object with
`process_set_id`; 0 is all ranks.
"""
from typing import Any, List, Optional, Sequence, Tuple

import torch

from reigen import _backend
from reigen._core import Average, Sum
from reigen._handles import poll, synchronize
from reigen._operations import join as join_async
from reigen._operations import set_id
from reigen.torch import _allreduce, _device, _operations, _untraced
from reigen.torch._operations import (allgather_async, alltoall_async, barrier_async,
                                      broadcast_async)
from reigen.torch._tensor import like

__all__ = ['allgather', 'allgather_async', 'allreduce', 'allreduce_async', 'alltoall',
           'alltoall_async', 'barrier', 'barrier_async', 'broadcast', 'broadcast_async',
           'grouped_allgather_async', 'grouped_allreduce_async', 'grouped_reducescatter_async',
           'join', 'join_async', 'poll', 'reducescatter', 'reducescatter_async', 'synchronize']

# The backend "reigen" of torch.distributed, where this PyTorch can have it.
_backend.register()


def allreduce(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average,
              prescale: float = 1.0, postscale: float = 1.0,
              out: Optional[torch.Tensor] = None, process_set: Any = 0) -> torch.Tensor:
    """Reduce over all ranks; every rank gets the same bits. out=tensor works in place."""
    return _allreduce.allreduce(tensor, out, name, op, prescale, postscale,
                                set_id(process_set))


def allreduce_async(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average,
                    prescale: float = 1.0, postscale: float = 1.0,
                    out: Optional[torch.Tensor] = None, process_set: Any = 0) -> int:
    """As allreduce, with a handle. Leave tensor and out alone until synchronize()."""
    return _allreduce.allreduce_async(tensor, out, name, op, prescale, postscale,
                                      set_id(process_set))


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                            op: int = Average, prescale: float = 1.0, postscale: float = 1.0,
                            outs: Optional[Sequence[torch.Tensor]] = None,
                            process_set: Any = 0) -> int:
    """Allreduces that are carried out together; the result is a list."""
    if outs is None:
        try:
            outs = list(map(torch.empty_like, tensors))
        except (TypeError, RuntimeError):
            outs = list(map(like, tensors))
    return _operations.grouped_async(_operations.ALLREDUCE, tensors, outs, name, op, prescale,
                                     postscale, set_id(process_set))


def allgather(tensor: torch.Tensor, name: Optional[str] = None,
              process_set: Any = 0) -> torch.Tensor:
    """Concatenate along the first dimension, in the order of ranks; the first may differ."""
    return synchronize(allgather_async(tensor, name, set_id(process_set)))


def grouped_allgather_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                            process_set: Any = 0) -> int:
    """Allgathers that are carried out together; the result is a list."""
    return _operations.grouped_async(_operations.ALLGATHER, tensors, None, name,
                                     process_set=set_id(process_set))


def broadcast(tensor: torch.Tensor, root: int = 0, name: Optional[str] = None,
              out: Optional[torch.Tensor] = None, process_set: Any = 0) -> torch.Tensor:
    """root's tensor on every rank."""
    out = like(tensor) if out is None else out
    return synchronize(broadcast_async(tensor, out, root, name, set_id(process_set)))


def alltoall(tensor: torch.Tensor, splits: Any = None,
             name: Optional[str] = None,
             process_set: Any = 0) -> Tuple[torch.Tensor, torch.Tensor]:
    """Send splits[r] rows to rank r (equal parts without splits): (result, received splits)."""
    return synchronize(alltoall_async(tensor, splits, name, set_id(process_set)))


def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: int = Sum,
                        prescale: float = 1.0, postscale: float = 1.0,
                        process_set: Any = 0) -> int:
    """As reducescatter, with a handle."""
    return _operations.reducescatter_async(tensor, name, op, prescale, postscale,
                                           set_id(process_set))


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None, op: int = Sum,
                  prescale: float = 1.0, postscale: float = 1.0,
                  process_set: Any = 0) -> torch.Tensor:
    """Reduce, then keep this rank's part of the first dimension."""
    return synchronize(reducescatter_async(tensor, name, op, prescale, postscale, process_set))


def grouped_reducescatter_async(tensors: List[torch.Tensor], name: Optional[str] = None,
                                op: int = Sum, prescale: float = 1.0,
                                postscale: float = 1.0, process_set: Any = 0) -> int:
    """Reducescatters that are carried out together; the result is a list."""
    return _operations.grouped_async(_operations.REDUCESCATTER, tensors, None, name, op, prescale,
                                     postscale, set_id(process_set))


def barrier(process_set: Any = 0) -> None:
    """Wait until all ranks have come here."""
    synchronize(barrier_async(set_id(process_set)))


def join(device: int = -1) -> int:
    """This rank has no more data; blocks until all ranks say so. The last rank that did. device:
    the GPU on which it supplies zeros to the others, where it has had no tensor on one yet."""
    if device >= 0:
        _device.suggest(device)
    return synchronize(join_async())


_untraced.hide('reigen')
