# SPDX-License-Identifier: Apache-2.0
"""The operations through which gradients flow.

The autograd functions are used only where a gradient is wanted; without one, an operation costs no
more than its plain form. What the gradient of each is follows Horovod: with an average over the
ranks where the loss of each rank counts by its share (allgather, broadcast).
"""
from typing import Any, List, Optional, Sequence

import torch

from horovod.common.process_sets import ProcessSet, check, global_process_set
from horovod.torch import mpi_ops
from horovod.torch.compression import Compression, NoneCompressor
from horovod.torch.mpi_ops import Average, Sum, _choose, synchronize
from reigen.torch import _allreduce, _tensor

_grad_enabled = torch.is_grad_enabled


def _wanted(tensors: Sequence[torch.Tensor]) -> bool:
    try:
        return _grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    except AttributeError:
        _tensor.check(*tensors)
        raise


class HorovodAllreduce(torch.autograd.Function):
    """allreduce; its gradient is reduced as the tensor was."""

    @staticmethod
    def forward(ctx, tensor, average, name, op, prescale_factor, postscale_factor, process_set):
        ctx.settings = (average, None, op, prescale_factor, postscale_factor, process_set)
        return synchronize(mpi_ops.allreduce_async(tensor, average, name, op, prescale_factor,
                                                   postscale_factor, process_set))

    @staticmethod
    def backward(ctx, grad_output):
        reduced = synchronize(mpi_ops.allreduce_async(grad_output, *ctx.settings))
        return reduced, None, None, None, None, None, None


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
              compression=Compression.none, op: Optional[int] = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Reduce over all ranks (average by default) into a new tensor. Gradients flow."""
    op = _choose(op, average)
    if compression is NoneCompressor:
        if _grad_enabled() and getattr(tensor, 'requires_grad', False):
            return HorovodAllreduce.apply(tensor, None, name, op, prescale_factor,
                                          postscale_factor, process_set)
        return _allreduce.allreduce(tensor, None, name, op, prescale_factor, postscale_factor,
                                    check(process_set))
    _tensor.check(tensor)
    small, ctx = compression.compress(tensor)
    reduced = allreduce(small, None, name, Compression.none, op, prescale_factor,
                        postscale_factor, process_set)
    return compression.decompress(reduced, ctx)


class HorovodGroupedAllreduce(torch.autograd.Function):
    """grouped_allreduce; the gradients are reduced together as the tensors were."""

    @staticmethod
    def forward(ctx, average, name, op, prescale_factor, postscale_factor, process_set, *tensors):
        ctx.settings = (average, None, op, prescale_factor, postscale_factor, process_set)
        return tuple(synchronize(mpi_ops.grouped_allreduce_async(
            list(tensors), average, name, op, prescale_factor, postscale_factor, process_set)))

    @staticmethod
    def backward(ctx, *grad_output):
        reduced = synchronize(mpi_ops.grouped_allreduce_async(list(grad_output), *ctx.settings))
        return (None, None, None, None, None, None, *reduced)


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                      name: Optional[str] = None, compression=Compression.none,
                      op: Optional[int] = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """Allreduces that are carried out together or not at all, into new tensors. Gradients flow."""
    op = _choose(op, average)
    _tensor.check(*tensors)
    pairs = [compression.compress(tensor) for tensor in tensors]
    small = [tensor for tensor, _ in pairs]
    if _wanted(small):
        reduced = HorovodGroupedAllreduce.apply(None, name, op, prescale_factor,
                                                postscale_factor, process_set, *small)
    else:
        reduced = synchronize(mpi_ops.grouped_allreduce_async(
            small, None, name, op, prescale_factor, postscale_factor, process_set))
    return [compression.decompress(tensor, ctx) for tensor, (_, ctx) in zip(reduced, pairs)]


def _own_rows(reduced: torch.Tensor, rows: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    """This rank's part of a gradient of gathered rows; rows holds what each rank gave."""
    rank = process_set.rank()
    return reduced.narrow(0, int(rows[:rank].sum()), int(rows[rank]))


class HorovodAllgather(torch.autograd.Function):
    """allgather; this rank's rows of the averaged gradient come back."""

    @staticmethod
    def forward(ctx, tensor, name, process_set):
        ctx.rows, ctx.process_set = tensor.shape[0] if tensor.dim() else 0, process_set
        return synchronize(mpi_ops.allgather_async(tensor, name, process_set))

    @staticmethod
    def backward(ctx, grad_output):
        rows = mpi_ops.allgather_async(torch.tensor([ctx.rows]), None, ctx.process_set)
        reduced = synchronize(mpi_ops.allreduce_async(grad_output, op=Average,
                                                      process_set=ctx.process_set))
        return _own_rows(reduced, synchronize(rows), ctx.process_set), None, None


