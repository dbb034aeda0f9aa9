# SPDX-License-Identifier: Apache-2.0
"""The delta optimizer: what DistributedOptimizer(op=Adasum) gives.

Adasum combines how far each rank wants to go rather than its gradients, so that an optimizer with a
state of its own (momentum, Adam) keeps its meaning: step() lets the user's optimizer step on this
rank's gradients, takes the difference to where the parameters were, combines the differences of all
ranks, each parameter's with a dot product of its own, and goes there from where they were.

Which parameters these are the ranks tell each other in each step, while the user's optimizer makes
its own: all that any rank may move then. These are the ones that it trains, and frozen ones that
have a gradient still: be it zeros, momentum and weight decay move them.
"""
import contextlib
from typing import Any, Dict, Iterator, List, Optional

import torch

from horovod.common.agreement import Fact, Talk
from horovod.common.process_sets import ProcessSet
from horovod.torch.mpi_ops import Adasum, grouped_allreduce_
from horovod.torch.parameters import Roster, Slot, Stepped, names_of
from reigen import _core

COPIED = ('This is a copy of a distributed optimizer, which only keeps its state. Wrap an '
          'optimizer over the copied parameters in DistributedOptimizer and load the state_dict() '
          'into it.')
_NO_SKIP = 'Skipping synchronization is not supported when using Adasum optimizer.'


def _may_move(param: torch.Tensor) -> bool:
    return param.requires_grad or param.grad is not None


class DistributedAdasumOptimizer(torch.optim.Optimizer):
    """What is put before the user's optimizer class; made by DistributedOptimizer(op=Adasum)."""

    #: None in a copy by copy.deepcopy(), which takes over the state alone.
    _roster: Optional[Roster] = None

    def _hvd_setup(self, wrapped: torch.optim.Optimizer, named_parameters: Any, compression: Any,
                   passes: int, process_set: ProcessSet) -> None:
        self._stepped = Stepped(wrapped)
        self._stepped.share(self)
        self._compression = compression
        self.backward_passes_per_step = passes
        self.process_set = process_set
        self.op = Adasum
        self._roster = Roster(*names_of(self.param_groups, named_parameters))
        self._base = min(slot.name for slot in self._look())
        #: Where the parameters were before the last step, by name.
        self._starting_models: Dict[str, torch.Tensor] = {}

    def _look(self) -> List[Slot]:
        """The parameters as they are now."""
        self._roster.look(self.param_groups, 1, lambda slot: None, lambda slot: None)
        return self._roster.slots

    @property
    def _parameter_names(self) -> Dict[torch.Tensor, str]:
        """As Horovod's: what tests and tools compare between ranks."""
        return {slot.param: slot.name for slot in self._look()} if self._roster else {}

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Said by scripts; gradients are summed until step() is called, however often that is."""
        self.backward_passes_per_step = passes

    def synchronize(self) -> None:
        """Nothing: the differences do not exist before step()."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Refused with an AssertionError, as in Horovod: step() is what synchronizes."""
        raise AssertionError(_NO_SKIP)
        yield  # what makes this a context manager

    def load_state_dict(self, *args, **kwargs):
        super().load_state_dict(*args, **kwargs)
        if self._roster is not None:
            self._stepped.share(self)

    def step(self, closure=None) -> Optional[Any]:
        """The user's step on this rank, then the combination of all ranks' steps."""
        if self._roster is None:
            raise RuntimeError(COPIED)
        self._stepped.tell()
        if not self.process_set.included() or self.process_set.size() == 1:
            return super().step() if closure is None else super().step(closure)
        slots = self._look()
        self._keep(slots)
        talk = Talk(f'{self._base}.adasum', self.process_set.process_set_id or 0,
                    {slot.name: Fact(_may_move(slot.param)) for slot in slots})
        try:
            loss = super().step() if closure is None else super().step(closure)
        finally:
            talk.wait()
        by_name = {slot.name: slot for slot in slots}
        with torch.no_grad():
            self._combine([by_name[name] for name in talk.agreed])
        _core.optimizer_stepped()
        return loss

    # As in optimizer.py: the step that torch's hooks belong to is the user's one.
    step.hooked = True

    @torch.no_grad()
    def _keep(self, slots: List[Slot]) -> None:
        """Know where the parameters are that the user's step may change."""
        kept = self._starting_models
        self._starting_models = {}
        for slot in slots:
            param = slot.param
            if _may_move(param):
                start = kept.get(slot.name)
                if start is None or start.shape != param.shape or start.dtype != param.dtype \
                        or start.device != param.device:
                    start = torch.empty_like(param, requires_grad=False)
                self._starting_models[slot.name] = start.copy_(param)

    def _combine(self, slots: List[Slot]) -> None:
        if not slots:
            return
        # What is not kept has not been moved.
        starts = [self._starting_models.get(slot.name, slot.param) for slot in slots]
        pairs = [self._compression.compress(slot.param - start)
                 for start, slot in zip(starts, slots)]
        deltas = grouped_allreduce_([delta for delta, _ in pairs], op=Adasum,
                                    name=f'adasum.{self._base}', process_set=self.process_set)
        for delta, (_, ctx), start, slot in zip(deltas, pairs, starts, slots):
            torch.add(start, self._compression.decompress(delta, ctx), out=slot.param)
