# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: the user's optimizer, with its gradients reduced over all ranks.

A hook on each parameter submits its gradient as soon as backward() has computed it, so that the
reduction runs beside the rest of backward(). step() waits for all of them first.

    waiting --hook, passes left--> waiting --hook, last pass--> submitted --synchronize()--> waiting
"""
import contextlib
import warnings
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch

from horovod.common.process_sets import ProcessSet, check, global_process_set
from horovod.common.util import split_list
from horovod.torch.compression import Compression, NoneCompressor
from horovod.torch.mpi_ops import (Adasum, Average, Sum, allreduce_async_,
                                   grouped_allreduce_async_, size, sparse_allreduce_async,
                                   synchronize)

_RACE = ('optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or '
         'optimizer.synchronize(). This is prohibited as it can cause a race condition.')
_TOO_OFTEN = ('Gradients were computed more than backward_passes_per_step times before call to '
              'step(). Increase backward_passes_per_step to accumulate gradients locally.')
_TWICE = ('optimizer.step() called without optimizer.skip_synchronize() context after '
          'optimizer.synchronize(). This can cause training slowdown. You may want to consider '
          'using optimizer.skip_synchronize() context if you use optimizer.synchronize() in your '
          'code.')


class _Slot:
    """A parameter, and where the reduction of its gradient stands."""

    __slots__ = ('param', 'name', 'left', 'pending', 'sent', 'group', 'hook', 'keep')

    def __init__(self, param: torch.Tensor, name: Optional[str], passes: int):
        self.param = param
        self.name = name
        self.left = passes       # backward passes until the gradient is submitted
        self.pending = None      # a handle, a function for a sparse gradient; None: not submitted
        self.sent: Any = None    # (tensor that was submitted, what decompresses it)
        self.group: Optional[_Group] = None
        self.hook: Any = None
        self.keep: Any = None


class _Group:
    """Parameters whose gradients are reduced together."""

    def __init__(self, slots: List[_Slot], number: int):
        self.slots = slots
        self.name = f'group.{number}'
        self.ready: List[_Slot] = []
        self.pending: Optional[int] = None


class _DistributedOptimizer(torch.optim.Optimizer):
    """What is put before the user's optimizer class; made by DistributedOptimizer()."""

    def _hvd_setup(self, named_parameters, compression, passes, op, predivide, groups,
                   sparse_as_dense, process_set):
        names = _names_of(self.param_groups, named_parameters)
        self._compression = compression
        self._hvd_op = op
        self._hvd_scales = (1.0 / predivide, predivide) if predivide != 1.0 else (1.0, 1.0)
        self._sparse_as_dense = sparse_as_dense
        self.backward_passes_per_step = passes
        self.process_set = process_set
        self._synchronized = False
        self._should_synchronize = True
        params = [p for group in self.param_groups for p in group['params'] if p.requires_grad]
        self._slots = [_Slot(p, names.get(id(p)), passes) for p in params]
        self._by_param: Dict[int, _Slot] = {id(slot.param): slot for slot in self._slots}
        self._groups = _make_groups(groups, self._slots, self._by_param)
        # One rank has nobody to reduce with.
        self._active = size() > 1
        if self._active:
            for slot in self._slots:
                _register(slot, self._make_hook(slot))

    # ------------------------------------------------------------------ hooks

    def _make_hook(self, slot: _Slot):
        def hook(*_):
            if slot.left <= 0:
                raise AssertionError(_TOO_OFTEN)
            slot.left -= 1
            if slot.left == 0:
                self._submit(slot)
        return hook

    def _submit(self, slot: _Slot) -> None:
        if slot.group is not None and not slot.param.grad.is_sparse:
            slot.group.ready.append(slot)
            if len(slot.group.ready) == len(slot.group.slots):
                self._submit_group(slot.group)
            return
        grad = slot.param.grad
        if grad.is_sparse:
            if not self._sparse_as_dense:
                slot.pending = sparse_allreduce_async(grad, slot.name, self._hvd_op)
                return
            grad = slot.param.grad = grad.to_dense()
        prescale, postscale = self._hvd_scales
        if self._compression is NoneCompressor:
            tensor, ctx = grad, None
        else:
            tensor, ctx = self._compression.compress(grad)
        slot.sent = (tensor, ctx)
        slot.pending = allreduce_async_(tensor, None, slot.name, self._hvd_op, prescale, postscale)

    def _submit_group(self, group: _Group) -> None:
        members = [slot for slot in group.slots if slot in group.ready] \
            if len(group.ready) < len(group.slots) else group.slots
        pairs = [self._compression.compress(slot.param.grad) for slot in members]
        for slot, pair in zip(members, pairs):
            slot.sent = pair
        prescale, postscale = self._hvd_scales
        group.pending = grouped_allreduce_async_([tensor for tensor, _ in pairs], None, group.name,
                                                 self._hvd_op, prescale, postscale)
        group.ready = []

    def _submit_missing(self) -> None:
        """Other ranks may have gradients where this one has none (or none yet): send what there
        is, in the order of parameters."""
        for slot in self._slots:
            submitted = slot.pending is not None or (slot.group is not None and (
                slot.group.pending is not None or slot in slot.group.ready))
            if not submitted:
                if slot.param.grad is None:
                    slot.param.grad = torch.zeros_like(slot.param)
                self._submit(slot)
        for group in self._groups:
            # Members whose gradient is sparse travel alone, so the rest is all that will come.
            if group.ready:
                self._submit_group(group)

    # ------------------------------------------------------------------ public

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Reduce after this many backward passes from now on."""
        self.backward_passes_per_step = passes
        for slot in self._slots:
            slot.left = passes

    def synchronize(self) -> None:
        """Wait until all gradients are reduced; for changing them before step(), which then
        belongs into skip_synchronize()."""
        if not self._active:
            self._synchronized = True
            self._reset()
            return
        self._submit_missing()
        try:
            for group in self._groups:
                if group.pending is not None:
                    synchronize(group.pending)
            for slot in self._slots:
                if callable(slot.pending):
                    slot.param.grad = slot.pending()
                elif slot.pending is not None:
                    synchronize(slot.pending)
                if slot.sent is not None:
                    self._receive(slot)
        finally:
            self._reset()
        self._synchronized = True

    def _receive(self, slot: _Slot) -> None:
        tensor, ctx = slot.sent
        if tensor is not slot.param.grad:
            result = self._compression.decompress(tensor, ctx)
            with torch.no_grad():
                slot.param.grad.copy_(result)

    def _reset(self) -> None:
        for slot in self._slots:
            slot.pending = slot.sent = None
            slot.left = self.backward_passes_per_step
        for group in self._groups:
            group.pending = None
            group.ready = []

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """step() inside does not synchronize, because synchronize() has been called."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure=None):
        """Wait for the reduced gradients, then let the user's optimizer step.

        With a closure, which computes the gradients, they are reduced after each of its calls.
        """
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn(_TWICE)
            if closure is None:
                self.synchronize()
            else:
                closure = self._synchronized_closure(closure)
        try:
            return super().step() if closure is None else super().step(closure)
        finally:
            self._synchronized = False

    # torch wraps the step of each new class, for its profiler and step hooks: the user's one has
    # been wrapped already, and the hooks are to run once.
    step.hooked = True

    def _synchronized_closure(self, closure):
        def run():
            self._drain()
            loss = closure()
            self.synchronize()
            return loss
        return run

    def _drain(self) -> None:
        """Gradients from before the closure: it starts with zero_grad(), which refuses those."""
        if self._in_flight():
            self.synchronize()

    def _in_flight(self) -> bool:
        passes = self.backward_passes_per_step
        return any(slot.left != passes for slot in self._slots)

    def zero_grad(self, *args, **kwargs):
        if self._active and self._in_flight():
            raise AssertionError(_RACE)
        return super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        if self._in_flight():
            self.synchronize()
        self._reset()
        self._synchronized = False
        self._should_synchronize = True
        return super().load_state_dict(*args, **kwargs)


