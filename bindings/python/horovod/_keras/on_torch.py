# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on PyTorch, through horovod.torch."""
from typing import Any, Dict, Iterable, List, Optional, Sequence

import numpy as np
import torch

import horovod.torch as hvd
from horovod._keras.optimizer import batch_counter
from horovod.common.agreement import Fact, Talk
from horovod.common.process_sets import ProcessSet
from horovod.common.util import split_list
from horovod.torch.parameters import job
from reigen.torch import _untraced

Average = hvd.Average
size, rank = hvd.size, hvd.rank
broadcast_object = hvd.broadcast_object
Compression = hvd.Compression


class _Local:
    """The variables of one rank only."""

    def __init__(self):
        self._keys = set()

    def add(self, variable: Any) -> None:
        self._keys.add(id(variable))

    def __contains__(self, variable: Any) -> bool:
        return id(variable) in self._keys


class Combiner:
    """Takes gradients of one rank, gives those of all; see horovod.tensorflow.DistributedOptimizer
    for the arguments."""

    def __init__(self, name: str, device_dense: str, device_sparse: str, compression,
                 sparse_as_dense: bool, op: int, gradient_predivide_factor: float, groups,
                 process_set: ProcessSet, backward_passes_per_step: int,
                 average_aggregated_gradients: bool, scale_local_gradients: bool):
        if gradient_predivide_factor != 1.0 and op != Average:
            raise ValueError('gradient_predivide_factor not supported with op != Average')
        if backward_passes_per_step <= 0:
            raise ValueError('backward_passes_per_step must be > 0')
        self.passes = backward_passes_per_step
        self.local = _Local()
        self._name = name
        self._compression = compression
        self._options = dict(op=op, prescale_factor=1.0 / gradient_predivide_factor,
                             postscale_factor=gradient_predivide_factor, process_set=process_set)
        self._groups = groups
        self._process_set = process_set
        self._average = average_aggregated_gradients
        self._scale_local = scale_local_gradients
        self._sums: List[Optional[torch.Tensor]] = []
        self._count = 0
        self._ahead = False
        #: By job and variables: these, and the places of those of which a rank has had a gradient.
        self._had: Dict[Any, Any] = {}
        self.helper = self

    def compute_gradients(self, grads: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """The gradients, reduced unless reduce_ahead() has done so for this step."""
        if self._ahead:
            self._ahead = False
            return list(grads)
        return self._combine(grads, variables)

    def reduce_ahead(self, grads: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """The gradients reduced; the next step takes those that it gets as they are."""
        found = self._combine(grads, variables)
        self._ahead = True
        return found

    @staticmethod
    def local_gradients(loss: Any, variables: Sequence[Any], tape: Any, scale: Any) -> List[Any]:
        """This rank's gradients. loss: a tensor, or a function; what that gives is passed through
        scale(). PyTorch needs no tape."""
        loss = scale(loss()) if callable(loss) else loss
        return list(torch.autograd.grad(loss, [getattr(v, 'value', v) for v in variables],
                                        allow_unused=True))

    def _combine(self, grads: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """The gradients of all ranks; with several passes per step, in the last one."""
        if self.passes == 1:
            return self._reduce(list(grads), variables)
        if self._count == 0:
            self._sums = [None if g is None else g.detach().clone() for g in grads]
        else:
            for i, grad in enumerate(grads):
                if grad is not None:
                    held = self._sums[i]
                    self._sums[i] = grad.detach().clone() if held is None else held.add_(grad)
        self._count += 1
        if self._count < self.passes:
            return list(self._sums)
        self._count = 0
        if self._average:
            self._sums = [s if s is None else s / self.passes for s in self._sums]
        return self._reduce(self._sums, variables)

    def apply_gradients(self, apply, optimizer: Any):
        if self._count == 0:
            return apply()
        counter = batch_counter(optimizer)
        if counter is not None:
            counter.assign_add(1)
        return None

    def _bundles(self, present: List[int], variables: Sequence[Any]) -> List[List[int]]:
        if isinstance(self._groups, int) and self._groups:
            return split_list(present, self._groups)
        if self._groups:
            bound = [[i for i in present if any(variables[i] is v for v in group)]
                     for group in self._groups]
            left = set(present).difference(*bound)
            return [b for b in bound if b] + [[i] for i in present if i in left]
        return [[i] for i in present]

    def _completed(self, grads: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """The gradients, with zeros for those that this rank lacks and another one has, or has had.
        The ranks agree on that as long as there are some that nobody has had, in the first step at
        least."""
        key = job(), tuple(map(id, variables))
        _, had = self._had.setdefault(key, (list(variables), set()))
        asked = {str(i): Fact(grads[i] is not None) for i, v in enumerate(variables)
                 if v not in self.local and i not in had}
        if asked:
            talk = Talk(f'{self._name}.agreement', self._process_set.process_set_id or 0, asked)
            talk.wait()
            had.update(map(int, talk.agreed))
        return [torch.zeros_like(getattr(v, 'value', v)) if grad is None and i in had else grad
                for i, (grad, v) in enumerate(zip(grads, variables))]

    @torch.no_grad()
    def _reduce(self, grads: List[Any], variables: Sequence[Any]) -> List[Any]:
        ranks = self._process_set.size()
        if ranks == 1 or not self._process_set.included():
            return grads
        grads = self._completed(grads, variables)
        results = list(grads)
        shared = []
        for i, grad in enumerate(grads):
            if grad is None:
                continue
            if variables[i] in self.local:
                results[i] = grad / ranks if self._scale_local else grad
            else:
                shared.append(i)
        waiting = []
        for positions in self._bundles(shared, variables):
            packed = [self._compression.compress(grads[i].detach()) for i in positions]
            # The number of the variable: paths count the layers made before, on each rank its own.
            name = f'{self._name}.grad.{positions[0]}'
            if len(positions) == 1:
                handle = hvd.allreduce_async(packed[0][0], name=name, **self._options)
            else:
                handle = hvd.grouped_allreduce_async([t for t, _ in packed], name=name,
                                                     **self._options)
            waiting.append((positions, [ctx for _, ctx in packed], handle))
        for positions, contexts, handle in waiting:
            reduced = hvd.synchronize(handle)
            reduced = [reduced] if len(positions) == 1 else reduced
            for i, tensor, ctx in zip(positions, reduced, contexts):
                results[i] = self._compression.decompress(tensor, ctx)
        return results


def broadcast_global_variables(backend: Any, root_rank: int):
    raise RuntimeError('There are no global variables with PyTorch; use '
                       'callbacks.BroadcastGlobalVariablesCallback.')


def _tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach()
    return torch.as_tensor(np.asarray(getattr(value, 'value', value)))


def allreduce(value, name=None, average=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
              compression=Compression.none):
    return hvd.allreduce(_tensor(value), average=average, name=name, op=op,
                         prescale_factor=prescale_factor, postscale_factor=postscale_factor,
                         compression=compression)


def allgather(value, name=None):
    return hvd.allgather(_tensor(value), name=name)


def broadcast(value, root_rank, name=None):
    return hvd.broadcast(_tensor(value), root_rank, name=name)


def reducescatter(value, name=None, op=Average):
    return hvd.reducescatter(_tensor(value), name=name, op=op)


@torch.no_grad()
def broadcast_now(backend: Any, variables: Iterable[Any], root_rank: int) -> None:
    """Give all ranks root_rank's values."""
    values = [v.value.detach() if hasattr(v, 'value') else v.detach() for v in variables]
    handles = [hvd.broadcast_async_(v, root_rank, name=f'keras.variables.{i}')
               for i, v in enumerate(values)]
    for handle in handles:
        hvd.synchronize(handle)


def average_metrics(values: Dict[str, float], name: str) -> Dict[str, float]:
    """The means over the ranks."""
    names = sorted(values)
    means = allreduce(np.array([values[n] for n in names], np.float64), name=name, op=Average)
    return dict(zip(names, map(float, means)))


#: The module with run() and KerasState of this framework.
ELASTIC = 'horovod._keras.elastic_torch'


_untraced.hide('horovod')
