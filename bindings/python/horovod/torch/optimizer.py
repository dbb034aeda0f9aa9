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

Which parameters take part, and whose gradients are sparse, the ranks agree on (horovod/common/
agreement.py) in the first step. The buckets are made then, equal on all ranks. In each later step a
rank sends all of them, with zeros where it has no gradient, and in one of them a number beside the
gradients: the notice, which is 0 as long as this rank knows nothing new. It is new that a parameter
is trained or no longer trained, has come or gone, or has its first gradient. Where the sum is not 0
the ranks agree again before the step ends, and send what has been left out. So the bucket with the
notice waits for synchronize(): only then this rank knows. It is the bucket of the first parameters,
which backward() completes last.
"""
import contextlib
import errno
import itertools
import os
import threading
import warnings
import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch

from horovod.common.agreement import Talk
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet, check, global_process_set
from horovod.common.util import split_list
from horovod.torch.adasum import COPIED, DistributedAdasumOptimizer
from horovod.torch.compression import Compression, FP16Compressor, NoneCompressor
from horovod.torch.mpi_ops import (UNCHECKED, Adasum, Average, Sum, allreduce_async_,
                                   sparse_allreduce_async, synchronize)
from horovod.torch.parameters import Roster, Slot, Stepped, job, names_of, register, unregister
from reigen import _core, _handles
from reigen.errors import InvalidOperationError
from reigen.torch import _cores, _device
from reigen.torch._bucket import Bucket
from reigen.torch._operations import ALLREDUCE, OWN, grouped_async

_RACE = ('optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or '
         'optimizer.synchronize(). This is prohibited as it can cause a race condition.')
_TOO_OFTEN = ('Gradients were computed more than backward_passes_per_step times before call to '
              'step(). Increase backward_passes_per_step to accumulate gradients locally.')
#: What else brings gradients between two steps, and what helps. Horovod's sentences above, which
#: scripts and tests know, do not speak of it.
_CURES = {
    'losses': 'several losses of one step: call backward() once, for their sum',
    'network': 'the loss of another network that goes through this one (a GAN\'s generator): '
               'call requires_grad_(False) on these parameters before its forward, and '
               'requires_grad_(True) after its backward',
    'checkpoint': 'torch.utils.checkpoint of a module that is used more than once: give it '
                  'use_reentrant=False'}
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


def _with_cures(text: str, name: str, *causes: str) -> str:
    """Horovod's words, then whose gradient it was, and the causes that they do not speak of."""
    cures = ''.join(f'\n- {_CURES[cause]}' for cause in causes)
    return f'{text}\nIt was the gradient of {name}. It may also come of:{cures}'


class _Group:
    """Parameters whose gradients are reduced together."""

    def __init__(self, slots: List[Slot], name: Optional[str], sparse: bool = False):
        self.slots = slots
        self.name = name         # None: a bucket, whose members keep their own names
        self.sparse = sparse     # one slot, whose gradient travels as indices and values
        self.bucket: Optional[Bucket] = None
        self.pending: Optional[int] = None
        self.plain = False       # the gradients themselves were sent, just as they are
        self.notice: Optional[torch.Tensor] = None  # has been sent with them
        self.streams = _device.Streams()  # of a GPU, on which gradients were computed
        for slot in slots:
            slot.group = self
        self.left = sum(1 for slot in slots if slot.left)  # members that are not ready

    def takes_notice(self) -> bool:
        """A further number may travel with its gradients."""
        return (not self.sparse and all(slot.param.is_cpu for slot in self.slots)
                and (self.name is not None or _nbytes(self.slots[0].param) < ALONE_NBYTES))


