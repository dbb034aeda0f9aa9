# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: the user's optimizer, with its gradients reduced over all ranks.

A hook on each parameter sees when backward() has computed its gradient; step() waits until all are
reduced. Small gradients travel together, in buckets, and large ones alone. When a bucket is sent:

- where a core is idle during backward(), ranks are on other hosts, or parameters are on a GPU: as
  soon as its last gradient is there, so that the transfer runs beside the rest of backward(). On a
  GPU the stream of that gradient waits for those of the others;
- where the ranks fill the cores: by step(), as nothing would be won by two threads that take turns
  at one core. When something else is waited for in between, then buckets that are complete are
  sent, since other ranks may need them to get there. REIGEN_OVERLAP=1 or 0 overrides the choice
  for CPUs.

    waiting --hook, passes left--> waiting --hook, last pass--> ready --sent--> --synchronize()-->
"""
import contextlib
import os
import threading
import warnings
import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch

from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet, check, global_process_set
from horovod.common.util import split_list
from horovod.torch.adasum import COPIED, DistributedAdasumOptimizer
from horovod.torch.compression import Compression, FP16Compressor, NoneCompressor
from horovod.torch.mpi_ops import (Adasum, Average, Sum, allreduce_async_,
                                   grouped_allreduce_async_, sparse_allreduce_async,
                                   synchronize)
from reigen import _handles
from reigen.torch import _cores, _device
from reigen.torch._bucket import Bucket

_RACE = ('optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or '
         'optimizer.synchronize(). This is prohibited as it can cause a race condition.')
_TOO_OFTEN = ('Gradients were computed more than backward_passes_per_step times before call to '
              'step(). Increase backward_passes_per_step to accumulate gradients locally.')
_TWICE = ('optimizer.step() called without optimizer.skip_synchronize() context after '
          'optimizer.synchronize(). This can cause training slowdown. You may want to consider '
          'using optimizer.skip_synchronize() context if you use optimizer.synchronize() in your '
          'code.')

#: A gradient of so many bytes travels alone.
ALONE_NBYTES = 512 << 10
#: A bucket of smaller ones is full at so many bytes ...
BUCKET_NBYTES = 4 << 20
#: ... or at so many gradients.
BUCKET_COUNT = 512


class _Slot:
    """A parameter, and where the reduction of its gradient stands."""

    __slots__ = ('param', 'name', 'left', 'pending', 'sent', 'group', 'hook', 'keep', 'sparse',
                 'sparse_dim', 'dense')

    def __init__(self, param: torch.Tensor, name: Optional[str], passes: int):
        self.param = param
        self.name = name
        self.left = passes       # backward passes until the gradient is ready
        self.pending = None      # its own handle; a function for a sparse gradient
        self.sent: Any = None    # (tensor that was sent, what decompresses it)
        self.group: Optional[_Group] = None
        self.hook: Any = None
        self.keep: Any = None
        self.sparse = False      # its gradient has been sparse ...
        self.sparse_dim = 1      # ... in so many dimensions
        self.dense = False       # made dense for its journey: step() gets a sparse one


class _Group:
    """Parameters whose gradients are reduced together."""

    def __init__(self, slots: List[_Slot], name: Optional[str]):
        self.slots = slots
        self.name = name         # None: a bucket, whose members keep their own names
        self.bucket: Optional[Bucket] = None
        self.pending: Optional[int] = None
        self.left = len(slots)   # members that are not ready
        self.streams = _device.Streams()  # of a GPU, on which gradients were computed
        for slot in slots:
            slot.group = self


class _DistributedOptimizer(torch.optim.Optimizer):
    """What is put before the user's optimizer class; made by DistributedOptimizer()."""

    # What a copy by copy.deepcopy() has, which takes over the state alone.
    _hooked: Optional[bool] = None
    _synchronized = False
    _should_synchronize = True
    _slots: List[_Slot] = []
    _groups: List[_Group] = []
    backward_passes_per_step = 1
    op = Average
    gradient_predivide_factor = 1.0
    sparse_as_dense = False

    def _hvd_setup(self, named_parameters, compression, passes, op, predivide, groups,
                   sparse_as_dense, process_set):
        self._names = _names_of(self.param_groups, named_parameters)
        self._compression = compression
        # What else a compressor makes of tensors cannot be known: each travels alone.
        self._same_shapes = compression in (NoneCompressor, FP16Compressor)
        self.op = op
        self.gradient_predivide_factor = predivide
        self._hvd_scales = (1.0 / predivide, predivide) if predivide != 1.0 else (1.0, 1.0)
        self.sparse_as_dense = sparse_as_dense
        self.backward_passes_per_step = passes
        self.process_set = process_set
        params = [p for group in self.param_groups for p in group['params'] if p.requires_grad]
        self._slots = [_Slot(p, self._names.get(id(p)), passes) for p in params]
        by_param: Dict[int, _Slot] = {id(slot.param): slot for slot in self._slots}
        self._groups = _make_groups(groups, self._slots, by_param)
        self._groups += _make_buckets([s for s in reversed(self._slots) if s.group is None])
        self._sending = threading.RLock()
        self._early = _cores.overlaps() or any(p.is_cuda for p in params)
        # One rank has nobody to reduce with, unless others come later.
        elastic = os.environ.get('HOROVOD_ELASTIC') == '1'
        self._hooked = bool(process_set.included() and (process_set.size() > 1 or elastic))
        self._watch(self._slots)
        if self._hooked and not self._early:
            _late.add(self)
        # The model lives longer than its optimizer where it gets another one.
        weakref.finalize(self, _unregister, self._slots, self._groups).atexit = False

    def _watch(self, slots: List[_Slot]) -> None:
        for slot in slots if self._hooked else ():
            _register(slot, self._make_hook(slot))

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """As torch's; the new parameters' gradients are reduced as the others' are."""
        super().add_param_group(param_group)
        if self._hooked is None:
            return
        place = len(self.param_groups) - 1
        slots = [_Slot(p, self._names.get(id(p), f'allreduce.noname.{place}.{i}'),
                       self.backward_passes_per_step)
                 for i, p in enumerate(self.param_groups[-1]['params']) if p.requires_grad]
        self._slots += slots
        self._groups += _make_buckets(slots[::-1])
        self._watch(slots)

    @property
    def _parameter_names(self) -> Dict[torch.Tensor, str]:
        """As Horovod's: what tests and tools compare between ranks."""
        return {p: self._names[id(p)] for group in self.param_groups for p in group['params']
                if id(p) in self._names}

    @property
    def _takes_sparse(self) -> bool:
        """The user's optimizer takes no dense gradients."""
        return isinstance(self, torch.optim.SparseAdam)

    @property
    def _active(self) -> bool:
        if self._hooked is None:
            raise RuntimeError(COPIED)
        return self._hooked and self.process_set.size() > 1

    # ------------------------------------------------------------------ hooks

    def _make_hook(self, slot: _Slot):
        # The hooks must not keep the optimizer alive.
        group, optimizer = slot.group, weakref.ref(self)

        def late(*_):
            left = slot.left - 1
            if left < 0:
                raise AssertionError(_TOO_OFTEN)
            slot.left = left

        def early(*_):
            late()
            if slot.left == 0:
                group.left -= 1
                owner = optimizer()
                if group.left == 0 and owner is not None and owner._active:
                    owner._send(group)

        def early_on_gpu(*_):
            group.streams.note(slot.param.device.index)
            early()

        if not self._early:
            return late
        return early_on_gpu if slot.param.is_cuda else early

    def _send_ready(self) -> None:
        """Send what is complete; for a wait for something else."""
        for group in self._groups if self._active else ():
            if group.pending is None and not any(slot.left for slot in group.slots):
                self._send(group)

    def _send_all(self) -> None:
        """Other ranks may have gradients where this one has none (or none yet): send what there
        is."""
        for group in self._groups:
            if group.pending is None:
                self._send(group)

    def _send(self, group: _Group) -> None:
        with self._sending:
            if group.pending is not None:
                return
            group.pending = 0
            group.streams.gather()
            members = [slot for slot in group.slots if not self._send_sparse(slot)]
            if not members:
                return
            if self._compression is NoneCompressor:
                grads = [slot.param.grad for slot in members]
            else:
                for slot in members:
                    slot.sent = self._compression.compress(slot.param.grad)
                grads = [slot.sent[0] for slot in members]
            group.pending = self._reduce(group, members, grads)

    def _send_sparse(self, slot: _Slot) -> bool:
        """True when the gradient is sparse, and has been sent. Makes one where there is none."""
        param = slot.param
        grad = param.grad
        if grad is not None and not grad.is_sparse:
            return False
        if grad is None and (self.sparse_as_dense or not slot.sparse):
            param.grad = torch.zeros_like(param)
            slot.dense = self.sparse_as_dense and (slot.sparse or self._takes_sparse)
            return False
        if grad is None:
            grad = torch.sparse_coo_tensor(size=param.shape, dtype=param.dtype,
                                           device=param.device)
        slot.sparse = True
        if self.sparse_as_dense:
            slot.sparse_dim = grad.sparse_dim()
            slot.dense = True
            param.grad = grad.to_dense()
            return False
        slot.pending = sparse_allreduce_async(grad, slot.name, self.op,
                                              process_set=self.process_set)
        return True

    def _reduce(self, group: _Group, members: List[_Slot], grads: List[torch.Tensor]) -> int:
        prescale, postscale = self._hvd_scales
        if group.name is not None:
            return grouped_allreduce_async_(grads, None, group.name, self.op, prescale,
                                            postscale, self.process_set)
        if len(members) == 1:
            return allreduce_async_(grads[0], None, members[0].name, self.op, prescale,
                                    postscale, self.process_set)
        if len({grad.dtype for grad in grads}) > 1 or not self._same_shapes:
            for slot, grad in zip(members, grads):
                slot.pending = allreduce_async_(grad, None, slot.name, self.op, prescale,
                                                postscale, self.process_set)
            return 0
        bucket = group.bucket
        if bucket is None or not bucket.fits(grads):
            names = [slot.name for slot in members]
            bucket = group.bucket = Bucket(names, [grad.shape for grad in grads], grads[0].dtype,
                                           self.op, prescale, postscale,
                                           self.process_set.process_set_id)
        return bucket.start(grads)

    # ------------------------------------------------------------------ public

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Reduce after this many backward passes from now on."""
        self.backward_passes_per_step = passes
        for slot in self._slots:
            slot.left = passes
        for group in self._groups:
            group.left = len(group.slots)

    def synchronize(self) -> None:
        """Wait until all gradients are reduced; for changing them before step(), which then
        belongs into skip_synchronize()."""
        try:
            if self._active:
                self._send_all()
                failure = self._receive_all()
                if failure is not None:
                    raise failure
        finally:
            self._reset()
        self._synchronized = True

    def _abandon(self) -> None:
        """Forget the gradients: wait for those that are on their way, whatever comes of it."""
        self._receive_all()
        self._reset()

    def _receive_all(self) -> Optional[HorovodInternalError]:
        """Wait for all that is on its way, so that nothing is when the next step begins; the first
        failure."""
        failure = None
        for group in self._groups:
            try:
                self._receive(group)
            except HorovodInternalError as error:
                failure = failure or error
        return failure

    def _receive(self, group: _Group) -> None:
        if group.pending:
            synchronize(group.pending)
        for slot in group.slots:
            if callable(slot.pending):
                slot.param.grad = slot.pending()
                continue
            if slot.pending is not None:
                synchronize(slot.pending)
            if slot.sent is not None and slot.sent[0] is not slot.param.grad:
                result = self._compression.decompress(*slot.sent)
                with torch.no_grad():
                    slot.param.grad.copy_(result)
            if slot.dense:
                slot.param.grad = slot.param.grad.to_sparse(slot.sparse_dim)

    def _reset(self) -> None:
        passes = self.backward_passes_per_step
        for slot in self._slots:
            slot.left = passes
            slot.pending = slot.sent = None
            slot.dense = False
        for group in self._groups:
            group.pending = None
            group.left = len(group.slots)

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
        if self._hooked and self._active and self._in_flight():
            raise AssertionError(_RACE)
        return super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        self._abandon()
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


def _unregister(slots: List[_Slot], groups: List[_Group]) -> None:
    # Nobody will wait for what is on its way; the next optimizer uses the same names.
    for handle in [group.pending for group in groups] + [slot.pending for slot in slots]:
        if handle and not callable(handle):
            _handles.forget(handle)
    for slot in slots:
        if slot.hook is not None:
            slot.hook.remove()
            slot.hook = slot.keep = None


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
    """The groups that the user has asked for."""
    if not groups:
        return []
    if isinstance(groups, int):
        members = split_list(slots, groups)
    else:
        members = [[by_param[id(p)] for p in group if id(p) in by_param] for group in groups]
    taken = [slot for group in members for slot in group]
    if len({id(slot) for slot in taken}) < len(taken):
        raise ValueError('A parameter can only appear once in groups.')
    return [_Group(group, f'group.{number}') for number, group in enumerate(members) if group]


def _make_buckets(slots: List[_Slot]) -> List[_Group]:
    """The rest, in the order in which backward() comes to them: by type and device, up to a size.
    """
    made: List[_Group] = []
    filling: Dict[Any, List[_Slot]] = {}
    nbytes: Dict[Any, int] = {}
    for slot in slots:
        param = slot.param
        mine = param.numel() * param.element_size()
        if mine >= ALONE_NBYTES:
            made.append(_Group([slot], None))
            continue
        kind = (param.dtype, param.device)
        members = filling.setdefault(kind, [])
        members.append(slot)
        nbytes[kind] = nbytes.get(kind, 0) + mine
        if nbytes[kind] >= BUCKET_NBYTES or len(members) >= BUCKET_COUNT:
            made.append(_Group(filling.pop(kind), None))
            del nbytes[kind]
    return made + [_Group(members, None) for members in filling.values()]


#: Optimizers that send in step(), and what a wait for something else calls.
_late: 'weakref.WeakSet[_DistributedOptimizer]' = weakref.WeakSet()


def _send_late() -> None:
    for optimizer in list(_late):
        optimizer._send_ready()


_handles.while_waiting.append(_send_late)


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
    sparse_as_dense: make sparse gradients dense before they are reduced, and sparse again then.

    It has further synchronize(), skip_synchronize() and set_backward_passes_per_step(n).
    Raises ValueError for arguments that do not fit together.
    """
    check(process_set)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError('gradient_predivide_factor not supported with op != Average')
    if op not in (Average, Sum, Adasum):
        raise ValueError(f'{op} is not a reduction for gradients; use Average, Sum or Adasum.')
    if backward_passes_per_step <= 0:
        raise ValueError('backward_passes_per_step must be > 0')
    groups = _check_groups(num_groups, groups)
    if op == Adasum:
        made = _derive(optimizer, DistributedAdasumOptimizer)
        made._hvd_setup(_names_of(made.param_groups, named_parameters), compression,
                        backward_passes_per_step, process_set)
        return made
    made = _derive(optimizer, _DistributedOptimizer)
    made._hvd_setup(named_parameters, compression, backward_passes_per_step, op,
                    gradient_predivide_factor, groups, sparse_as_dense, process_set)
    return made


def _derive(optimizer: torch.optim.Optimizer, base: type):
    """The optimizer as an instance of a new class: `base` before its own one."""
    original = optimizer.__class__
    # The module is what programs know a distributed optimizer by.
    cls = type(original.__name__, (base, original),
               {'__doc__': original.__doc__, '__module__': __name__})
    made = cls.__new__(cls)
    torch.optim.Optimizer.__init__(made, optimizer.param_groups, optimizer.defaults)
    # Its state, its step hooks and what its class has added; but not `step`, where a scheduler has
    # put the old optimizer's own one.
    vars(made).update((key, value) for key, value in vars(optimizer).items()
                      if key not in ('step', 'zero_grad', 'param_groups'))
    return made