def _register(slot: _Slot, hook) -> None:
    """Call hook whenever the parameter's gradient has been accumulated."""
    param = slot.param
    if hasattr(param, 'register_post_accumulate_grad_hook'):  # torch 2.1 and later
        slot.hook = param.register_post_accumulate_grad_hook(hook)
        return
    # The node that accumulates lives only as long as something holds it.
    with torch.enable_grad():
        slot.keep = param.expand_as(param).grad_fn.next_functions[0][0]
    slot.hook = slot.keep.register_hook(hook)


def _names_of(param_groups, named_parameters) -> Dict[int, str]:
    """Parameter id to name, after the checks that Horovod makes."""
    if named_parameters is None:
        return {id(p): f'allreduce.noname.{i}.{j}' for i, group in enumerate(param_groups)
                for j, p in enumerate(group['params'])}
    named = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in named):
        raise ValueError('named_parameters should be a sequence of tuples (name, parameter), '
                         'usually produced by model.named_parameters().')
    names = [name for name, _ in named]
    duplicates = sorted({name for name in names if names.count(name) > 1}) \
        if len(set(names)) < len(names) else []
    if duplicates:
        raise ValueError('Parameter names in named_parameters must be unique. Found duplicates: '
                         + ', '.join(duplicates))
    result = {id(p): name for name, p in named}
    unnamed = [p for group in param_groups for p in group['params'] if id(p) not in result]
    if unnamed:
        raise ValueError('named_parameters was specified, but one or more model parameters were '
                         'not named. Python object ids: '
                         + ', '.join(str(id(p)) for p in unnamed))
    return result