def allgather(tensor: torch.Tensor, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Concatenate along the first dimension, in the order of ranks; the first may differ."""
    if _wanted((tensor,)):
        return HorovodAllgather.apply(tensor, name, process_set)
    return synchronize(mpi_ops.allgather_async(tensor, name, process_set))


class HorovodGroupedAllgather(torch.autograd.Function):
    """grouped_allgather; gradients as those of allgather."""

    @staticmethod
    def forward(ctx, name, process_set, *tensors):
        ctx.rows, ctx.process_set = [tensor.shape[0] for tensor in tensors], process_set
        return tuple(synchronize(mpi_ops.grouped_allgather_async(list(tensors), name,
                                                                 process_set)))

    @staticmethod
    def backward(ctx, *grad_output):
        rows = mpi_ops.allgather_async(torch.tensor([ctx.rows]), None, ctx.process_set)
        reduced = synchronize(mpi_ops.grouped_allreduce_async(
            list(grad_output), op=Average, process_set=ctx.process_set))
        rows = synchronize(rows)
        parts = [_own_rows(grad, rows[:, i], ctx.process_set) for i, grad in enumerate(reduced)]
        return (None, None, *parts)


def grouped_allgather(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """Allgathers that are carried out together or not at all."""
    if _wanted(tensors):
        return list(HorovodGroupedAllgather.apply(name, process_set, *tensors))
    return synchronize(mpi_ops.grouped_allgather_async(tensors, name, process_set))


class HorovodBroadcast(torch.autograd.Function):
    """broadcast; the root gets the averaged gradient, the others zeros."""

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return synchronize(mpi_ops.broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, grad_output):
        reduced = synchronize(mpi_ops.allreduce_async(grad_output, op=Average,
                                                      process_set=ctx.process_set))
        if mpi_ops.rank() != ctx.root_rank:
            reduced.zero_()
        return reduced, None, None, None


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """root_rank's tensor, as a new tensor on every rank."""
    if _wanted((tensor,)):
        return HorovodBroadcast.apply(tensor, root_rank, name, process_set)
    return synchronize(mpi_ops.broadcast_async(tensor, root_rank, name, process_set))


class HorovodAlltoall(torch.autograd.Function):
    """alltoall; the gradient travels back by the received splits."""

    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        output, received = synchronize(mpi_ops.alltoall_async(tensor, splits, name, process_set))
        ctx.received, ctx.process_set = received, process_set
        if splits is None:
            return output
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, grad_output, *_):
        grad, _ = synchronize(mpi_ops.alltoall_async(grad_output, ctx.received,
                                                     process_set=ctx.process_set))
        return grad, None, None, None


def alltoall(tensor: torch.Tensor, splits: Any = None, name: Optional[str] = None,
             process_set: ProcessSet = global_process_set):
    """Send splits[r] rows to rank r (equal parts without splits) and receive the others' rows.

    Gives the tensor, and with splits also the rows received from each rank.
    """
    if _wanted((tensor,)):
        return HorovodAlltoall.apply(tensor, splits, name, process_set)
    output, received = synchronize(mpi_ops.alltoall_async(tensor, splits, name, process_set))
    return output if splits is None else (output, received)


def _scattered(grads, op, process_set, prescale_factor, postscale_factor):
    """Gradients on the way back through a reducescatter: what each part stands for."""
    factor = prescale_factor * postscale_factor * (process_set.size() if op == Sum else 1)
    return [grad * factor if factor != 1 else grad for grad in grads]


class HorovodReducescatter(torch.autograd.Function):
    """reducescatter; the gradients of the parts are gathered."""

    @staticmethod
    def forward(ctx, tensor, name, op, process_set, prescale_factor, postscale_factor):
        ctx.settings = (op, process_set, prescale_factor, postscale_factor)
        return synchronize(mpi_ops.reducescatter_async(tensor, name, op, process_set,
                                                       prescale_factor, postscale_factor))

    @staticmethod
    def backward(ctx, grad_output):
        grad, = _scattered([grad_output], *ctx.settings)
        gathered = synchronize(mpi_ops.allgather_async(grad, None, ctx.settings[1]))
        return gathered, None, None, None, None, None


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None, compression=Compression.none,
                  op: int = Average, process_set: ProcessSet = global_process_set,
                  prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> torch.Tensor:
    """Reduce, then keep this rank's part of the first dimension; the first ranks get one row more
    where it does not divide evenly."""
    _tensor.check(tensor)
    small, ctx = compression.compress(tensor)
    if _wanted((small,)):
        part = HorovodReducescatter.apply(small, name, op, process_set, prescale_factor,
                                          postscale_factor)
    else:
        part = synchronize(mpi_ops.reducescatter_async(small, name, op, process_set,
                                                       prescale_factor, postscale_factor))
    return compression.decompress(part, ctx)


class HorovodGroupedReducescatter(torch.autograd.Function):
    """grouped_reducescatter; gradients as those of reducescatter."""

    @staticmethod
    def forward(ctx, name, op, process_set, prescale_factor, postscale_factor, *tensors):
        ctx.settings = (op, process_set, prescale_factor, postscale_factor)
        return tuple(synchronize(mpi_ops.grouped_reducescatter_async(
            list(tensors), name, op, process_set, prescale_factor, postscale_factor)))

    @staticmethod
    def backward(ctx, *grad_output):
        grads = _scattered(grad_output, *ctx.settings)
        gathered = synchronize(mpi_ops.grouped_allgather_async(grads, None, ctx.settings[1]))
        return (None, None, None, None, None, *gathered)


def grouped_reducescatter(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                          compression=Compression.none, op: int = Average,
                          process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[torch.Tensor]:
    """Reducescatters that are carried out together or not at all."""
    _tensor.check(*tensors)
    pairs = [compression.compress(tensor) for tensor in tensors]
    small = [tensor for tensor, _ in pairs]
    if _wanted(small):
        parts = HorovodGroupedReducescatter.apply(name, op, process_set, prescale_factor,
                                                  postscale_factor, *small)
    else:
        parts = synchronize(mpi_ops.grouped_reducescatter_async(
            small, name, op, process_set, prescale_factor, postscale_factor))
    return [compression.decompress(part, ctx) for part, (_, ctx) in zip(parts, pairs)]