class _DistributedOptimizer(torch.optim.Optimizer):
    """What is put before the user's optimizer class; made by DistributedOptimizer()."""

    # What a copy by copy.deepcopy() has, which takes over the state alone.
    _hooked: Optional[bool] = None
    _stepped: Optional[Stepped] = None
    _notice: Optional[int] = None  # on its way alone
    _talks: List[Talk] = []
    _regroup = False
    _synchronized = False
    _should_synchronize = True
    _slots: List[Slot] = []
    _groups: List[_Group] = []
    backward_passes_per_step = 1
    op = Average
    gradient_predivide_factor = 1.0
    sparse_as_dense = False

    def _hvd_setup(self, wrapped, named_parameters, compression, passes, op, predivide, groups,
                   sparse_as_dense, process_set):
        self._stepped = Stepped(wrapped)
        self._stepped.share(self)
        self._roster = Roster(*names_of(self.param_groups, named_parameters))
        self._slots = self._roster.slots
        self._compression = compression
        # What else a compressor makes of tensors cannot be known: each travels alone.
        self._same_shapes = compression in (NoneCompressor, FP16Compressor)
        self.op = op
        self.gradient_predivide_factor = predivide
        self._hvd_scales = (1.0 / predivide, predivide) if predivide != 1.0 else (1.0, 1.0)
        self.sparse_as_dense = sparse_as_dense
        self.backward_passes_per_step = passes
        self.process_set = process_set
        self._user_groups = _checked(groups)
        self._groups = []
        self._sending = threading.RLock()
        params = [p for group in self.param_groups for p in group['params']]
        self._early = _cores.overlaps() or any(p.is_cuda for p in params)
        # One rank has nobody to reduce with, unless others come later, or its step is recorded.
        self._alone = os.environ.get('REIGEN_ALONE') == '1'
        self._hooked = bool(process_set.included() and
                            (process_set.size() > 1 or _core.may_grow() or self._alone))
        self._agreement_setup()
        self._look()
        self._base = min(slot.name for slot in self._slots) + '.agreement'
        self._notice_name = f'{OWN}{self._base}.notice'
        if self._hooked:
            _waiting[next(_numbers)] = self
        # The model lives longer than its optimizer where it gets another one.
        weakref.finalize(self, _unregister, self._slots, self._groups,
                         self._talks).atexit = False

    def _agreement_setup(self) -> None:
        #: The job in which the ranks have agreed; None: they have not.
        self._agreed_in: Optional[int] = None
        self._lone_notice = torch.zeros(1)
        #: The exchange that is in progress, if one is.
        self._talks: List[Talk] = []
        #: What this rank has told then: of whom it trains.
        self._told: List[Tuple[Slot, bool]] = []
        self._changed = False                 # something is different since then, perhaps
        self._doubtful = False                # something may be, whatever does not look so
        self._idle = False                    # this rank does not train all that is agreed on
        self._unknown: List[Slot] = []        # agreed on, and nobody has had a gradient yet
        self._apart: List[Slot] = []          # not agreed on
        self._streams = _device.Streams()     # of a GPU, on which their gradients were computed
        self._carrier: Optional[_Group] = None  # the group that the notice travels with
        self._regroup = False                 # the groups have to be made anew after this step

    def _look(self) -> None:
        """Take the parameters as they are now. Another thread may wait for something else, and
        look as well."""
        with self._sending:
            if self._roster.look(self.param_groups, self.backward_passes_per_step, self._come,
                                 self._go):
                self._changed = True

    def _come(self, slot: Slot) -> None:
        if self._hooked:
            register(slot, self._make_hook(slot))

    def _go(self, slot: Slot) -> None:
        unregister(slot)

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """As torch's; the new parameters' gradients are reduced as the others' are."""
        super().add_param_group(param_group)
        if self._hooked is not None:
            self._look()

    @property
    def _parameter_names(self) -> Dict[torch.Tensor, str]:
        """As Horovod's: what tests and tools compare between ranks."""
        if self._hooked is not None:
            self._look()
        return {slot.param: slot.name for slot in self._slots}

    @property
    def _takes_sparse(self) -> bool:
        """The user's optimizer takes no dense gradients."""
        return isinstance(self, torch.optim.SparseAdam)

    @property
    def _active(self) -> bool:
        if self._hooked is None:
            raise RuntimeError(COPIED)
        return self._hooked and (self._alone or self.process_set.size() > 1)

    # ------------------------------------------------------------------ hooks

    def _make_hook(self, slot: Slot):
        # The hooks must not keep the optimizer alive.
        optimizer, streams = weakref.ref(self), self._streams

        def late(*_):
            left = slot.left - 1
            if left < 0:
                raise AssertionError(_with_cures(_TOO_OFTEN, slot.name, *_CURES))
            slot.left = left

        def early(*_):
            late()
            group = slot.group
            if slot.left == 0 and group is not None:
                group.left -= 1
                owner = optimizer()
                if (group.left == 0 and owner is not None and group is not owner._carrier
                        and owner._active and owner._agreed_in == job()):
                    owner._send(group)

        def early_on_gpu(*_):
            (streams if slot.group is None else slot.group.streams).note(slot.param.device.index)
            early()

        if not self._early:
            return late
        return early_on_gpu if slot.param.is_cuda else early

    def _send_ready(self) -> None:
        """Send what is complete; for a wait for something else."""
        if not self._active or not self._sending.acquire(blocking=False):
            return
        try:
            if self._agreed_in == job() and all(g.pending is not None for g in self._groups):
                return
            # Where nothing has a gradient there is nothing that others could wait for.
            left = [s.left for s in self._slots if s.left == 0 or s.param.requires_grad]
            complete = bool(left) and not any(left)
            if self._agreed_in != job() and not (complete and self._advance()):
                return
            for group in self._groups:
                if (group.pending is None and not any(slot.left for slot in group.slots)
                        and (complete or group is not self._carrier)):
                    if group is self._carrier:
                        self._look()
                    self._send(group)
        except InvalidOperationError as error:
            # What is waited for has the same names, perhaps: it is an optimizer's, too.
            if error.errno != errno.EEXIST:
                raise
        finally:
            self._sending.release()

    # ------------------------------------------------------------------ agreement

    def _begin(self) -> Talk:
        """The exchange with the other ranks that is in progress, or a new one."""
        if not self._talks:
            passes = self.backward_passes_per_step
            self._look()
            self._told = [(slot, slot.wanted(passes)) for slot in self._slots]
            self._changed = False
            # One that is frozen by now has a gradient: in the next step that may be otherwise.
            self._doubtful = any(wanted and not slot.param.requires_grad
                                 for slot, wanted in self._told)
            self._talks.append(Talk(self._base, self.process_set.process_set_id or 0,
                                    {slot.name: slot.fact(passes) for slot in self._slots}))
        return self._talks[0]

    def _advance(self) -> bool:
        """Agree, as far as that is possible without waiting. True: the ranks have agreed."""
        with self._sending:
            talk = self._begin()
            if not talk.advance() or talk.failed:
                return False
            self._conclude(talk)
            self._make_groups()
            return True

    def _agree(self) -> bool:
        """Wait until the ranks have agreed. False: somebody else of this rank has concluded that,
        and made the groups. ValueError: the ranks have different parameters."""
        with self._sending:
            talk = self._begin()
        try:
            talk.wait()
        except BaseException:
            self._talks.clear()
            self._agreed_in = None
            raise
        with self._sending:
            if not self._talks:
                return False
            self._conclude(talk)
            return True

    def _conclude(self, talk: Talk) -> None:
        """Know what the ranks have agreed on."""
        self._talks.clear()
        told = dict(self._told)
        by_name = {slot.name: slot for slot in told}
        for slot in itertools.chain(self._slots, *[group.slots for group in self._groups]):
            slot.agreed = False
        self._order = [by_name[name] for name in talk.agreed]
        for slot, fact in zip(self._order, talk.agreed.values()):
            slot.agreed = True
            if fact.sparse_dim and (self._takes_sparse or not fact.dense):
                slot.sparse_dim = fact.sparse_dim
            else:
                slot.sparse_dim = 0 if fact.dense else None
        self._idle = not all(told[slot] for slot in self._order)
        self._unknown = [slot for slot in self._order if slot.sparse_dim is None]
        self._apart = [slot for slot in self._slots if not slot.agreed]
        self._agreed_in = job()
        self._streams.gather()

    def _make_groups(self) -> None:
        """Put all that is agreed on into groups anew."""
        for group in self._groups:
            for slot in group.slots:
                slot.group = None
        self._groups[:] = self._grouped(self._order, 'group')
        takers = [group for group in self._groups if group.takes_notice()]
        self._carrier = takers[-1] if takers else None

    def _grouped(self, slots: List[Slot], prefix: str) -> List[_Group]:
        known = [slot for slot in slots if slot.sparse_dim is not None]
        dense = [s for s in known if not s.sparse_dim or self.sparse_as_dense]
        groups = _make_groups(self._user_groups, dense, prefix)
        taken = {id(slot) for group in groups for slot in group.slots}
        groups += _make_buckets([s for s in reversed(dense) if id(s) not in taken])
        return groups + [_Group([s], None, True) for s in known
                         if s.sparse_dim and not self.sparse_as_dense]

    def _is_news(self) -> bool:
        """This rank knows something that the others have to be told."""
        passes = self.backward_passes_per_step
        if self._changed or self._doubtful:
            self._changed = [(s, s.wanted(passes)) for s in self._slots] != self._told
        return (self._changed or any([slot.left != passes for slot in self._apart])
                or any(slot.has_gradient(passes) for slot in self._unknown))

    def _was_news(self) -> bool:
        """Wait for the sum of the notices."""
        carrier, notice = self._carrier, self._lone_notice
        if carrier is None:
            handle, self._notice = self._notice, None
            synchronize(handle)
        else:
            synchronize(carrier.pending)
            carrier.pending, notice = 0, carrier.notice
        if notice.item() == 0:
            return False
        notice.zero_()
        return True

    # ------------------------------------------------------------------ sending

    def _send_all(self) -> None:
        """Other ranks may have gradients where this one has none (or none yet): send what there
        is."""
        self._look()
        if self._agreed_in != job() and not self._advance():
            return
        for group in self._groups:
            if group.pending is None:
                self._send(group)
        if self._carrier is None and self._notice is None:
            if self._is_news():
                self._lone_notice.fill_(1)
            self._notice = allreduce_async_(self._lone_notice, None, self._notice_name, Sum,
                                            1.0, 1.0, self.process_set)

    def _send_and_agree(self) -> None:
        """Send all gradients of all ranks, after what they have to agree on."""
        if self._agreed_in != job():
            if not self._talks:
                self._groups.clear()  # of another job
            if self._agree():
                self._make_groups()
        self._send_all()
        if self._was_news():
            before = {id(slot) for group in self._groups for slot in group.slots}
            self._agree()
            self._regroup = True
            more = self._grouped([slot for slot in self._order if id(slot) not in before], 'more')
            self._groups += more
            for group in more:
                self._send(group)
        for slot in self._unknown:
            self._make_zeros(slot)

    def _make_zeros(self, slot: Slot) -> None:
        """For a gradient that no rank has, as Horovod makes them."""
        param = slot.param
        if param.grad is None and param.requires_grad and not self._takes_sparse:
            param.grad = torch.zeros_like(param, requires_grad=False)
            slot.made = weakref.ref(param.grad), param.grad._version

    def _send(self, group: _Group) -> None:
        with self._sending:
            if group.pending is not None:
                return
            group.pending = 0
            group.streams.gather()
            if group.sparse:
                slot = group.slots[0]
                slot.pending = sparse_allreduce_async(self._sparse(slot), slot.name, self.op,
                                                      process_set=self.process_set)
                return
            grads = [slot.param.grad for slot in group.slots]
            group.plain = (self._compression is NoneCompressor and not self._idle
                           and not self._changed and not self._doubtful
                           and not self.sparse_as_dense
                           and not any([g is None or g.is_sparse for g in grads]))
            if not group.plain:
                grads = [self._dense(slot) for slot in group.slots]
                for slot, grad in zip(group.slots, grads):
                    slot.sent = self._compression.compress(grad)
                grads = [slot.sent[0] for slot in group.slots]
            if group is self._carrier:
                # 0 stays 0, so that it is made once.
                if group.notice is None or group.notice.dtype is not grads[0].dtype:
                    group.notice = grads[0].new_zeros(1)
                if self._is_news():
                    group.notice.fill_(1)
            try:
                group.pending = self._reduce(group, grads)
            except InvalidOperationError:
                group.pending = None
                raise

    def _dense(self, slot: Slot) -> torch.Tensor:
        """What is sent of a gradient that the ranks take for a dense one."""
        param, grad = slot.param, slot.param.grad
        if not slot.wanted(self.backward_passes_per_step):
            slot.grad = torch.zeros_like(param, requires_grad=False)
            return slot.grad
        if grad is None:
            param.grad = grad = torch.zeros_like(param, requires_grad=False)
        elif grad.is_sparse:
            param.grad = grad = grad.to_dense()
        return grad

    def _sparse(self, slot: Slot) -> torch.Tensor:
        """What is sent of a gradient that the ranks take for a sparse one."""
        param, grad, dims = slot.param, slot.param.grad, slot.sparse_dim
        if grad is None or not slot.wanted(self.backward_passes_per_step):
            return torch.sparse_coo_tensor(
                torch.zeros(dims, 0, dtype=torch.int64, device=param.device),
                torch.zeros(0, *param.shape[dims:], dtype=param.dtype, device=param.device),
                param.shape, **UNCHECKED)
        if grad.is_sparse and grad.sparse_dim() == dims:
            return grad
        return grad.to_dense().to_sparse(dims) if grad.is_sparse else grad.to_sparse(dims)

    def _reduce(self, group: _Group, grads: List[torch.Tensor]) -> int:
        prescale, postscale = self._hvd_scales
        slots, notice = group.slots, [group.notice] if group is self._carrier else []
        if group.name is not None:
            grads += notice
            return grouped_async(ALLREDUCE, grads, grads, group.name, self.op, prescale, postscale,
                                 self.process_set.process_set_id or 0, len(notice))
        if len(grads) == 1 and not notice:
            return allreduce_async_(grads[0], None, slots[0].name, self.op, prescale, postscale,
                                    self.process_set)
        if len({grad.dtype for grad in grads}) > 1 or not self._same_shapes:
            group.plain = False  # each has a handle of its own
            for slot, grad in zip(slots, grads):
                slot.pending = allreduce_async_(grad, None, slot.name, self.op, prescale,
                                                postscale, self.process_set)
            return allreduce_async_(notice[0], None, self._notice_name, self.op, prescale,
                                    postscale, self.process_set) if notice else 0
        grads += notice
        bucket = group.bucket
        if bucket is None or not bucket.fits(grads):
            names = [slot.name for slot in slots] + [self._notice_name] * len(notice)
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
                failure: Optional[Exception] = None
                try:
                    self._send_and_agree()
                except (HorovodInternalError, ValueError) as error:
                    failure = error
                failure = failure or self._receive_all()
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
        handles = [talk.handle for talk in self._talks]
        for handle in handles if self._notice is None else [*handles, self._notice]:
            try:
                synchronize(handle)
            except HorovodInternalError as error:
                failure = failure or error
        return failure

    def _receive(self, group: _Group) -> None:
        if group.pending:
            synchronize(group.pending)
        if group.plain:
            return
        for slot in group.slots:
            if callable(slot.pending):
                reduced = slot.pending()
                if slot.agreed:
                    slot.param.grad = _unless_empty(reduced)
                continue
            if slot.pending is not None:
                synchronize(slot.pending)
            if slot.sent is None:
                continue
            grad = slot.param.grad if slot.grad is None else slot.grad
            if slot.sent[0] is not grad:
                result = self._compression.decompress(*slot.sent)
                with torch.no_grad():
                    grad.copy_(result)
            if slot.agreed:
                slot.param.grad = (_unless_empty(grad.to_sparse(slot.sparse_dim))
                                   if slot.sparse_dim else grad)

    def _reset(self) -> None:
        passes = self.backward_passes_per_step
        for slot in self._slots:
            slot.left = passes
        for group in self._groups:
            if not group.plain:
                for slot in group.slots:
                    slot.pending = slot.sent = slot.grad = None
            group.plain = False
            group.pending = None
            group.left = len(group.slots)
        self._talks.clear()
        self._notice = None
        if self._regroup:
            self._regroup = False
            self._make_groups()

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
        self._stepped.tell()
        try:
            loss = super().step() if closure is None else super().step(closure)
        finally:
            self._synchronized = False
        _core.optimizer_stepped()
        return loss

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
            name = next(s.name for s in self._slots if s.left != self.backward_passes_per_step)
            raise AssertionError(_with_cures(_RACE, name, 'losses', 'network'))
        return super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        self._abandon()
        self._synchronized = False
        self._should_synchronize = True
        super().load_state_dict(*args, **kwargs)
        if self._stepped is not None:
            self._stepped.share(self)