def _make_groups(groups, slots: List[_Slot], by_param: Dict[int, _Slot]) -> List[_Group]:
    if not groups:
        return []
    if isinstance(groups, int):
        members = split_list(slots, groups)
    else:
        members = [[by_param[id(p)] for p in group if id(p) in by_param] for group in groups]
    made = [_Group(group, number) for number, group in enumerate(members) if group]
    for group in made:
        for slot in group.slots:
            if slot.group is not None:
                raise ValueError('groups holds a parameter twice.')
            slot.group = group
    return made


def _check_groups(num_groups: int, groups) -> Union[int, Sequence, None]:
    if num_groups != 0:
        warnings.warn('Parameter `num_groups` has been replaced by `groups` and will be removed',
                      DeprecationWarning, stacklevel=3)
        if groups is None:
            groups = num_groups
    if groups is not None:
        if not (isinstance(groups, list) or (isinstance(groups, int) and groups >= 0)):
            raise ValueError('groups should be a non-negative integer or a list of list of '
                             'torch.Tensor.')
        if isinstance(groups, list) and any(
                not isinstance(p, torch.Tensor) for group in groups for p in group):
            raise ValueError('groups must consist of torch.Tensor.')
    return groups


def DistributedOptimizer(optimizer: torch.optim.Optimizer,
                         named_parameters: Optional[Sequence[Tuple[str, torch.Tensor]]] = None,
                         compression=Compression.none, backward_passes_per_step: int = 1,
                         op: int = Average, gradient_predivide_factor: float = 1.0,
                         num_groups: int = 0, groups=None, sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set) -> torch.optim.Optimizer:
    """The optimizer again, as an instance of a subclass of its class that reduces the gradients.

    named_parameters: model.named_parameters(), for names that are equal on all ranks whatever the
        order of the parameters; without it their places are their names.
    compression: Compression.fp16 sends float16.
    backward_passes_per_step: gradients are summed over so many passes before they are reduced.
    op: Average or Sum. gradient_predivide_factor: divide by it before the sum, and by size / it
        afterwards; with Average only.
    groups: a number of groups, or lists of parameters, whose gradients are reduced together.
    sparse_as_dense: make sparse gradients dense before they are reduced.

    It has further synchronize(), skip_synchronize() and set_backward_passes_per_step(n).
    Raises ValueError for arguments that do not fit together.
    """
    check(process_set)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError('gradient_predivide_factor not supported with op != Average')
    if op == Adasum:
        raise ValueError('Adasum is not offered by this version of Reigen; use Average or Sum.')
    if op not in (Average, Sum):
        raise ValueError(f'{op} is not a reduction for gradients; use Average or Sum.')
    if backward_passes_per_step <= 0:
        raise ValueError('backward_passes_per_step must be > 0')
    groups = _check_groups(num_groups, groups)
    original = optimizer.__class__
    cls = type(original.__name__, (_DistributedOptimizer, original),
               {'__doc__': original.__doc__, '__module__': original.__module__})
    made = cls.__new__(cls)
    torch.optim.Optimizer.__init__(made, optimizer.param_groups, optimizer.defaults)
    # Its state, its step hooks and what its class has added; but not `step`, where a scheduler has
    # put the old optimizer's own one.
    vars(made).update((key, value) for key, value in vars(optimizer).items()
                      if key not in ('step', 'zero_grad', 'param_groups'))
    made._hvd_setup(named_parameters, compression, backward_passes_per_step, op,
                    gradient_predivide_factor, groups, sparse_as_dense, process_set)
    return made
