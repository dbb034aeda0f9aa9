# SPDX-License-Identifier: Apache-2.0
"""The delta optimizer: what DistributedOptimizer(op=Adasum) gives.

Adasum combines how far each rank wants to go rather than its gradients, so that an optimizer with a
state of its own (momentum, Adam) keeps its meaning: step() lets the user's optimizer step on this
rank's gradients, takes the difference to where the parameters were, combines the differences of all
ranks, each parameter's with a dot product of its own, and goes there from where they were.
"""
import contextlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from horovod.common.process_sets import ProcessSet
from horovod.torch.mpi_ops import Adasum, grouped_allreduce_

COPIED = ('This is a copy of a distributed optimizer, which only keeps its state. Wrap an '
          'optimizer over the copied parameters in DistributedOptimizer and load the state_dict() '
          'into it.')
_NO_SKIP = 'Skipping synchronization is not supported when using Adasum optimizer.'


class DistributedAdasumOptimizer(torch.optim.Optimizer):
    """What is put before the user's optimizer class; made by DistributedOptimizer(op=Adasum)."""

    #: What takes part. None in a copy by copy.deepcopy(), which takes over the state alone.
    _named: Optional[List[Tuple[str, torch.Tensor]]] = None

    def _hvd_setup(self, names: Dict[int, str], compression: Any, passes: int,
                   process_set: ProcessSet) -> None:
        self._compression = compression
        self.backward_passes_per_step = passes
        self.process_set = process_set
        self.op = Adasum
        self._names = names
        self._named = []
        #: Where the parameters were before the last step.
        self._starting_models: List[torch.Tensor] = []
        for number in range(len(self.param_groups)):
            self._take(number)

    @property
    def _parameter_names(self) -> Dict[torch.Tensor, str]:
        """As Horovod's: what tests and tools compare between ranks."""
        return {param: name for name, param in self._named or ()}

    def _take(self, number: int) -> None:
        params = self.param_groups[number]['params']
        for place, param in enumerate(params):
            if param.requires_grad:
                name = self._names.get(id(param), f'allreduce.noname.{number}.{place}')
                self._named.append((name, param))
                self._starting_models.append(torch.empty_like(param, requires_grad=False))

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """As torch's; the new parameters' steps are combined as the others' are."""
        super().add_param_group(param_group)
        if self._named is not None:
            self._take(len(self.param_groups) - 1)

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

    def step(self, closure=None) -> Optional[Any]:
        """The user's step on this rank, then the combination of all ranks' steps."""
        if self._named is None:
            raise RuntimeError(COPIED)
        if not self._named or not self.process_set.included() or self.process_set.size() == 1:
            return super().step() if closure is None else super().step(closure)
        with torch.no_grad():
            for start, (_, param) in zip(self._starting_models, self._named):
                start.copy_(param)
        loss = super().step() if closure is None else super().step(closure)
        with torch.no_grad():
            self._combine()
        return loss

    # As in optimizer.py: the step that torch's hooks belong to is the user's one.
    step.hooked = True

    def _combine(self) -> None:
        params = [param for _, param in self._named]
        pairs = [self._compression.compress(param - start)
                 for start, param in zip(self._starting_models, params)]
        deltas = grouped_allreduce_([delta for delta, _ in pairs], op=Adasum,
                                    name=f'adasum.{self._named[0][0]}',
                                    process_set=self.process_set)
        for delta, (_, ctx), start, param in zip(deltas, pairs, self._starting_models, params):
            torch.add(start, self._compression.decompress(delta, ctx), out=param)