def _unregister(slots: List[Slot], groups: List[_Group], talks: List[Talk]) -> None:
    # Nobody will wait for what is on its way; the next optimizer uses the same names.
    for handle in [group.pending for group in groups] + [slot.pending for slot in slots] + [
            talk.handle for talk in talks]:
        if handle and not callable(handle):
            _handles.forget(handle)
    for slot in slots:
        unregister(slot)


def _unless_empty(sparse: torch.Tensor) -> Optional[torch.Tensor]:
    """A sparse gradient, or None where no rank has had one: optimizers of PyTorch 1 that are made
    for sparse gradients fail at empty ones."""
    return sparse if sparse._nnz() else None


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _checked(groups):
    """The argument `groups`, in which a parameter may appear once."""
    if isinstance(groups, list):
        taken = [id(p) for group in groups for p in group]
        if len(set(taken)) < len(taken):
            raise ValueError('A parameter can only appear once in groups.')
    return groups


def _make_groups(groups, slots: List[Slot], prefix: str) -> List[_Group]:
    """The groups that the user has asked for, of these parameters."""
    if not groups:
        return []
    if isinstance(groups, int):
        members = split_list(slots, groups)
    else:
        by_param = {id(slot.param): slot for slot in slots}
        members = [[by_param[id(p)] for p in group if id(p) in by_param] for group in groups]
    return [_Group(group, f'{prefix}.{number}') for number, group in enumerate(members) if group]


def _make_buckets(slots: List[Slot]) -> List[_Group]:
    """The rest, in the order in which backward() comes to them: by type and device, up to a size.
    """
    made: List[_Group] = []
    filling: Dict[Any, List[Slot]] = {}
    nbytes: Dict[Any, int] = {}
    for slot in slots:
        param = slot.param
        mine = _nbytes(param)
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


#: Optimizers that reduce, in the order in which they were made, and what a wait for something else
#: calls.
_waiting: 'weakref.WeakValueDictionary[int, _DistributedOptimizer]' = \
    weakref.WeakValueDictionary()
_numbers = itertools.count()


def _send_late() -> None:
    for optimizer in list(_waiting.values()):
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
        made._hvd_setup(optimizer, named_parameters, compression, backward_passes_per_step,
                        process_set)
        return made
    made = _derive(optimizer, _DistributedOptimizer)
    made._hvd_setup(optimizer, named_parameters, compression, backward_passes_per_step, op,
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
